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
        /// The end of the group's paid time after a credit; `nil` for other acts, and if none of the added time counts.
        package var end: Timestamp?
        /// Hints about what was left out or does not count, one line each.
        package var warnings: [String] = []
    }

    /// The catalogue that gives terms to purchases.
    package let catalog: Catalog
    let records: RecordStore
    let recorder: EvidenceRecorder
    let audit: AuditLog
    let host: HostServices

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
        var configuration = ServiceConfiguration(name: "support", catalog: catalog)
        configuration.ownership = ownership
        recorder = EvidenceRecorder(besideServer: records, configuration, host)
        audit = AuditLog(store: store)
    }

    /// Acts with the recorder of a server.
    init(_ recorder: EvidenceRecorder, catalog: Catalog, host: HostServices) {
        (self.recorder, self.catalog, self.host) = (recorder, catalog, host)
        records = recorder.owners.records
        audit = AuditLog(store: records.backend)
    }

    /// The same acts on a store whose changes stay in memory.
    func tried(on trial: TrialStore) -> SupportActs {
        var writer = ServerLedgerWriter(
            records: RecordStore(backend: trial), decoder: LedgerDecoder(), policy: recorder.writer.policy,
            catalog: recorder.writer.catalog, now: host.now)
        writer.facade = recorder.writer.facade
        let owners = Owners(records: writer.records, policy: recorder.owners.policy, writer: writer)
        return SupportActs(
            EvidenceRecorder(owners, ServiceConfiguration(name: "support"), host), catalog: catalog, host: host)
    }

    /// Records what `evidence` states. Purchases, revocations, reinstatements and renewal states count as if the store
    /// had signed them now. Paid time that is covered already is not recorded.
    ///
    /// - Throws: ``SupportError``, or the store's error.
    package func record(_ evidence: Evidence, _ order: Order) async throws -> Outcome {
        let account = try await check(order)
        if case .assertion(let asserted) = evidence.content { return try await credit(asserted, to: account, order) }
        return try await perform(try await statement(of: evidence, undated: now, for: account), for: account, order)
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

    /// Adds `duration` to the end of what is paid for a group, unless the group never ends.
    ///
    /// The time is a purchase of the store `support`, whose product is named after the source. So later purchases
    /// follow it, refunds of earlier ones do not prolong it, and it can be refunded. In an auto-renewable group it has
    /// a level, and begins at the end of the current period, whether the subscription renews or not.
    ///
    /// - Parameters:
    ///   - level: The level of time in an auto-renewable group; `nil` for the lowest level of its products.
    ///   - source: The name of the system or campaign that gives the time.
    ///   - environment: The environment in which the time counts.
    ///   - transaction: The id of the purchase. One id adds the time once.
    ///   - date: The date from which the time counts at the earliest; the default is now.
    /// - Throws: ``SupportError``, or the store's error.
    package func credit(
        _ duration: CalendarDuration, to group: GroupID, level: Int64? = nil, from source: SourceID,
        in environment: EnvironmentID = .production, transaction: TransactionID, at date: Timestamp? = nil,
        _ order: Order
    ) async throws -> Outcome {
        let account = try await check(order)
        let gift = Gift(
            group: group, product: ProductID(source.rawValue), level: level, length: .duration(duration),
            transaction: TransactionReference(store: .support, environment: environment, id: transaction))
        guard let evidence = try await evidence(of: gift, at: date ?? now, for: account) else {
            return Outcome(account: account, facts: [], entry: nil)
        }
        var outcome = try await perform(evidence, for: account, order)
        let after = try await timeline(of: group, in: environment, facts(of: account))
        outcome.end = after.periods.first { $0.transaction == gift.transaction }.flatMap { after.end(reaching: $0.end) }
        return outcome
    }

    /// Paid time that support gives away.
    struct Gift: Sendable {
        enum Length: Sendable {
            case duration(CalendarDuration)
            case until(Timestamp)
        }

        var group: GroupID
        /// The product of the purchase: one of the catalogue, or the name of the system or campaign.
        var product: ProductID
        /// The level in an auto-renewable group; `nil` for the lowest one.
        var level: Int64?
        var length: Length
        var transaction: TransactionReference
    }

    /// The purchase by which `gift` is given; `nil` if its time is covered already.
    func evidence(
        of gift: Gift, at date: Timestamp, for account: Account
    ) async throws -> VerifiedEvidence? {
        let (group, environment) = (gift.group, gift.transaction.environment)
        let source = SourceID(gift.product.rawValue)
        do throws(RecordingError) { try catalog.checkHasGroup(group, for: source) } catch { throw SupportError(error) }
        let start = try await timeline(of: group, in: environment, facts(of: account)).startOfTime(addedAt: date)
        guard start != .latest else { return nil }
        let level = try self.level(gift.level, in: group)
        var (duration, end, undated) = (CalendarDuration.zero, Timestamp?.none, level == nil ? date : start)
        switch gift.length {
        case .duration(let stated): duration = stated
        case .until(let until):
            let rest = until.milliseconds - start.milliseconds
            guard rest > 0 else { return nil }
            guard level != nil || !catalog.policy.accelerates(environment) else {
                throw SupportError(
                    .invalid, "until does not apply in \(environment), where time is accelerated; use for")
            }
            duration = CalendarDuration(seconds: (rest + 999) / 1_000)
            guard duration.isWithinBounds else { throw SupportError(.invalid, "until must be within 100 years") }
            if level != nil { end = until }
            // Durations are whole seconds, and the time ends at `until` exactly if nothing was paid before.
            if level == nil, start == date {
                undated = Timestamp(milliseconds: until.milliseconds - duration.seconds * 1_000)
            }
        }
        let kind: ProductKind =
            level.map { .autoRenewable(group: group, level: $0, duration: duration, introductory: nil) }
            ?? .nonRenewing(group: group, duration: duration)
        let reported = Evidence.reported(
            gift.product, transaction: gift.transaction.id, expires: end, store: gift.transaction.store,
            environment: environment)
        return try await statement(of: reported, terms: Terms(kind: kind), undated: undated, for: account)
    }

    /// Records that a group is paid until an instant, unless that is covered already.
    private func credit(_ asserted: AssertedExpiry, to account: Account, _ order: Order) async throws -> Outcome {
        do throws(RecordingError) { try catalog.checkHasGroup(asserted.group, for: asserted.source) } catch {
            throw SupportError(error)
        }
        let environment = asserted.environment ?? .production
        let facts = try await facts(of: account)
        let date = facts.assertionDate(asserted.assertedAt ?? now, in: environment)
        if let chain = timeline(of: asserted.group, in: environment, facts).chain(at: date),
            chain.end >= asserted.until
        {
            return Outcome(account: account, facts: [], entry: nil)
        }
        let assertion = Assertion(
            Assertion.Reference(
                group: asserted.group, source: asserted.source, until: asserted.until, environment: environment),
            assertedAt: date, recordedAt: now, replica: .placeholder, logicalTime: facts.latestTime.next(at: now))
        let evidence = VerifiedEvidence(kind: .support, facts: [.assertion(assertion)], signedDate: nil)
        var outcome = try await perform(evidence, for: account, order)
        let after = try await timeline(of: asserted.group, in: environment, self.facts(of: account))
        outcome.end = after.end(reaching: asserted.until)
        return outcome
    }

    /// The level of time that is added to `group`: `level`, or else the lowest one; `nil` for a group without levels.
    private func level(_ level: Int64?, in group: GroupID) throws(SupportError) -> Int64? {
        let levels = catalog.products.compactMap { product -> Int64? in
            if case .autoRenewable(group, let level, _, _) = product.kind { level } else { nil }
        }
        guard let level else { return levels.max() }
        guard levels.contains(level) else {
            let known = Set(levels).sorted().map { "\($0)" }.joined(separator: ", ")
            throw SupportError(
                .invalid,
                known.isEmpty
                    ? "level: group \"\(group.rawValue.singleLine)\" has no levels"
                    : "level must be one of \(known), the levels of \"\(group.rawValue.singleLine)\", not \(level)")
        }
        return level
    }

    func timeline(of group: GroupID, in environment: EnvironmentID, _ facts: Facts) -> Timeline {
        Replay(facts, catalog: catalog, environment: environment).timelines[group] ?? Timeline()
    }

    var now: Timestamp { Timestamp(milliseconds: host.now()) }
}

