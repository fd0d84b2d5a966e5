package import EntitlementSync
package import Entitlements
package import StoreEvidence
package import SyncCore

/// Acts of support on a server's store, beside a running server: facts in the server's name, and their audit entries.
///
/// The entry is appended before anything else is written, so an act without an entry is impossible. An act that is
/// interrupted has an entry and may be half done: repeat it. An act that fails after its entry gets a second entry that
/// says so. Nothing is written for an act that is refused, also if the server ledger has no room for its facts.
///
/// An act takes no purchase that another account holds, unless its order is a transfer. A purchase that several
/// accounts share cannot be transferred.
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
        /// True if the act may take purchases from other accounts.
        package var isTransfer: Bool

        /// Creates a value.
        package init(
            account: String, act: String, summary: String, operatorName: String, reason: String,
            isTransfer: Bool = false
        ) {
            (self.account, self.act, self.summary) = (account, act, summary)
            (self.operatorName, self.reason, self.isTransfer) = (operatorName, reason, isTransfer)
        }
    }

    /// A finished act.
    package struct Outcome: Sendable {
        /// The account, whose own name may be spelled differently than in the order.
        package var account: Account
        /// The facts in the server ledger.
        package var facts: [Fact]
        /// The audit entry; `nil` if there was nothing to do.
        package var entry: AuditLog.Entry?
        /// The revoked transactions of which the account has no purchase. The revocation counts once there is one.
        package var unknown: [TransactionReference] = []
        /// The accounts from which a transfer took purchases, in ascending order.
        package var formerOwners: [Account] = []
        /// The end of the group's paid time after a grant; `nil` for other acts, and if none of the granted time
        /// counts.
        package var end: Timestamp?
    }

    /// The group, the system and the environment of paid time.
    package struct PaidGroup: Sendable {
        /// The group.
        package var group: GroupID
        /// The name of the system or campaign that grants the time.
        package var source: SourceID
        /// The environment in which the time counts.
        package var environment: EnvironmentID
        /// The level of time that is added to an auto-renewable group; `nil` for the lowest level of its products.
        package var level: Int64?

        /// Creates a value.
        package init(
            _ group: GroupID, from source: SourceID, in environment: EnvironmentID = .production, level: Int64? = nil
        ) {
            (self.group, self.source, self.environment, self.level) = (group, source, environment, level)
        }
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
    package init(
        store: any KeyValueBackend, catalog: Catalog, ownership: ServiceConfiguration.Ownership = .keepWithFirst,
        host: HostServices = .system
    ) {
        (records, self.catalog, self.host) = (RecordStore(backend: store), catalog, host)
        let writer = ServerLedgerWriter(
            records: records, decoder: LedgerDecoder(), policy: nil, catalog: catalog, now: host.now)
        var configuration = ServiceConfiguration(name: "support", catalog: catalog)
        configuration.ownership = ownership
        let claims = TransactionOwners(records: records, policy: configuration.ownership)
        recorder = EvidenceRecorder(records, claims, writer, configuration, host)
        audit = AuditLog(store: store)
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

    /// Records that a group is paid until an instant, unless that is covered already.
    ///
    /// - Parameter assertedAt: The date of the statement; the default is now.
    /// - Throws: ``SupportError``, or the store's error.
    package func grant(
        _ paid: PaidGroup, until: Timestamp, assertedAt: Timestamp?, _ order: Order
    ) async throws -> Outcome {
        let account = try await check(order)
        try check(paid)
        let facts = try await facts(of: account)
        let date = facts.assertionDate(assertedAt ?? now, in: paid.environment)
        let timeline = timeline(of: paid, facts)
        if let chain = timeline.chain(at: date), chain.end >= until {
            return Outcome(account: account, facts: [], entry: nil)
        }
        guard let replica = ReplicaID(bytes: [UInt8](repeating: 0, count: 16)) else {
            preconditionFailure("an id has 16 bytes")
        }
        let assertion = Assertion(
            Assertion.Reference(
                group: paid.group, source: paid.source, until: until, environment: paid.environment),
            assertedAt: date, recordedAt: now, replica: replica, logicalTime: facts.latestTime.next(at: now))
        let evidence = VerifiedEvidence(kind: .appStoreTransaction, facts: [.assertion(assertion)], signedDate: nil)
        var outcome = try await perform(evidence, for: account, order)
        outcome.end = self.timeline(of: paid, try await self.facts(of: account)).end(reaching: until)
        return outcome
    }

    /// Adds `duration` to the end of what is paid for a group, unless the group never ends.
    ///
    /// The time is a purchase of the store `support`, whose product is named after the source. So later purchases
    /// follow it, refunds of earlier ones do not prolong it, and it can be refunded. In an auto-renewable group it has
    /// a level, and begins at the end of the current period, whether the subscription renews or not.
    ///
    /// - Parameters:
    ///   - transaction: The id of the purchase. One id adds the time once.
    ///   - date: The date from which the time counts at the earliest; the default is now.
    /// - Throws: ``SupportError``, or the store's error.
    package func add(
        _ duration: CalendarDuration, to paid: PaidGroup, transaction: TransactionID, at date: Timestamp?,
        _ order: Order
    ) async throws -> Outcome {
        let account = try await check(order)
        try check(paid)
        let transaction = TransactionReference(store: .support, environment: paid.environment, id: transaction)
        let timeline = timeline(of: paid, try await facts(of: account))
        let start = timeline.startOfTime(addedAt: date ?? now)
        guard start != .latest else { return Outcome(account: account, facts: [], entry: nil) }
        let level = try level(of: paid)
        let kind: ProductKind =
            level.map { .autoRenewable(group: paid.group, level: $0, duration: duration, introductory: nil) }
            ?? .nonRenewing(group: paid.group, duration: duration)
        let purchase = Purchase(
            transaction: transaction, product: ProductID(paid.source.rawValue),
            terms: Terms(kind: kind, bonus: .zero), date: level == nil ? date ?? now : start,
            stamp: Stamp(logicalTime: .zero))
        var outcome = try await record(.purchase(purchase), isDated: false, order)
        let after = self.timeline(of: paid, try await facts(of: account))
        outcome.end = after.periods.first { $0.transaction == transaction }.flatMap { after.end(reaching: $0.end) }
        return outcome
    }

    private func check(_ paid: PaidGroup) throws(SupportError) {
        guard catalog.groups.contains(paid.group) else {
            throw SupportError(.unknownProduct, "the catalogue has no group \"\(paid.group.rawValue.singleLine)\"")
        }
        do { try paid.source.validate() } catch { throw SupportError(.invalid, "source: \(error)") }
    }

    /// The level of time that is added to a group; `nil` for a group without levels.
    private func level(of paid: PaidGroup) throws(SupportError) -> Int64? {
        let levels = catalog.products.compactMap { product -> Int64? in
            if case .autoRenewable(paid.group, let level, _, _) = product.kind { level } else { nil }
        }
        guard let level = paid.level else { return levels.max() }
        guard levels.contains(level) else {
            let known = Set(levels).sorted().map { "\($0)" }.joined(separator: ", ")
            throw SupportError(
                .invalid,
                known.isEmpty
                    ? "level: group \"\(paid.group.rawValue.singleLine)\" has no levels"
                    : "level must be one of \(known), the levels of \"\(paid.group.rawValue.singleLine)\", not \(level)"
            )
        }
        return level
    }

    private func timeline(of paid: PaidGroup, _ facts: Facts) -> Timeline {
        Replay(facts, catalog: catalog, environment: paid.environment).timelines[paid.group] ?? Timeline()
    }

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
        guard let record = try await record(of: order.account), !record.isUnused else {
            throw SupportError(.unknownAccount, "this server's store has no account \"\(name)\"")
        }
        guard let account = record.activeAccount else {
            throw SupportError(.erasedAccount, "the account \"\(name)\" was erased")
        }
        return account
    }

    /// The record of the account that `name` means. The exact name comes first, also of an erased account.
    private func record(of name: String) async throws -> AccountRecord? {
        guard AccountName.canExist(name) else { return nil }
        let resolved: String
        do {
            resolved = try await AccountAliases(records: records).resolveExactly(name)
        } catch let error as RequestError {
            throw SupportError(.unknownAccount, error.detail)
        }
        return try await records.read(try AccountRecord.key(of: resolved), as: AccountRecord.self)?.value
    }

    /// Checks `fact` against the server ledger, and signs it now.
    private func prepared(_ fact: Fact, isDated: Bool, _ ledger: ServerLedger) throws -> Fact {
        var fact = fact
        let known = ledger.ledger[fact.record.key].map { Fact($0) }
        switch fact {
        case .purchase(var purchase):
            guard purchase.terms != nil || catalog.terms(of: purchase.product) != nil else {
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
        if order.isTransfer, recorder.lines.policy == .share {
            throw SupportError(.invalid, "accounts share purchases on this server, so there is no transfer")
        }
        let review = try await recorder.review(evidence, for: account)
        if let (transaction, owners) = review.shared.first {
            let names = owners.map { "\"\("\($0)".singleLine)\"" }.joined(separator: " and ")
            throw SupportError(.ownedByAnother, "\(transaction) is shared by \(names); nothing was changed")
        }
        if let (transaction, owner) = review.held.first, !order.isTransfer {
            throw SupportError(
                .ownedByAnother,
                "\(transaction) belongs to \"\("\(owner)".singleLine)\"; nothing was changed; to move it to "
                    + "\"\("\(account)".singleLine)\", repeat with --transfer")
        }
        let formerOwners = Set(review.held.map(\.owner)).sorted()
        do throws(BackendError) { try await recorder.writer.checkRoom(for: review.facts, of: account) } catch {
            throw Self.refusal(error, account)
        }
        let unknown = try await unknownTransactions(in: review.facts, of: account)
        let entry = try await audit.append(
            AuditLog.Entry(
                date: "\(now)", act: order.act, account: account.name ?? order.account,
                line: review.lines.count == 1 ? "\(review.lines[0])" : "", actor: order.operatorName,
                detail: order.summary + Self.taken(from: formerOwners) + ": \(order.reason)"))
        do {
            try await write(evidence, review, for: account, order)
        } catch {
            var failure = entry
            (failure.date, failure.act) = ("\(now)", "failed")
            failure.detail = "entry \(entry.number) was not completed: \(error)"
            do throws(BackendError) { try await audit.append(failure) } catch let other {
                throw Self.error(error, withoutEntry: other)
            }
            throw error
        }
        return Outcome(
            account: account, facts: evidence.facts, entry: entry, unknown: unknown, formerOwners: formerOwners)
    }

    /// The former owners of purchases that a transfer takes, for the audit list.
    private static func taken(from owners: [Account]) -> String {
        guard !owners.isEmpty else { return "" }
        return ", taken from " + owners.map { "\"\("\($0)".singleLine)\"" }.joined(separator: ", ")
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
        Facts(account: try await recorder.ledger(of: account), server: try await serverLedger(of: account).ledger)
    }

    /// The server ledger of the account, which states the server's policy.
    private func serverLedger(of account: Account) async throws -> ServerLedger {
        var server = try await recorder.writer.read(account)
        if let policy = try await records.statedPolicy() { _ = server.set(policy, at: now) }
        return server
    }

    private func write(
        _ evidence: VerifiedEvidence, _ review: EvidenceRecorder.Review, for account: Account, _ order: Order
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
            let outcome = try await recorder.record(
                evidence, from: account, isRestore: false,
                transferActor: order.isTransfer ? order.operatorName : nil)
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
