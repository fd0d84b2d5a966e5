import EntitlementSync
import Entitlements
import StoreEvidence
import SyncCore

// Earlier ends of purchases, as a statement about their subscription gives them.
extension EvidenceRecorder {
    /// Returns `evidence` with the ends that its subscription gives to purchases.
    ///
    /// An answer of Google Play names the latest order of a subscription, which covers the time of all earlier ones. So
    /// an earlier order keeps no end of its own beyond the answer, for example that of a grace. At Stripe all periods
    /// end with the subscription. A purchase that arrives after such a statement ends like the others.
    func withEnds(_ evidence: VerifiedEvidence) async throws(BackendError) -> VerifiedEvidence {
        guard let subscription = evidence.subscription,
            let ending = try await names.ending(of: subscription, learning: evidence.ending)
        else { return evidence }
        var evidence = evidence
        let stated = evidence.facts.compactMap(\.purchase)
        let current = ending.current.union(evidence.ending?.current ?? [])
        for (purchase, isNew) in try await strongest(evidence, subscription)
        where !current.contains(purchase.transaction) {
            let ends = stated.filter { $0.product == purchase.product && current.contains($0.transaction) }
            let end = min(ending.endedAt, ends.compactMap(\.storeExpiry).max() ?? ending.endedAt)
            // A known purchase ends by a new statement only.
            guard isNew || evidence.ending != nil, purchase.storeExpiry.map({ $0 > end }) ?? true else { continue }
            var ended = purchase
            ended.storeExpiry = end
            // An answer may be dated by another clock than the next one, which may name the purchase that is new here.
            if evidence.ending != nil { ended.stamp = max(ended.stamp, .signed(at: ending.statedAt)) }
            ended.stamp.logicalTime = LogicalTime(rawValue: ended.stamp.logicalTime.rawValue + 1)
            evidence.facts.removeAll { $0.purchase == purchase }
            evidence.facts.append(.purchase(ended))
        }
        return evidence
    }

    /// The strongest statement about each purchase of the evidence and, if it ends others, of its subscription, in
    /// ascending order of the transactions; with `true` if it is the evidence's own.
    ///
    /// Of equal statements, that of the evidence counts. The end may have become known after it was recorded.
    private func strongest(
        _ evidence: VerifiedEvidence, _ subscription: TransactionReference
    ) async throws(BackendError) -> [(purchase: Purchase, isNew: Bool)] {
        let stated = evidence.facts.compactMap(\.purchase)
        var lines = Set(stated.map(\.line))
        if evidence.ending != nil {
            lines.formUnion(try await names.lines(named: subscription))
            lines.insert(subscription)
        }
        var strongest: [TransactionReference: (purchase: Purchase, isNew: Bool)] = [:]
        func add(_ purchase: Purchase, isNew: Bool) {
            if let known = strongest[purchase.transaction]?.purchase.stamp,
                isNew ? purchase.stamp < known : purchase.stamp <= known
            {
                return
            }
            strongest[purchase.transaction] = (purchase, isNew)
        }
        for line in lines.sorted() {
            for facts in try await knownFacts(ofLine: line) {
                for purchase in facts.compactMap(\.purchase) { add(purchase, isNew: false) }
            }
        }
        for purchase in stated { add(purchase, isNew: true) }
        return strongest.values.sorted { $0.purchase.transaction < $1.purchase.transaction }
    }

    /// The facts about `line` that wait for an owner, and those in the server ledger of each owner.
    ///
    /// - Parameter skipsDamaged: True to report a damaged ledger and leave it out.
    func knownFacts(
        ofLine line: TransactionReference, skipsDamaged: Bool = false
    ) async throws(BackendError) -> [[Fact]] {
        var known = [try await parked.facts(of: line)?.facts ?? []]
        for owner in try await owners.accounts(of: line) {
            do throws(BackendError) { known.append(try await writer.read(owner).facts(ofLine: line)) } catch {
                guard skipsDamaged else { throw error }
                try skip(error)
            }
        }
        return known
    }

    /// Reports a damaged ledger of an account, because work for other accounts must not depend on it.
    ///
    /// - Throws: Any other error, and each in a program without ``onDamage``.
    func skip(_ error: BackendError) throws(BackendError) {
        guard error.kind == .damaged, let onDamage else { throw error }
        onDamage(error)
    }
}
