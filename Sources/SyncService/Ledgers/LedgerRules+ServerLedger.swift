import EntitlementSync
import Entitlements
import SyncCore

// The server ledger: the server's decisions about purchases, beside the account's ledger.
extension LedgerRules {
    /// The number of refusals that are reconsidered in one minute. Each may require the ledger of a different account.
    private static let reconsideredCount = Owners.ledgerCount

    /// The decoded form of the server ledger in `entry`.
    func decode(_ entry: Entry) async throws(BackendError) -> DecodedServerLedger {
        try await environment.decoder.serverLedger(in: entry, under: keys.serverLedger) { [self] in chargeDecoding($0) }
    }

    /// Decides about the new purchases of a ledger. This happens before the ledger is stored, so that every
    /// acknowledged purchase is decided.
    ///
    /// - Parameters:
    ///   - known: The account's ledger as it is stored.
    ///   - serverEntry: The server ledger as it is stored.
    /// - Returns: The new version of the server ledger; `nil` if no decision was made.
    func decide(
        about newPurchases: [Purchase], beyond known: Ledger, _ serverEntry: Entry?,
        for attempt: inout Owners.Attempt
    ) async throws(BackendError) -> EntryVersion? {
        var refused: Set<TransactionReference> = []
        if let serverEntry { refused = Set(try await decode(serverEntry).refused) }
        return try await decide(about: newPurchases, beyond: known, refused, for: &attempt)
    }

    /// Applies the rule of the façade to a ledger that is about to be stored.
    ///
    /// - Returns: The new version of the server ledger; `nil` if no decision was made.
    func applyFacadeRule(to ledger: Ledger) async throws(BackendError) -> EntryVersion? {
        guard let facade = environment.writer.facade, facade.concerns(ledger) else { return nil }
        // Clients of the façade read no ledger, so a write states the policy.
        try await checkPolicy()
        let now = Timestamp(milliseconds: host.now())
        return try await environment.writer.update(account) { (server) async throws(BackendError) in
            facade.decide(&server, ledger, now)
        }
    }

    private var minute: Int64 { host.now() / 60_000 }

    /// Returns `true` if there are refusals that were not reconsidered in this minute.
    func isReviewDue(_ serverLedger: DecodedServerLedger) -> Bool {
        policy == .trusted && !serverLedger.refused.isEmpty
            && environment.decoder.cache.isReviewDue(of: keys.serverLedger, in: minute)
    }

    /// Reconsiders some refusals, once a minute, because their transactions may have become free.
    ///
    /// - Returns: The version of the server ledger.
    func reconsider(_ decoded: DecodedServerLedger) async throws(BackendError) -> EntryVersion {
        let (minute, refused) = (minute, decoded.refused)
        // One reader reconsiders them; the others do not wait.
        guard policy == .trusted, !refused.isEmpty,
            environment.decoder.cache.beginReview(of: keys.serverLedger, in: minute)
        else {
            return decoded.version
        }
        // Rotates through all refusals, one group a minute.
        let start = Int(minute % Int64(refused.count)) * Self.reconsideredCount % refused.count
        let some = (refused[start...] + refused[..<start]).prefix(Self.reconsideredCount)
        let free = try await owners.free(among: some, for: account, at: host.now(), beside: others)
        guard !free.isEmpty, !environment.clockGuard.isWrong,
            case .found(let entry) = try await base.read(keys.ledger).outcome
        else { return decoded.version }
        try takeDecoding(entry.value.count, keys.ledger)
        let ledger = try await environment.decoder.ledger(in: entry, under: keys.ledger)
        // The statements about these transactions, even if another one represents the purchase.
        let facts = Facts(account: ledger)
        let purchases = free.sorted().compactMap { facts[$0] }
        return try await decideAboutStored(purchases, in: ledger, Set(refused)) ?? decoded.version
    }

    /// Decides about purchases that the account's ledger already holds, so that the claims need no write of the ledger.
    ///
    /// - Parameter refused: The purchases that are refused now.
    /// - Returns: The new version of the server ledger; `nil` if it stays as it is.
    func decideAboutStored(
        _ purchases: [Purchase], in ledger: Ledger, _ refused: Set<TransactionReference>
    ) async throws(BackendError) -> EntryVersion? {
        var attempt = Owners.Attempt(of: account, at: host.now(), id: host.randomBits())
        let version = try await decide(about: purchases, beyond: ledger, refused, for: &attempt)
        if try await !environment.writer.records.isActive(account) {
            // The erasure may not have seen these claims.
            _ = try await owners.release(attempt.transactions, of: attempt.owner, isComplete: true)
        }
        return version
    }

