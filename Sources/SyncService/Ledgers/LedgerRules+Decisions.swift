import EntitlementSync
import Entitlements
import SyncCore

// What the server decides about purchases, in a ledger beside the account's.
extension LedgerRules {
    /// So many refusals are looked at again by one read.
    private static let reconsideredCount = 8

    private typealias Decisions = [TransactionReference: Acceptance]

    private func decisions(in entry: Entry) throws(BackendError) -> Decisions {
        Facts(account: Ledger(), server: try Self.stored(entry, keys.decisions)).acceptances
    }

    /// Decides about the purchases that are new, before they are stored: so that what is acknowledged is decided.
    ///
    /// - Returns: the version of the decisions, `nil` where there are none.
    func decide(about sent: Ledger, beyond known: Ledger, _ decided: Entry?) async throws(BackendError)
        -> EntryVersion?
    {
        let news = sent.records(beyond: known).compactMap { record -> Purchase? in
            guard record.isPurchase, case .purchase(let purchase) = Fact(record) else { return nil }
            return purchase
        }
        guard !news.isEmpty else { return decided?.version }
        let before = try decided.map { (entry) throws(BackendError) in try decisions(in: entry) } ?? [:]
        return try await decide(about: news, before) ?? decided?.version
    }

    /// Looks at refusals again: whose transaction it was may have been erased, and it is free then.
    ///
    /// - Returns: the version of the decisions.
    func reconsider(_ decided: Entry) async throws(BackendError) -> EntryVersion {
        let before = try decisions(in: decided)
        let refused = before.values.filter(\.isRefusal).map(\.transaction).sorted(by: Self.precedes)
        guard !refused.isEmpty else { return decided.version }
        // Each has its turn, however many there are.
        let start = Int(host.now() / 60_000) % refused.count
        var free: Set<TransactionReference> = []
        for transaction in (refused[start...] + refused[..<start]).prefix(Self.reconsideredCount)
        where try await owners.isFree(transaction) { free.insert(transaction) }
        guard !free.isEmpty, !witness.isBehind, case .found(let entry) = try await store.read(keys.ledger).outcome
        else { return decided.version }
        let purchases = Facts(account: try Self.stored(entry, keys.ledger)).purchases
            .filter { free.contains($0.transaction) }
        return try await decide(about: purchases, before) ?? decided.version
    }

    private static func precedes(_ left: TransactionReference, _ right: TransactionReference) -> Bool {
        (left.store.rawValue, left.environment.rawValue, left.id.rawValue)
            < (right.store.rawValue, right.environment.rawValue, right.id.rawValue)
    }

    private func decide(about purchases: [Purchase], _ before: Decisions) async throws(BackendError)
        -> EntryVersion?
    {
        let now = host.now()
        let others = try await owners.claim(purchases.map(\.transaction), for: account, at: now)
        var decisions: [TransactionReference: Acceptance.Decision] = [:]
        for purchase in purchases {
            if others.contains(purchase.transaction) {
                decisions[purchase.transaction] = .refused("another account recorded this transaction first")
            } else if purchase.date.milliseconds - now > Self.tolerance {
                decisions[purchase.transaction] = .countsAsOf(Timestamp(milliseconds: now))
            } else if before[purchase.transaction]?.isRefusal == true {
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
                // A decision stands, a purchase that was dated once keeps its date; only a refusal may end.
                guard let old = facts.acceptances[new.transaction] else { return true }
                return old.isRefusal && !new.isRefusal
            }
            guard !new.isEmpty else { return stored?.version }
            let added = Ledger(new.map { Fact.acceptance($0).record })
            let bytes = LedgerDocument(ledger: ledger.joined(with: added)).encoded()
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
        throw BackendError(.busy, key: keys.decisions, message: "others write this all the time; try again")
    }
}

extension Acceptance {
    fileprivate var isRefusal: Bool { if case .refused = decision { true } else { false } }
}
