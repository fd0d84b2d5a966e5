import EntitlementSync
package import Entitlements
package import StoreEvidence
package import SyncCore

/// Acts of support on a server's store, beside a running server: facts in the server's name, and their audit entries.
///
/// The entry is appended before anything else is written, so an act without an entry is impossible. An act that is
/// interrupted has an entry and may be half done: repeat it. An act that fails after its entry gets a second entry that
/// says so. Nothing is written for an act that is refused, also if the server ledger has no room for its facts.
///
/// The policy that the account's server ledger states stays as it is, because only the server knows its policy.
package struct SupportActs: Sendable {
    /// The circumstances of an act.
    package struct Order: Sendable {
        /// The name of the account.
        package var account: String
        /// The act in the audit list: `record` or `import`.
        package var act: String
        /// The content of the act, for the audit list.
        package var summary: String
        /// The person or program that acts.
        package var operatorName: String
        /// The reason.
        package var reason: String

        /// Creates a value.
        package init(account: String, act: String, summary: String, operatorName: String, reason: String) {
            (self.account, self.act, self.summary) = (account, act, summary)
            (self.operatorName, self.reason) = (operatorName, reason)
        }
    }

    /// A finished act.
    package struct Outcome: Sendable {
        /// The facts in the server ledger.
        package var facts: [Fact]
        /// The audit entry; `nil` if there was nothing to do.
        package var entry: AuditLog.Entry?
        /// The revoked transactions of which the account has no purchase. The revocation counts once there is one.
        package var unknown: [TransactionReference] = []
    }

    /// The length of a reason, in bytes.
    package static let reasonByteCounts = 1...1_000
    /// The length of an operator's name, in bytes.
    package static let operatorByteCounts = 1...255

    private let records: RecordStore
    private let recorder: EvidenceRecorder
    private let audit: AuditLog
    private let catalog: Catalog
    private let host: HostServices

    /// Acts on `store`, the store of a server.
    ///
    /// - Parameters:
    ///   - catalog: The catalogue that gives terms to purchases.
    ///   - ownership: The server's rule for a purchase that two accounts claim.
    ///   - digest: SHA-256.
    package init(
        store: any KeyValueBackend, catalog: Catalog, ownership: ServiceConfiguration.Ownership = .keepWithFirst,
        digest: @escaping @Sendable ([UInt8]) -> [UInt8], host: HostServices = .system
    ) {
        (records, self.catalog, self.host) = (RecordStore(backend: store), catalog, host)
        let writer = ServerLedgerWriter(
            records: records, decoder: LedgerDecoder(), policy: nil, catalog: catalog, now: host.now)
        var configuration = ServiceConfiguration(name: "support", catalog: catalog)
        configuration.ownership = ownership
        let claims = TransactionOwners(records: records, policy: configuration.ownership)
        recorder = EvidenceRecorder(records, claims, writer, configuration, host, digest: digest)
        audit = AuditLog(store: store, digest: digest)
    }

    /// Records a purchase, a revocation, a reinstatement or a renewal state as if the store had signed it now.
    ///
    /// - Parameters:
    ///   - fact: The statement. Its stamp is replaced.
    ///   - isDated: False if the date of a purchase is a default, which a known date replaces.
    /// - Throws: ``SupportError``, or the store's error.
    package func record(_ fact: Fact, isDated: Bool = true, _ order: Order) async throws -> Outcome {
        let account = try await check(order)
        let ledger = try await recorder.writer.read(account)
        let stated = try prepared(fact, isDated: isDated, ledger)
        let line = stated.transaction.flatMap { ledger.line(of: $0) }
        let evidence = VerifiedEvidence(kind: .appStoreTransaction, facts: [stated], signedDate: nil, line: line)
        return try await perform(evidence, for: account, order)
    }

    /// Records what `evidence` states. Unsigned statements yield to signed ones. Later imports replace earlier ones.
    ///
    /// - Throws: ``SupportError``, or the store's error.
    package func record(_ evidence: VerifiedEvidence, _ order: Order) async throws -> Outcome {
        let account = try await check(order)
        var evidence = evidence
        let time = LogicalTime.zero.next(at: now)
        // The file says which account it belongs to: the one that the operator names.
        evidence.accountToken = nil
        evidence.facts = evidence.facts.map { fact in
            fact.stamp?.signedDate == nil ? fact.stamped(Stamp(logicalTime: time)) : fact
        }
        return try await perform(evidence, for: account, order)
    }

    /// Records paid time, unless it is covered already.
    ///
    /// - Throws: ``SupportError``, or the store's error.
    package func grant(
        _ reference: Assertion.Reference, assertedAt: Timestamp?, _ order: Order
    ) async throws -> Outcome {
        let account = try await check(order)
        guard catalog.groups.contains(reference.group) else {
            throw SupportError(.unknownProduct, "the catalogue has no group \"\(reference.group.rawValue.singleLine)\"")
        }
        do { try reference.source.validate() } catch { throw SupportError(.invalid, "source: \(error)") }
        let facts = try await facts(of: account)
        let replay = Replay(facts, catalog: catalog, environment: reference.environment)
        let latest = facts.purchases.last { $0.transaction.environment == reference.environment }?.date
        let date = max(assertedAt ?? now, latest ?? .earliest)
        if let chain = replay.timelines[reference.group]?.chain(at: date), chain.end >= reference.until {
            return Outcome(facts: [], entry: nil)
        }
        guard let replica = ReplicaID(bytes: Self.replica) else { preconditionFailure("an id has 16 bytes") }
        let assertion = Assertion(
            reference, assertedAt: date, recordedAt: now, replica: replica,
            logicalTime: facts.latestTime.next(at: now))
        let evidence = VerifiedEvidence(kind: .appStoreTransaction, facts: [.assertion(assertion)], signedDate: nil)
        return try await perform(evidence, for: account, order)
    }

    /// The replica of statements that no device made.
    private static let replica = [UInt8](repeating: 0, count: 16)

    private var now: Timestamp { Timestamp(milliseconds: host.now()) }
}