    func chargeDecoding(_ byteCount: Int) { charge(reads: byteCount >> RequestLimiter.decodingShift) }

    private var others: Owners.Others {
        Owners.Others(
            decoder: environment.decoder, charge: { [self] in chargeDecoding($0) }, onError: environment.onError)
    }

    private func decide(
        about purchases: [Purchase], beyond known: Ledger, _ refused: Set<TransactionReference>,
        for attempt: inout Owners.Attempt
    ) async throws(BackendError) -> EntryVersion? {
        let now = host.now()
        let others = try await owners.claim(purchases.map(\.transaction), for: &attempt, beside: others)
        var decisions: [TransactionReference: Acceptance.Decision] = [:]
        for purchase in purchases {
            if others.contains(purchase.transaction) {
                decisions[purchase.transaction] = .refused(Acceptance.recordedByAnother)
            } else if purchase.date.milliseconds - now > Self.tolerance {
                decisions[purchase.transaction] = .countsAsOf(Timestamp(milliseconds: now))
            } else if refused.contains(purchase.transaction) {
                decisions[purchase.transaction] = .accepted
            }
        }
        // Read after the claims, because a notification that parks a refund reads the claims afterwards.
        let refunds = try await environment.recorder.refunds(
            of: purchases.filter { !others.contains($0.transaction) })
        guard !decisions.isEmpty || !refunds.isEmpty else { return nil }
        let unrecorded = others.isEmpty ? [] : others.subtracting(known.transactions)
        return try await record(decisions, refunds, at: now, ending: refused, refusing: unrecorded)
    }

    /// Records decisions and refunds. An earlier decision is final, and a dated purchase keeps its date, with two
    /// exceptions.
    ///
    /// - Parameters:
    ///   - refunds: The store's statements about purchases that the account has only reported.
    ///   - refused: The refusals that may end: those that existed before the transactions were claimed. A later refusal
    ///     means that another account now owns the transaction.
    ///   - unrecorded: The transactions that may be refused regardless of earlier decisions. The account's ledger does
    ///     not hold them, so the earlier decision concerned a ledger that was never stored.
    private func record(
        _ decisions: [TransactionReference: Acceptance.Decision], _ refunds: [Revocation], at now: Int64,
        ending refused: Set<TransactionReference>, refusing unrecorded: Set<TransactionReference>
    ) async throws(BackendError) -> EntryVersion? {
        try await base.update(keys.serverLedger) { (stored) async throws(BackendError) in
            var ledger = Ledger()
            if let stored {
                try takeDecoding(stored.value.count, keys.serverLedger)
                ledger = try Self.stored(stored, keys.serverLedger)
            }
            let facts = Facts(account: Ledger(), server: ledger)
            let verified = Set(ledger.transactions)
            let date = Timestamp(milliseconds: now)
            let time = facts.latestTime.next(at: date)
            let new = decisions.map { transaction, decision in
                Acceptance(transaction: transaction, decision: decision, date: date, logicalTime: time)
            }.filter { new in
                // A client's statement changes nothing about a purchase that a store's signature proves.
                guard !verified.contains(new.transaction) else { return false }
                guard let old = facts.acceptances[new.transaction], old.isRefusal != new.isRefusal else {
                    return facts.acceptances[new.transaction] == nil
                }
                return (new.isRefusal ? unrecorded : refused).contains(new.transaction)
            }
            let decided = ledger.joined(with: Ledger(new.map { Fact.acceptance($0).record }))
            let joined = decided.joined(with: Ledger(ledger.needed(of: refunds).map(\.record)))
            guard joined != ledger else { return nil }
            // Decisions remain even if the ledger that they are about is never stored. Refunds need no room.
            guard decided.count <= max(limits.recordCount, ledger.count) else {
                throw BackendError(
                    .tooLarge, operation: .write, key: keys.serverLedger,
                    message: "a ledger can have at most \(limits.recordCount) decisions")
            }
            return LedgerDocument(ledger: joined).encoded()
        }?.version
    }
}

extension Acceptance {
    fileprivate var isRefusal: Bool { if case .refused = decision { true } else { false } }
}
