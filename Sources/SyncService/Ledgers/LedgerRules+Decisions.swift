import EntitlementSync
import Entitlements
import SyncCore

// The server's decisions about purchases, in a ledger beside the account's.
extension LedgerRules {
    /// The number of refusals that are reconsidered in one minute.
    private static let reconsideredCount = 8

    /// The decoded form of the decisions in `entry`.
    func decode(_ entry: Entry) async throws(BackendError) -> DecodedDecisions {
        try await environment.decoder.decisions(in: entry, under: keys.decisions) { [self] in chargeDecoding($0) }
    }

    /// Decides about the new purchases of a ledger. It comes before the ledger is stored, so that every acknowledged
    /// purchase is decided.
    ///
    /// - Returns: The new version of the decisions; `nil` if none was made.
    func decide(
        about news: [Purchase], _ decided: Entry?, for attempt: inout TransactionOwners.Attempt
    ) async throws(BackendError) -> EntryVersion? {
        var refused: Set<TransactionReference> = []
        if let decided { refused = Set(try await decode(decided).refused) }
        return try await decide(about: news, refused, for: &attempt)
    }

    private var minute: Int64 { host.now() / 60_000 }

    /// Whether there are refusals that were not reconsidered in this minute.
    func isReviewDue(_ decisions: DecodedDecisions) -> Bool {
        !decisions.refused.isEmpty && decisions.reviewed != minute
    }

    /// Reconsiders some refusals, once a minute: the transaction may be free by now.
    ///
    /// - Returns: The version of the decisions.
    func reconsider(_ decided: DecodedDecisions) async throws(BackendError) -> EntryVersion {
        guard isReviewDue(decided) else { return decided.version }
        let (minute, refused) = (minute, decided.refused)
        // Every refusal has its turn.
        let start = Int(minute % Int64(refused.count)) * Self.reconsideredCount % refused.count
        let some = (refused[start...] + refused[..<start]).prefix(Self.reconsideredCount)
        let free = try await owners.free(among: some, for: account, at: host.now(), charge: chargeDecoding)
        environment.decoder.cache.noteReview(of: keys.decisions, version: decided.version, in: minute)
        guard !free.isEmpty, !environment.clockGuard.isBehind,
            case .found(let entry) = try await store.read(keys.ledger).outcome
        else { return decided.version }
        let purchases = Facts(account: try Self.stored(entry, keys.ledger)).purchases
            .filter { free.contains($0.transaction) }
        // The ledger holds these transactions already, so the claims need no ledger write.
        var attempt = TransactionOwners.Attempt(of: account, at: host.now(), id: host.randomBits())
        return try await decide(about: purchases, Set(refused), for: &attempt) ?? decided.version
    }

    private func chargeDecoding(_ byteCount: Int) { charge(reads: byteCount >> RequestLimiter.decodingShift) }

    private func decide(
        about purchases: [Purchase], _ refused: Set<TransactionReference>,
        for attempt: inout TransactionOwners.Attempt
    ) async throws(BackendError) -> EntryVersion? {
        let now = host.now()
        let others = try await owners.claim(
            purchases.map(\.transaction), for: &attempt, charge: chargeDecoding)
        var decisions: [TransactionReference: Acceptance.Decision] = [:]
        for purchase in purchases {
            if others.contains(purchase.transaction) {
                decisions[purchase.transaction] = .refused("another account recorded this transaction first")
            } else if purchase.date.milliseconds - now > Self.tolerance {
                decisions[purchase.transaction] = .countsAsOf(Timestamp(milliseconds: now))
            } else if refused.contains(purchase.transaction) {
                decisions[purchase.transaction] = .accepted
            }
        }
        return decisions.isEmpty ? nil : try await record(decisions, at: now)
    }

    private func record(_ decisions: [TransactionReference: Acceptance.Decision], at now: Int64)
        async throws(BackendError) -> EntryVersion?
    {
        for _ in 0..<32 {
            let stored: Entry? =
                if case .found(let entry) = try await store.read(keys.decisions).outcome {
                    entry
                } else {
                    nil
                }
            let ledger =
                try stored.map { (entry) throws(BackendError) in try Self.stored(entry, keys.decisions) }
                ?? Ledger()
            let facts = Facts(account: Ledger(), server: ledger)
            let date = Timestamp(milliseconds: now)
            let time = facts.latestTime.next(at: date)
            let new = decisions.map { transaction, decision in
                Acceptance(transaction: transaction, decision: decision, date: date, logicalTime: time)
            }.filter { new in
                // A decision stands, and a dated purchase keeps its date; only a refusal may end.
                guard let old = facts.acceptances[new.transaction] else { return true }
                return old.isRefusal && !new.isRefusal
            }
            guard !new.isEmpty else { return stored?.version }
            let joined = ledger.joined(with: Ledger(new.map { Fact.acceptance($0).record }))
            // Decisions stay even if the ledger that they are about is never stored.
            guard joined.count <= limits.recordCount else {
                throw BackendError(
                    .tooLarge, operation: .write, key: keys.decisions,
                    message: "there are at most \(limits.recordCount) decisions about a ledger")
            }
            let bytes = LedgerDocument(ledger: joined).encoded()
            do throws(BackendError) {
                let condition = stored.map { Precondition.matches($0.version) } ?? .absent
                if case .written(let version) = try await store.write(bytes, to: keys.decisions, if: condition).outcome
                {
                    return version
                }
            } catch {
                guard error.disposition == .outcomeUnknown else { throw error }
            }
        }
        throw BackendError(
            .busy, key: keys.decisions, message: "other servers write these decisions all the time; try again")
    }
}

extension Acceptance {
    fileprivate var isRefusal: Bool { if case .refused = decision { true } else { false } }
}