extension SupportActs {
    /// Checks the circumstances, and returns the account.
    private func check(_ order: Order) async throws -> Account {
        guard Self.reasonByteCounts.contains(order.reason.utf8.count) else {
            throw SupportError(.invalid, "the reason must have 1 to 1,000 bytes, not \(order.reason.utf8.count)")
        }
        guard Self.operatorByteCounts.contains(order.operatorName.utf8.count) else {
            throw SupportError(
                .invalid, "the operator's name must have 1 to 255 bytes, not \(order.operatorName.utf8.count)")
        }
        try await records.checkServer()
        try await ClockRollbackGuard.check(host.now(), against: records)
        let name = order.account.singleLine
        guard AccountName.canExist(order.account),
            let record = try await records.read(try AccountRecord.key(of: order.account), as: AccountRecord.self)?.value
        else { throw SupportError(.unknownAccount, "this server's store has no account \"\(name)\"") }
        guard let account = record.activeAccount else {
            throw SupportError(.erasedAccount, "the account \"\(name)\" was erased")
        }
        return account
    }

    /// Checks `fact` against the server ledger, and signs it now.
    private func prepared(_ fact: Fact, isDated: Bool, _ ledger: ServerLedger) throws -> Fact {
        var fact = fact
        let known = ledger.ledger[fact.record.key].map { Fact($0) }
        switch fact {
        case .purchase(var purchase):
            guard catalog.terms(of: purchase.product) != nil else {
                throw SupportError(
                    .unknownProduct, "the catalogue has no product \"\(purchase.product.rawValue.singleLine)\"")
            }
            guard Purchase.quantityRange.contains(purchase.quantity) else {
                throw SupportError(.invalid, "quantity must be 1 to 10,000, not \(purchase.quantity)")
            }
            if case .purchase(let other)? = known {
                if !isDated { purchase.date = other.date }
                try purchase.checkAgreement(with: other)
            }
            fact = .purchase(purchase)
        case .renewalState(let state):
            let purchase = ledger.facts.lazy.compactMap(\.purchase).first { $0.line == state.line }
            if let purchase, let terms = purchase.terms ?? catalog.terms(of: purchase.product) {
                guard case .autoRenewable = terms.kind else {
                    throw SupportError(
                        .invalid,
                        "transaction \"\(state.line.id.rawValue.singleLine)\" has no renewal state: "
                            + "\"\(purchase.product)\" does not renew")
                }
            }
        case .revocation: break
        default: preconditionFailure("only statements about transactions are signed")
        }
        do { try fact.validateIdentifiers() } catch { throw SupportError(.invalid, "\(error)") }
        // A store's clock may be ahead of this one.
        var date = now
        if let signed = known?.stamp?.signedDate, signed >= date {
            date = Timestamp(milliseconds: signed.milliseconds + 1)
        }
        return fact.stamped(.signed(at: date))
    }

