import EntitlementSync
import Entitlements
import StoreEvidence
import SyncCore
import SyncService

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
                    kind: .support, facts: history.entries.flatMap { $0.facts(in: environment) },
                    signedDate: nil))
        case .history, .facts, .userdefaults, .parse, .parseMongo, .revenueCat: return nil
        }
    }

    func importEvidence(_ statement: Statement) async throws {
        let evidence =
            switch statement {
            case .signed(let item): item.evidence
            case .unsigned(let evidence): evidence
            }
        let count = evidence.facts.count { $0.purchase != nil }
        let summary = "\(format.rawValue) with \(plural(count, "purchase"))"
        try await support.record(act: "import", summary: summary, reason: reason.reason, creation, options) {
            try await $0.record(evidence, $1)
        } onDevice: { store in
            switch statement {
            case .signed(let item): try await record(item, into: store, options.output)
            case .unsigned:
                let receipt = try await store.record(evidence.facts.compactMap { Evidence(unsigned: $0) })
                try show(
                    receipt, of: receipt.transactions.count, "purchase", "purchases", in: store,
                    warnings: evidence.warnings)
            }
        }
    }
}

extension Evidence {
    /// A statement without a signature; `nil` for facts that stores do not state.
    init?(unsigned fact: Fact) {
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
    func facts(in environment: EnvironmentID) -> [Fact] {
        let stamp = Stamp(logicalTime: .zero)
        let reference = TransactionReference(store: store, environment: environment, id: transaction)
        let purchase = Purchase(
            transaction: reference, product: product, terms: nil, date: purchaseDate, quantity: quantity,
            storeExpiry: expiresDate, stamp: stamp)
        return [.purchase(purchase)]
            + (revokedAt.map { [.revocation(Revocation(transaction: reference, revokedAt: $0, stamp: stamp))] } ?? [])
    }
}
