public import Entitlements

/// The result of recording evidence.
public struct RecordingReceipt: Hashable, Sendable {
    /// The transactions of the recorded purchases, in the order of the evidence.
    public var transactions: [TransactionReference]
    /// The facts that were new to this store. Empty if the evidence was recorded before.
    public var newFacts: [Fact]
}

extension EntitlementStore {
    /// Records evidence of a purchase. It is durable in the local store on return; a remote receives it with the next
    /// sync.
    ///
    /// Recording the same transaction again, on this device or another, adds nothing.
    ///
    /// - Returns: The transactions, and the facts that were new.
    /// - Throws: ``EntitlementError`` of kind `unknownProduct`, `invalid` (a quantity, an id, or a
    ///   renewal state of a product that does not renew), `contradiction` (the
    ///   transaction is already recorded with a different product, date, quantity or end, or the evidence is an
    ///   unsigned revocation or reinstatement of a transaction that its store has signed), `ledgerFull`, `storage` or
    ///   `damaged`.
    @discardableResult
    public func record(_ evidence: Evidence) async throws(EntitlementError) -> RecordingReceipt {
        try await record([evidence])
    }

    /// Records several pieces of evidence.
    ///
    /// All of them are checked before the first is written. If a crash interrupts the write, record them again.
    ///
    /// Evidence that was verified on this device is kept until the account's server has answered it: at most 2 MiB, or
    /// 1 MiB without a server that receives evidence. The facts of all evidence are recorded.
    ///
    /// - Returns: The transactions, and the facts that were new.
    /// - Throws: The errors of ``record(_:)-(Evidence)``.
    @discardableResult
    public func record(_ evidence: [Evidence]) async throws(EntitlementError) -> RecordingReceipt {
        try await record(evidence, isRestore: false)
    }

    /// - Parameter isRestore: True to keep verified evidence for the server even if the server has stated the same.
    @discardableResult
    func record(
        _ evidence: [Evidence], isRestore: Bool, in session: AccountSession? = nil
    ) async throws(EntitlementError) -> RecordingReceipt {
        let session = session ?? self.session
        let before = try await load(session)
        let now = now
        let plan: RecordingPlan
        // Nothing is written until all evidence has been checked.
        do { plan = try self.plan(for: evidence, isRestore: isRestore, in: before) } catch {
            throw EntitlementError(error)
        }
        // Evidence is written first, together with its facts: what it proves is durable with that write.
        let order: [DeviceLedgers.Target] = plan.verified.isEmpty ? [.account, .device] : [.device, .account]
        let targets = order.filter(plan.concerns)
        // The facts for one ledger are checked by the write itself.
        for target in targets where targets.count > 1 {
            let facts = try facts(of: plan, for: target, in: before, before.replicaOrPlaceholder, now: now)
            _ = try before.ledger(target, with: facts)
        }
        let claimed = feed.claim(plan.transactions, for: session.account)
        var newFacts: [Fact] = []
        var state = before
        do {
            for target in targets {
                let addition = try await session.append(to: target, startingWith: state) {
                    (state, replica) throws(EntitlementError) in
                    try facts(of: plan, for: target, in: state, replica, now: now)
                }
                newFacts += addition.facts
                state = addition.state
            }
        } catch {
            if newFacts.isEmpty { feed.withdraw(claimed, for: session.account) }
            throw error
        }
        await publish(newFacts, in: session, state)
        if environment == .production, let date = plan.latestSignature { clock.raise(toSignedDate: date) }
        return RecordingReceipt(transactions: plan.transactions, newFacts: newFacts)
    }

    private func plan(
        for evidence: [Evidence], isRestore: Bool, in state: LocalState
    ) throws(RecordingError) -> RecordingPlan {
        var plan = emptyPlan
        (plan.isRestore, plan.hasReceiver) = (isRestore, server != nil)
        for item in evidence { try plan.add(item) }
        try plan.checkAgreement(with: state.facts)
        plan.settle(in: state.facts)
        return plan
    }

    /// A plan without evidence.
    var emptyPlan: RecordingPlan {
        RecordingPlan(catalog: catalog, environment: environment) { [host] in host.randomUUID() }
    }

    /// Returns the facts of `plan` that `target` lacks.
    func facts(
        of plan: RecordingPlan, for target: DeviceLedgers.Target, in state: LocalState, _ replica: ReplicaID,
        now: Timestamp
    ) throws(EntitlementError) -> [Fact] {
        do { return try plan.facts(for: target, in: state.ledgers, replica: replica, now: now) } catch {
            throw EntitlementError(error)
        }
    }

    /// The facts that this device knows of the account.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    package func facts() async throws(EntitlementError) -> Facts { try await session.read().facts }

    /// Records statements about lines of purchases, each for the account that holds its line on this device.
    ///
    /// A line is a purchase with its renewals. One that the account of this store holds, or that no account holds, is
    /// recorded for the account of this store. Otherwise what a store reports stays with the account that has it, for
    /// example with the anonymous one if a log-in left earlier purchases on the device.
    ///
    /// - Returns: The facts that were new, of all accounts.
    /// - Throws: The errors of ``record(_:)-(Evidence)``.
    @discardableResult
    package func record(
        byHolder statements: [(line: TransactionReference, evidence: [Evidence])]
    ) async throws(EntitlementError) -> [Fact] {
        let own = session
        let known = Set(try await own.read().facts.purchases.map(\.line))
        let others = try await linesOfOthers(than: own.account)
        var evidence: [Account: [Evidence]] = [:]
        for statement in statements {
            let holder = known.contains(statement.line) ? nil : others[statement.line]
            evidence[holder ?? own.account, default: []] += statement.evidence
        }
        var facts: [Fact] = []
        for (account, evidence) in evidence {
            let session = account == own.account ? own : try session(of: account)
            facts += try await record(evidence, isRestore: false, in: session).newFacts
        }
        return facts
    }