extension SupportActs {
    /// Checks the circumstances, and returns the account.
    func check(_ order: Order) async throws -> Account {
        guard (1...1_000).contains(order.reason.utf8.count) else {
            throw SupportError(.invalid, "the reason must have 1 to 1,000 bytes, not \(order.reason.utf8.count)")
        }
        guard (1...255).contains(order.operatorName.utf8.count) else {
            throw SupportError(
                .invalid, "the operator's name must have 1 to 255 bytes, not \(order.operatorName.utf8.count)")
        }
        try await checkStore()
        return try await account(named: order.account)
    }

    /// Checks that a program may act on the store beside its servers.
    func checkStore() async throws {
        try await records.checkServer()
        try await OwnersMigration(records: records) { _ in }.check()
        try await ClockRollbackGuard.check(host.now(), against: records)
    }

    /// The account that `name` means. The exact name comes first, also of an erased account.
    func account(named name: String) async throws -> Account {
        guard let record = try await record(of: name), !record.isUnused else {
            throw SupportError(.unknownAccount, "this server's store has no account \"\(name.singleLine)\"")
        }
        guard let account = record.activeAccount else {
            throw SupportError(.erasedAccount, "the account \"\(name.singleLine)\" was erased")
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

    /// The evidence of a statement about a transaction.
    ///
    /// - Parameters:
    ///   - terms: The terms of a purchase that is no product of the catalogue.
    ///   - date: The date of a purchase whose date is neither stated nor known.
    func statement(
        of evidence: Evidence, terms: Terms? = nil, undated date: Timestamp, for account: Account
    ) async throws -> VerifiedEvidence {
        let ledger = try await recorder.writer.read(account)
        let stated: Fact
        do throws(RecordingError) { stated = try fact(of: evidence, terms, undated: date, ledger) } catch {
            throw SupportError(error)
        }
        let line = ledger.facts.lazy.compactMap(\.purchase).first { $0.transaction == stated.transaction }?.line
        return VerifiedEvidence(kind: .support, facts: [stated], signedDate: nil, line: line)
    }

    /// The fact that `evidence` states, checked against the server ledger and signed now.
    private func fact(
        of evidence: Evidence, _ terms: Terms?, undated date: Timestamp, _ ledger: ServerLedger
    ) throws(RecordingError) -> Fact {
        var plan = RecordingPlan(catalog: catalog, environment: .production) { [host] in host.randomUUID() }
        try plan.add(evidence)
        func known(_ fact: Fact) -> Fact? { ledger.ledger[fact.record.key].map { Fact($0) } }
        let fact: Fact
        switch evidence.content {
        case .reported(let report):
            guard terms != nil || catalog.terms(of: report.product) != nil else { throw .unknown(report.product) }
            var purchase = Purchase(
                transaction: plan.transactions[0], product: report.product, terms: terms, date: report.date ?? date,
                quantity: report.quantity, originalID: report.original, storeExpiry: report.expires,
                isIntroductory: report.isIntroductory, stamp: Stamp(logicalTime: .zero))
            if case .purchase(let other)? = known(.purchase(purchase)) {
                try check(report, terms, against: other)
                purchase.date = other.date
            }
            fact = .purchase(purchase)
        case .revocation(let transaction, let date, let isReinstated, _, _):
            fact = .revocation(
                Revocation(
                    transaction: transaction, revokedAt: isReinstated ? nil : date ?? now, reason: "support",
                    stamp: Stamp(logicalTime: .zero)))
        case .renewalState(let state):
            let purchase = ledger.facts.lazy.compactMap(\.purchase).first { $0.line == state.line }
            if let purchase, let terms = purchase.terms ?? catalog.terms(of: purchase.product) {
                guard case .autoRenewable = terms.kind else {
                    throw RecordingError(
                        .invalid,
                        "transaction \"\(state.line.id.rawValue.singleLine)\" has no renewal state: "
                            + "\"\(purchase.product)\" does not renew")
                }
            }
            fact = .renewalState(state)
        case .deferred, .withdrawn, .assertion, .flag, .verified:
            preconditionFailure("only statements about transactions are signed")
        }
        // A store's clock may be ahead of this one.
        let earlier = known(fact)?.stamp?.signedDate.map { Timestamp(milliseconds: $0.milliseconds + 1) }
        return fact.stamped(.signed(at: max(now, earlier ?? now)))
    }

    /// Checks that a report differs from the known purchase in nothing but its end.
    private func check(
        _ report: ReportedPurchase, _ terms: Terms?, against known: Purchase
    ) throws(RecordingError) {
        var report = report
        report.expires = nil
        try report.checkAgreement(with: known, statedDate: known.date)
        guard let terms, let other = known.terms, terms != other else { return }
        if let group = other.kind.group, group != terms.kind.group {
            throw .contradiction(known.transaction, "group \(group)")
        }
        switch other.kind {
        case .nonRenewing(_, let duration), .autoRenewable(_, _, let duration, _):
            throw .contradiction(known.transaction, "duration \(duration)")
        case .consumable, .nonConsumable: throw .contradiction(known.transaction, "no duration")
        }
    }

    /// The consequences of evidence, which no other account prevents.
    struct Consequences: Sendable {
        var review: EvidenceRecorder.Review
        var formerOwners: [Account]
        var unknown: [TransactionReference]
    }

    /// Reviews `evidence`. Writes nothing.
    ///
    /// - Throws: ``SupportError`` if it may not be written, or the store's error.
    func consequences(
        of evidence: VerifiedEvidence, for account: Account, isTransfer: Bool
    ) async throws -> Consequences {
        if isTransfer, recorder.owners.policy == .share {
            throw SupportError(.invalid, "accounts share purchases on this server, so there is no transfer")
        }
        let review = try await recorder.review(evidence, for: account)
        if let (transaction, owners) = review.shared.first {
            let names = owners.map(\.quoted).joined(separator: " and ")
            throw SupportError(.ownedByAnother, "\(transaction) is shared by \(names); nothing was changed")
        }
        if let (transaction, owner) = review.held.first, !isTransfer {
            throw SupportError(
                .ownedByAnother,
                "\(transaction) belongs to \(owner.quoted); nothing was changed; to move it to \(account.quoted), "
                    + "repeat with --transfer")
        }
        let formerOwners = Set(review.held.map(\.owner)).sorted()
        do { try await recorder.writer.checkRoom(for: review.facts, of: account) } catch {
            throw Self.refusal(error, account)
        }
        let unknown = try await unknownTransactions(in: review.facts, of: account)
        return Consequences(review: review, formerOwners: formerOwners, unknown: unknown)
    }

    /// Appends the audit entry, and then writes the facts.
    private func perform(_ evidence: VerifiedEvidence, for account: Account, _ order: Order) async throws -> Outcome {
        let consequences = try await consequences(of: evidence, for: account, isTransfer: order.isTransfer)
        let (review, formerOwners) = (consequences.review, consequences.formerOwners)
        let taken =
            formerOwners.isEmpty ? "" : ", taken from " + formerOwners.map(\.quoted).joined(separator: ", ")
        let entry = try await audit.append(
            AuditLog.Entry(
                date: "\(now)", act: order.act, account: account.name ?? order.account,
                line: review.lines.count == 1 ? "\(review.lines[0])" : "", actor: order.operatorName,
                detail: order.summary + taken + ": \(order.reason)"))
        do {
            try await write(
                evidence, review, for: account, transferActor: order.isTransfer ? order.operatorName : nil)
        } catch {
            let error = Self.refusal(error, account)
            var failure = entry
            (failure.date, failure.act) = ("\(now)", "failed")
            failure.detail = "entry \(entry.number) was not completed: \(error)"
            do throws(BackendError) { try await audit.append(failure) } catch let other {
                throw Self.error(error, withoutEntry: other)
            }
            throw error
        }
        return Outcome(
            account: account, facts: evidence.facts, entry: entry, unknown: consequences.unknown,
            formerOwners: formerOwners, warnings: evidence.warnings)
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

    /// The facts of the account's ledger and of its server ledger, which states the server's policy.
    func facts(of account: Account) async throws -> Facts {
        var server = try await recorder.writer.read(account)
        var policy = recorder.writer.policy
        if policy == nil { policy = try await records.statedPolicy() }
        if let policy { _ = server.set(policy, at: now) }
        return Facts(account: try await recorder.ledger(of: account), server: server.ledger)
    }

    /// Writes the facts of `evidence`. Repeating it changes nothing.
    ///
    /// - Parameters:
    ///   - transferActor: The person or program that takes lines from other accounts; `nil` if none may be taken.
    ///   - fence: The owners from which a line may be taken; `nil` for any.
    func write(
        _ evidence: VerifiedEvidence, _ review: EvidenceRecorder.Review, for account: Account, transferActor: String?,
        fence: OwnerFence? = nil
    ) async throws {
        let erased = SupportError(.erasedAccount, "the account \"\(account)\" was erased in the meantime")
        guard review.mayClaim else {
            let date = now
            let version = try await recorder.writer.update(account) { (ledger) async throws(BackendError) in
                _ = ledger.add(review.facts, catalog: catalog, at: date)
            }
            if version == nil { throw erased }
            return
        }
        let outcome = try await recorder.record(
            evidence, from: account, isRestore: false, transferActor: transferActor, fence: fence)
        guard let other = outcome.refused.first else { return }
        guard try await records.isActive(account) else { throw erased }
        throw SupportError(.ownedByAnother, "\(other) belongs to another account")
    }

    /// The refusal that `error` stands for, or `error` itself.
    static func refusal(_ error: any Error, _ account: Account) -> any Error {
        guard let error = error as? BackendError, error.cause is LedgerFull else { return error }
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

    init(_ error: RecordingError) {
        let kind: Kind =
            switch error.kind {
            case .unknownProduct: .unknownProduct
            case .unknownEntitlement, .invalid: .invalid
            case .contradiction: .contradiction
            case .ledgerFull: .ledgerFull
            }
        self.init(kind, error.message)
    }
}

extension Account {
    /// The name in quotation marks, on one line.
    var quoted: String { "\"\("\(self)".singleLine)\"" }
}
