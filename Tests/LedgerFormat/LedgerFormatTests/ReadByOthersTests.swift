import Entitlements
import SwiftProtobuf
import Testing

@Suite("swift-protobuf reads the records of this library with equal values")
struct ReadByOthersTests {
    @Test("Keys and payloads of random facts of every kind are read")
    func values() throws {
        var kinds: Set<String> = []
        try forAll("read by others", cases: 10_000) { random, place in
            let fact = Fact.random(using: &random)
            let record = fact.record
            let key = try Wire.Key(serializedBytes: record.key)
            try #require(read(key, record) == fact, "\(place)")
            kinds.insert("\(fact)".prefix { $0 != "(" }.description)
        }
        #expect(
            kinds == [
                "purchase", "recording", "revocation", "renewalState", "assertion", "flag", "spend", "acceptance",
                "pending", "reset", "contradiction", "claim", "policy", "evidence",
            ])
    }

    @Test("swift-protobuf re-encodes the same bytes: the encoding is canonical, and the schema defines every field")
    func canonical() throws {
        try forAll("canonical bytes", cases: 10_000) { random, place in
            let record = Fact.random(using: &random).record
            let key = try Wire.Key(serializedBytes: record.key)
            try #require(key.unknownFields.data.isEmpty, "\(place)")
            try #require(try key.serializedBytes() == record.key, "key; \(place)")
            try #require(try rewritten(record.payload, of: key) == record.payload, "payload; \(place)")
        }
    }

    /// Decodes the record as a fact independently of the library, except for the order, which is not protobuf.
    private func read(_ key: Wire.Key, _ record: Record) throws -> Fact? {
        let payload = record.payload
        let ours = Fact(record)
        switch (key.kind, ours) {
        case (.purchase(let transaction), .purchase(let fact)):
            let wire = try Wire.Purchase(serializedBytes: payload)
            return .purchase(Purchase(wire, transaction, stamp: fact.stamp))
        case (.recording(let recording), .recording):
            let wire = try Wire.Recording(serializedBytes: payload)
            return try .recording(
                Recording(
                    transaction: TransactionReference(recording.transaction),
                    replica: #require(ReplicaID(bytes: Array(recording.replica))),
                    recordedAt: Timestamp(wire: wire.recordedAt),
                    knownEnd: wire.hasKnownEnd ? Timestamp(wire: wire.knownEnd) : nil, logicalTime: ours.logicalTime))
        case (.revocation(let transaction), .revocation(let fact)):
            let wire = try Wire.Revocation(serializedBytes: payload)
            try #require(wire.hasRevokedAt != wire.reinstated)
            return .revocation(
                Revocation(
                    transaction: TransactionReference(transaction),
                    revokedAt: wire.hasRevokedAt ? Timestamp(wire: wire.revokedAt) : nil,
                    reason: wire.reason, upgradedAt: wire.hasUpgradedAt ? Timestamp(wire: wire.upgradedAt) : nil,
                    stamp: fact.stamp))
        default:
            return try readStatement(key, record) ?? readSmall(key, payload, ours.logicalTime)
        }
    }

    private func readStatement(_ key: Wire.Key, _ record: Record) throws -> Fact? {
        let payload = record.payload
        switch (key.kind, Fact(record)) {
        case (.renewalState(let line), .renewalState(let fact)):
            let wire = try Wire.RenewalState(serializedBytes: payload)
            return .renewalState(
                RenewalState(
                    line: TransactionReference(line), willRenew: wire.willRenew,
                    graceEnd: wire.hasGraceEnd ? Timestamp(wire: wire.graceEnd) : nil,
                    isInBillingRetry: wire.billingRetry,
                    pendingProduct: wire.pendingProduct.isEmpty ? nil : ProductID(wire.pendingProduct),
                    stamp: fact.stamp))
        case (.assertion(let reference), .assertion(let fact)):
            let wire = try Wire.Assertion(serializedBytes: payload)
            return try .assertion(
                Assertion(
                    Assertion.Reference(reference), assertedAt: fact.assertedAt,
                    recordedAt: Timestamp(wire: wire.recordedAt),
                    replica: #require(ReplicaID(bytes: Array(wire.replica))),
                    logicalTime: LogicalTime(rawValue: wire.logicalTime)))
        case (.acceptance(let transaction), .acceptance(let fact)):
            let wire = try Wire.Acceptance(serializedBytes: payload)
            return .acceptance(
                Acceptance(
                    transaction: TransactionReference(transaction), decision: Acceptance.Decision(wire),
                    date: Timestamp(wire: wire.date), logicalTime: fact.logicalTime))
        case (.claim, .claim(let fact)):
            let wire = try Wire.Claim(serializedBytes: payload)
            return .claim(
                Claim(
                    account: wire.account, incarnation: wire.incarnation, date: Timestamp(wire: wire.date),
                    logicalTime: fact.logicalTime))
        case (.contradiction(let named), .contradiction(let fact)):
            let wire = try Wire.Contradiction(serializedBytes: payload)
            // Each statement contains the order of its purchase's record.
            try #require(Array(wire.kept.order) == Fact.purchase(fact.kept).record.order)
            try #require(Array(wire.dropped.order) == Fact.purchase(fact.dropped).record.order)
            return .contradiction(
                Contradiction(
                    kept: Purchase(wire.kept.purchase, named.transaction, stamp: fact.kept.stamp),
                    dropped: Purchase(wire.dropped.purchase, named.transaction, stamp: fact.dropped.stamp),
                    noticedAt: Timestamp(wire: wire.noticedAt), logicalTime: fact.logicalTime))
        case (.evidence(let named), .evidence(let fact)):
            let wire = try Wire.Evidence(serializedBytes: payload)
            return .evidence(
                StoredEvidence(
                    kind: named.kind, subject: named.subject, data: Array(wire.data),
                    facts: try LedgerDocument(decoding: Array(wire.facts)).ledger, stamp: fact.stamp))
        case (.reset(let environment), .reset(let fact)):
            let wire = try Wire.Reset(serializedBytes: payload)
            return .reset(
                EnvironmentReset(
                    environment: EnvironmentID(environment), date: Timestamp(wire: wire.date),
                    logicalTime: fact.logicalTime))
        default:
            return nil
        }
    }

    private func readSmall(_ key: Wire.Key, _ payload: [UInt8], _ time: LogicalTime) throws -> Fact? {
        switch key.kind {
        case .flagSet(let flag), .flagCleared(let flag):
            let wire = try Wire.Flag(serializedBytes: payload)
            return try .flag(
                Flag(
                    product: ProductID(flag.product), environment: EnvironmentID(flag.environment),
                    isSet: key.kind == .flagSet(flag), date: Timestamp(wire: wire.date),
                    replica: #require(ReplicaID(bytes: Array(wire.replica))), logicalTime: time))
        case .policy:
            let wire = try Wire.Policy(serializedBytes: payload)
            return .policy(PolicyStatement(try #require(TrustPolicy(rawValue: wire.policy)), logicalTime: time))
        case .spend(let id):
            let wire = try Wire.Spend(serializedBytes: payload)
            return try .spend(
                Spend(
                    id: SpendID(id), product: ProductID(wire.product), units: Int64(wire.units),
                    environment: EnvironmentID(wire.environment), date: Timestamp(wire: wire.date),
                    replica: #require(ReplicaID(bytes: Array(wire.replica))),
                    logicalTime: time))
        case .pending(let product):
            let wire = try Wire.Pending(serializedBytes: payload)
            return .pending(
                PendingPurchase(
                    product: ProductID(product), requestedAt: Timestamp(wire: wire.requestedAt),
                    isWithdrawn: wire.withdrawn, logicalTime: time))
        default:
            return nil
        }
    }

    private func rewritten(_ payload: [UInt8], of key: Wire.Key) throws -> [UInt8] {
        switch key.kind {
        case .purchase: try Wire.Purchase(serializedBytes: payload).serializedBytes()
        case .recording: try Wire.Recording(serializedBytes: payload).serializedBytes()
        case .revocation: try Wire.Revocation(serializedBytes: payload).serializedBytes()
        case .renewalState: try Wire.RenewalState(serializedBytes: payload).serializedBytes()
        case .assertion: try Wire.Assertion(serializedBytes: payload).serializedBytes()
        case .flagSet, .flagCleared: try Wire.Flag(serializedBytes: payload).serializedBytes()
        case .spend: try Wire.Spend(serializedBytes: payload).serializedBytes()
        case .claim: try Wire.Claim(serializedBytes: payload).serializedBytes()
        case .contradiction: try Wire.Contradiction(serializedBytes: payload).serializedBytes()
        case .acceptance: try Wire.Acceptance(serializedBytes: payload).serializedBytes()
        case .policy: try Wire.Policy(serializedBytes: payload).serializedBytes()
        case .evidence: try Wire.Evidence(serializedBytes: payload).serializedBytes()
        case .reset: try Wire.Reset(serializedBytes: payload).serializedBytes()
        case .pending: try Wire.Pending(serializedBytes: payload).serializedBytes()
        case nil: []
        }
    }
}