    /// The lines of purchases that this device holds for other accounts than `own`.
    ///
    /// A damaged ledger of another account holds nothing here: it must not keep this account's purchases out.
    private func linesOfOthers(than own: Account) async throws(EntitlementError) -> [TransactionReference: Account] {
        let entries = LedgerEntries(backend: local)
        var lines: [TransactionReference: Account] = [:]
        for account in try await Self.accounts(in: local) where account != own {
            do throws(EntitlementError) {
                let session = try session(of: account)
                let keys = session.keys
                let ledger = try await entries.read(keys.ledger).ledger
                // A claimed ledger belongs to the account that adopts it, even before it has moved.
                if ledger.claim != nil { continue }
                let server = keys.isAnonymous ? Ledger() : try await entries.read(session.serverLedgerKey).ledger
                let device = try await entries.read(keys.device).ledger
                let facts = Facts(account: ledger, device: device, server: server, remote: nil)
                for purchase in facts.purchases { lines[purchase.line] = account }
            } catch {
                guard error.kind == .damaged || error.kind == .newerFormat else { throw error }
            }
        }
        return lines
    }

    private func session(of account: Account) throws(EntitlementError) -> AccountSession {
        try AccountSession(account, self.session.dependencies)
    }

    /// Withdraws requests for approval that were made before `date` and are still pending.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    package func withdrawRequests(before date: Timestamp) async throws(EntitlementError) {
        let facts = try await session.read().facts
        let old = facts.pending.values.filter { $0.requestedAt < date && !$0.isWithdrawn }.map(\.product).sorted()
        guard !old.isEmpty else { return }
        // The catalogue may lack the product by now.
        try await record(old.filter { catalog[product: $0] != nil }.map { .withdrawn($0) })
    }

    /// Records that a purchase was revoked. Equivalent to ``record(_:)-(Evidence)`` with
    /// `Evidence.refunded`.
    ///
    /// - Returns: The new fact; `nil` if the purchase was already revoked at that date.
    @discardableResult
    public func refund(_ transaction: TransactionReference, at date: Timestamp? = nil, reason: String = "")
        async throws(EntitlementError) -> Fact?
    {
        try await record(.refunded(transaction, at: date, reason: reason)).newFacts.first
    }

    /// Records that a refund was reversed. Equivalent to ``record(_:)-(Evidence)`` with
    /// `Evidence.reinstated`.
    ///
    /// - Returns: The new fact; `nil` if there is no refund to reverse.
    @discardableResult
    public func reinstate(_ transaction: TransactionReference, reason: String = "")
        async throws(EntitlementError) -> Fact?
    {
        try await record(.reinstated(transaction, reason: reason)).newFacts.first
    }

    /// Resets a test environment: facts of the environment up to now no longer count, on every device of the account.
    ///
    /// The facts stay in the ledgers. Purchases made after the reset count.
    ///
    /// - Returns: The facts that record the reset, one in the account's ledger and one in this device's.
    /// - Throws: ``EntitlementError`` of kind `invalid` for `production` or a malformed name, `ledgerFull`, `storage`
    ///   or `damaged`.
    @discardableResult
    public func reset(_ environment: EnvironmentID) async throws(EntitlementError) -> [Fact] {
        guard environment != .production else {
            throw EntitlementError(.invalid, "the production environment cannot be reset; refund purchases instead")
        }
        do { try environment.validate() } catch { throw EntitlementError(.invalid, "environment: \(error)") }
        let session = session
        var state = try await load(session)
        let now = now
        var facts: [Fact] = []
        for target in [DeviceLedgers.Target.account, .device] {
            let addition = try await session.append(to: target, startingWith: state) { state, _ in
                let time = state.facts.latestTime.next(at: now)
                return [.reset(EnvironmentReset(environment: environment, date: now, logicalTime: time))]
            }
            facts += addition.facts
            state = addition.state
        }
        await publish(facts, in: session, state)
        return facts
    }

    /// Sets or clears the ownership flag of a non-consumable, without a transaction.
    ///
    /// The catalogue's flag rule decides which flag counts. Under `purchasedWins` a flag that was set once counts, even
    /// if it was cleared later.
    ///
    /// - Parameters:
    ///   - product: A non-consumable of the catalogue.
    ///   - isSet: `true` to mark the product as owned, `false` to clear the mark.
    /// - Returns: The new fact; `nil` if the flag already had this value.
    /// - Throws: ``EntitlementError`` of kind `unknownProduct`, `invalid` (the product is not a non-consumable),
    ///   `ledgerFull`, `storage` or `damaged`.
    @discardableResult
    public func flag(_ product: ProductID, isSet: Bool = true) async throws(EntitlementError) -> Fact? {
        try await record(.flag(product, isSet: isSet)).newFacts.first
    }
}

extension EntitlementError {
    static func unknown(_ product: ProductID) -> EntitlementError {
        EntitlementError(RecordingError.unknown(product))
    }

    static func unknown(_ entitlement: EntitlementID) -> EntitlementError {
        EntitlementError(RecordingError.unknown(entitlement))
    }
}
