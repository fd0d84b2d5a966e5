import EntitlementSync
import Entitlements
import StoreEvidence
import SyncCore

// Imports of what a store has stated, and of what support states in the server's name.
extension Import {
    /// The statements of an import about purchases.
    enum Statement {
        /// A receipt that the store has signed.
        case signed(EvidenceItem)
        /// Statements without a signature.
        case unsigned(VerifiedEvidence)
    }

    /// Reads and verifies the file; `nil` for a format that states more than purchases, or belongs to this device.
    func evidence() throws -> Statement? {
        let environment = options.catalog.environmentID
        switch format {
        case .receipt:
            try appStore.requireBundle(for: "the format receipt")
            return .signed(
                try EvidenceItem(
                    receipt: EvidenceFile(file).receipt(), appStore.verifier(of: environment),
                    now: support.verificationTime,
                    expiryTime: Timestamp(milliseconds: HostServices.system.now())))
        case .verifyReceipt:
            try appStore.requireBundle(for: "the format verify-receipt")
            let evidence = try VerifyReceiptAnswer.evidence(EvidenceFile(file).bytes, bundleIDs: Set(appStore.bundle))
            try evidence.check(environment)
            return .unsigned(evidence)
        case .history where support.asServer:
            let history = try readDocument(file) { try History(json: $0, catalog: options.catalog.load()) }
            return .unsigned(
                VerifiedEvidence(
                    kind: .verifyReceipt, facts: history.entries.flatMap { $0.facts(in: environment) },
                    signedDate: nil))
        case .history, .facts, .userdefaults, .parse, .parseMongo: return nil
        }
    }

    func importEvidence(_ statement: Statement) async throws {
        switch statement {
        case .signed(let signed) where !support.asServer:
            try await record(signed, into: try await options.openStore(creating: creation), options.output)
        case .unsigned(let evidence) where !support.asServer:
            try await importStatements(of: evidence, into: try await options.openStore(creating: creation))
        case .signed(let signed): try await importAsServer(signed.evidence)
        case .unsigned(let evidence): try await importAsServer(evidence)
        }
    }

    private func importAsServer(_ evidence: VerifiedEvidence) async throws {
        let count = evidence.facts.count { if case .purchase = $0 { true } else { false } }
        try await support.record(
            evidence, "import", "\(format.rawValue) with \(plural(count, "purchase"))", reason.reason, creation,
            options)
    }

    /// Records unsigned evidence as statements of this device.
    private func importStatements(of evidence: VerifiedEvidence, into store: EntitlementStore) async throws {
        let receipt = try await store.record(evidence.facts.compactMap { Evidence(unsigned: $0) })
        let count = receipt.transactions.count
        try show(receipt, ("purchases", count), plural(count, "purchase"), in: store, warnings: evidence.warnings)
    }
}

extension Evidence {
    /// A statement without a signature; `nil` for facts that stores do not state.
    fileprivate init?(unsigned fact: Fact) {
        switch fact {
        case .purchase(let purchase):
            self = .reported(
                purchase.product, transaction: purchase.transaction.id, date: purchase.date,
                quantity: purchase.quantity, expires: purchase.storeExpiry, original: purchase.originalID,
                isIntroductory: purchase.isIntroductory, store: purchase.transaction.store,
                environment: purchase.transaction.environment)
        case .revocation(let revocation):
            guard let date = revocation.revokedAt else { return nil }
            self = .refunded(revocation.transaction, at: date, reason: revocation.reason)
        case .renewalState(let state):
            self = .renewal(
                of: state.line, willRenew: state.willRenew, graceEnd: state.graceEnd,
                isInBillingRetry: state.isInBillingRetry, pendingProduct: state.pendingProduct)
        default: return nil
        }
    }
}

extension History.Entry {
    /// The purchase, and its revocation.
    fileprivate func facts(in environment: EnvironmentID) -> [Fact] {
        let stamp = Stamp(logicalTime: .zero)
        let reference = TransactionReference(store: store, environment: environment, id: transaction)
        let purchase = Purchase(
            transaction: reference, product: product, terms: nil, date: purchaseDate, quantity: quantity,
            storeExpiry: expiresDate, stamp: stamp)
        return [.purchase(purchase)]
            + (revokedAt.map { [.revocation(Revocation(transaction: reference, revokedAt: $0, stamp: stamp))] } ?? [])
    }
}