    /// Appends the audit entry, and then writes the facts.
    private func perform(_ evidence: VerifiedEvidence, for account: Account, _ order: Order) async throws -> Outcome {
        let review = try await recorder.review(evidence, for: account)
        if let other = review.refused.first {
            throw SupportError(.ownedByAnother, "\(other) belongs to another account; nothing was changed")
        }
        do throws(BackendError) { try await recorder.writer.checkRoom(for: review.facts, of: account) } catch {
            throw Self.refusal(error, account)
        }
        let unknown = try await unknownTransactions(in: review.facts, of: account)
        let entry = try await audit.append(
            AuditLog.Entry(
                date: "\(now)", act: order.act, account: order.account,
                line: review.lines.count == 1 ? "\(review.lines[0])" : "", actor: order.operatorName,
                detail: "\(order.summary): \(order.reason)"))
        do {
            try await write(evidence, review, for: account)
        } catch {
            var failure = entry
            (failure.date, failure.act) = ("\(now)", "failed")
            failure.detail = "entry \(entry.number) was not carried out: \(error)"
            do throws(BackendError) { try await audit.append(failure) } catch let other {
                throw Self.error(error, withoutEntry: other)
            }
            throw error
        }
        return Outcome(facts: evidence.facts, entry: entry, unknown: unknown)
    }

    /// The transactions that `facts` revoke without a purchase of the account.
    private func unknownTransactions(
        in facts: [Fact], of account: Account
    ) async throws -> [TransactionReference] {
        let purchases = facts.compactMap(\.purchase?.transaction)
        var revoked: [TransactionReference] = []
        for case .revocation(let revocation) in facts where revocation.revokedAt != nil {
            if !purchases.contains(revocation.transaction) { revoked.append(revocation.transaction) }
        }
        guard !revoked.isEmpty else { return [] }
        let known = try await self.facts(of: account)
        return revoked.filter { known[$0] == nil }
    }

    /// The facts of the account's ledger and of its server ledger.
    private func facts(of account: Account) async throws -> Facts {
        let keys = try LedgerKeys(account)
        var known = Ledger()
        if case .found(let entry) = try await records.backend.read(keys.ledger).outcome {
            known = try LedgerRules.stored(entry, keys.ledger)
        }
        return Facts(account: known, server: try await recorder.writer.read(account).ledger)
    }

    private func write(
        _ evidence: VerifiedEvidence, _ review: EvidenceRecorder.Review, for account: Account
    ) async throws {
        let erased = SupportError(.erasedAccount, "the account \"\(account)\" was erased in the meantime")
        do throws(BackendError) {
            guard review.mayClaim else {
                let date = now
                let version = try await recorder.writer.update(account) { (ledger) async throws(BackendError) in
                    _ = ledger.add(review.facts, catalog: catalog, at: date)
                }
                if version == nil { throw BackendError(.other, message: "erased", cause: erased) }
                return
            }
            let outcome = try await recorder.record(evidence, from: account, isRestore: false)
            guard let other = outcome.refused.first else { return }
            let isActive = try await records.isActive(account)
            throw BackendError(
                .other, message: "refused",
                cause: isActive ? SupportError(.ownedByAnother, "\(other) belongs to another account") : erased)
        } catch {
            throw Self.refusal(error, account)
        }
    }

    /// The refusal that `error` stands for, or `error` itself.
    private static func refusal(_ error: BackendError, _ account: Account) -> any Error {
        if let cause = error.cause as? SupportError { return cause }
        guard error.cause is LedgerFull else { return error }
        return SupportError(.ledgerFull, "the server ledger of \"\(account)\" is full: \(error.message)")
    }

    /// The error of an act whose failure could not be entered into the audit list because of `other`.
    private static func error(_ error: any Error, withoutEntry other: BackendError) -> any Error {
        let text = "; the failure could not be entered into the audit list: \(other)"
        switch error {
        case let error as SupportError: return SupportError(error.kind, error.description + text)
        case let error as BackendError:
            return BackendError(
                error.kind, operation: error.operation, key: error.key, disposition: error.disposition,
                message: error.message + text, cause: error.cause, retryAfter: error.retryAfter)
        default: return error
        }
    }
}

/// The refusal of an act of support. Nothing was changed, unless an audit entry says that the act failed.
package struct SupportError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kinds of refusals.
    package enum Kind: Hashable, Sendable {
        /// The store is not that of a server.
        case notAServer
        /// The clock is behind the latest time in the store, so statements would be dated before older ones.
        case clockIsBehind
        /// There is no such account.
        case unknownAccount
        /// The account was erased.
        case erasedAccount
        /// The line, or a transaction, belongs to another account.
        case ownedByAnother
        /// The catalogue has no such product or group.
        case unknownProduct
        /// The server ledger has the transaction with another content.
        case contradiction
        /// The server ledger has reached its limits.
        case ledgerFull
        /// A value is out of range.
        case invalid
    }

    /// The kind.
    package var kind: Kind
    /// The reason, on one line.
    package var description: String

    init(_ kind: Kind, _ description: String) { (self.kind, self.description) = (kind, description) }
}
