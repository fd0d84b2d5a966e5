package import Entitlements

/// Evidence that was verified on this device.
package struct VerifiedStatement: Sendable {
    /// The evidence and the facts that it proves.
    package var evidence: StoredEvidence
    /// The facts, decoded.
    var facts: [Fact]

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

    init(_ evidence: StoredEvidence) {
        self.evidence = evidence
        facts = evidence.facts.records.map { Fact($0) }
    }

    /// The largest evidence, in bytes. It must fit into one record.
    static let maximumByteCount = LedgerLimits.maximumPartByteCount - 1_024

    /// The transactions of the purchases.
    var transactions: [TransactionReference] {
        facts.compactMap { if case .purchase(let purchase) = $0 { purchase.transaction } else { nil } }
    }

    /// Returns `true` if the server ledger, or the evidence that waits already, says the same.
    func isKnown(to server: Ledger, _ device: Ledger) -> Bool {
        if case .evidence(let waiting)? = device[Fact.evidence(evidence).record.key].map({ Fact($0) }) {
            let known = Self.byKey(waiting.facts)
            return facts.allSatisfy { fact in known[fact.record.key].map(fact.saysTheSame) ?? false }
        }
        let known = Self.byKey(server)
        return facts.allSatisfy { fact in known[fact.record.key].map(fact.saysTheSame) ?? false }
    }

    private static func byKey(_ ledger: Ledger) -> [[UInt8]: Fact] {
        Dictionary(uniqueKeysWithValues: ledger.records.map { ($0.key, Fact($0)) })
    }
}

extension Fact {
    /// Returns `true` if both facts state the same, whatever their stamps and terms.
    func saysTheSame(_ other: Fact) -> Bool {
        switch (self, other) {
        case (.purchase(var left), .purchase(let right)):
            left.stamp = right.stamp
            left.terms = right.terms
            return left == right
        case (.revocation(var left), .revocation(let right)):
            left.stamp = right.stamp
            left.reason = right.reason
            return left == right
        case (.renewalState(var left), .renewalState(let right)):
            left.stamp = right.stamp
            return left == right
        default: return false
        }
    }
}

extension Evidence {
    /// Evidence that the caller has verified on this device, with the evidence itself.
    package static func verified(_ statement: VerifiedStatement) -> Evidence { Evidence(content: .verified(statement)) }
}
