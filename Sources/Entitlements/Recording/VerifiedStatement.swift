/// Evidence that was verified on this device.
package struct VerifiedStatement: Sendable {
    /// The evidence and the facts that it proves.
    package var evidence: StoredEvidence
    /// The facts, decoded.
    package var facts: [Fact]

    /// Creates a value.
    ///
    /// - Parameters:
    ///   - kind: The kind, as in requests to the server.
    ///   - subject: The subject: of two pieces about one subject only the later is sent.
    ///   - data: The evidence as it is sent, a JSON object.
    ///   - facts: The facts that it proves.
    ///   - signedDate: The date of its signature.
    package init(kind: String, subject: String, data: [UInt8], facts: [Fact], signedDate: Timestamp) {
        self.init(
            StoredEvidence(
                kind: kind, subject: subject, data: data, facts: Ledger(facts.map(\.record)),
                stamp: .signed(at: signedDate)))
    }

    /// Creates the value of evidence that was kept.
    package init(_ evidence: StoredEvidence) {
        self.evidence = evidence
        facts = evidence.facts.records.map { Fact($0) }
    }

    /// The largest evidence, in bytes. It must fit into one record.
    static let maximumByteCount = LedgerLimits.maximumPartByteCount - 1_024

    /// The transactions of the purchases.
    package var transactions: [TransactionReference] {
        facts.compactMap(\.purchase?.transaction)
    }

    /// Returns `true` if the server ledger, or the evidence that waits already, says the same. Where both state
    /// something about a subject, the later statement counts: evidence from before a refund must not keep the evidence
    /// of its reversal out.
    ///
    /// - Parameters:
    ///   - server: The facts of the server ledger, by their keys.
    ///   - device: The device ledger.
    func isKnown(to server: [[UInt8]: Fact], _ device: Ledger) -> Bool {
        var known = server
        if case .evidence(let waiting)? = device[Fact.evidence(evidence).record.key].map({ Fact($0) }) {
            known = waiting.facts.factsByKey.merging(server.filter { waiting.facts[$0.key] != nil }) { waiting, held in
                held.record.order.lexicographicallyPrecedes(waiting.record.order) ? waiting : held
            }
        }
        return facts.allSatisfy { known[$0.record.key]?.covers($0) ?? false }
    }
}

extension Ledger {
    /// The facts by the keys of their records.
    var factsByKey: [[UInt8]: Fact] {
        Dictionary(uniqueKeysWithValues: records.map { ($0.key, Fact($0)) })
    }
}

extension Fact {
    /// Returns `true` if `stated` adds nothing to this fact: both state the same, whatever their times and terms, and
    /// this one is signed if `stated` is.
    func covers(_ stated: Fact) -> Bool {
        switch (self, stated) {
        case (.purchase(var known), .purchase(let stated)):
            guard known.stamp.covers(stated.stamp) else { return false }
            (known.stamp, known.terms) = (stated.stamp, stated.terms)
            // Evidence of another kind may not state these.
            known.lineItemID = stated.lineItemID.flatMap { _ in known.lineItemID }
            known.isNonConsumable = stated.isNonConsumable && known.isNonConsumable
            return known == stated
        case (.revocation(var known), .revocation(let stated)):
            guard known.stamp.covers(stated.stamp) else { return false }
            (known.stamp, known.reason) = (stated.stamp, stated.reason)
            // Each signature states its own date, by which the upgrade had happened.
            if stated.upgradedAt == nil || known.upgradedAt != nil { known.upgradedAt = stated.upgradedAt }
            return known == stated
        case (.renewalState(var known), .renewalState(let stated)):
            guard known.stamp.covers(stated.stamp) else { return false }
            known.stamp = stated.stamp
            return known == stated
        default: return false
        }
    }
}

extension Stamp {
    fileprivate func covers(_ other: Stamp) -> Bool { signedDate != nil || other.signedDate == nil }
}

extension Evidence {
    /// Evidence that the caller has verified on this device, with the evidence itself.
    package static func verified(_ statement: VerifiedStatement) -> Evidence { Evidence(content: .verified(statement)) }
}
