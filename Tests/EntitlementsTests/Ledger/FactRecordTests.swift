import EntitlementsTestSupport
import Testing

@testable import Entitlements

@Suite("Equal facts give equal bytes")
struct FactRecordTests {
    @Test("Facts of every kind read back from their records")
    func roundTrips() throws {
        try forAll("facts round-trip", cases: 20_000) { random, place in
            let fact = Fact.random(using: &random)
            try #require(Fact(fact.record) == fact, "\(place)")
            try #require(Fact(fact.record).record == fact.record, "\(place)")
        }
    }

    @Test("Different facts give different records")
    func recordsTellFactsApart() throws {
        var facts: [Record: Fact] = [:]
        try forAll("facts are told apart", cases: 20_000) { random, place in
            let fact = Fact.random(using: &random)
            let other = facts.updateValue(fact, forKey: fact.record) ?? fact
            try #require(other == fact, "\(place)")
        }
    }

    @Test("Orders of purchases and revocations compare as their stamps do")
    func stampsCompareAsBytes() throws {
        try forAll("stamps as bytes", cases: 20_000) { random, place in
            let (left, right) = (Stamp.random(using: &random), Stamp.random(using: &random))
            let (leftBytes, rightBytes) = (FactOrder.bytes(left), FactOrder.bytes(right))
            try #require((left < right) == leftBytes.lexicographicallyPrecedes(rightBytes), "\(place)")
            try #require((left == right) == (leftBytes == rightBytes), "\(place)")
            try #require(leftBytes.count == 17, "\(place)")
        }
    }

    @Test("Signed beats unsigned, then a later signature, then a later logical time")
    func stampOrder() {
        let (early, late) = (LogicalTime(rawValue: 1), LogicalTime(rawValue: 2))
        let before1970 = Timestamp(milliseconds: -1)
        let ascending = [
            Stamp(logicalTime: early), Stamp(logicalTime: late), Stamp(signedDate: .earliest, logicalTime: late),
            Stamp(signedDate: before1970, logicalTime: early), Stamp(signedDate: before1970, logicalTime: late),
            Stamp(signedDate: Timestamp(milliseconds: 0), logicalTime: early),
            Stamp(signedDate: .latest, logicalTime: early),
        ]
        #expect(ascending.shuffled().sorted() == ascending)
        let orders = ascending.map(FactOrder.bytes).sorted { $0.lexicographicallyPrecedes($1) }
        #expect(orders.map { $0.withUnsafeBytes { try? FactOrder.stamp($0) } } == ascending)
    }

    @Test("The later of two flags, spends or requests is kept; for flags of equal time, the larger replica")
    func laterStays() throws {
        try forAll("later facts stay", cases: 2_000) { random, place in
            let (one, two) = (LogicalTime.random(using: &random), LogicalTime.random(using: &random))
            let (replica, other) = (ReplicaID.random(using: &random), ReplicaID.random(using: &random))
            let flags = [(one, replica), (two, other), (two, replica)].map { time, replica in
                Flag(product: "a", isSet: true, date: .earliest, replica: replica, logicalTime: time)
            }
            let merged = Ledger(flags.map { Fact.flag($0).record }).records.map(Fact.init)
            let latest = flags.max { ($0.logicalTime, $0.replica) < ($1.logicalTime, $1.replica) }
            try #require(merged == latest.map { [.flag($0)] }, "\(place)")
        }
    }

    @Test("Of several recordings of one purchase by one replica, the first is kept")
    func firstRecordingStays() {
        var random = SplitMix64(seed: 1)
        let replica = ReplicaID.random(using: &random)
        let recordings = [3, 1, 2].map { time in
            Recording(
                transaction: TransactionReference(id: "1"), replica: replica,
                recordedAt: Timestamp(milliseconds: Int64(time)), knownEnd: nil,
                logicalTime: LogicalTime(rawValue: time))
        }
        let merged = Ledger(recordings.map { Fact.recording($0).record }).records.map(Fact.init)
        #expect(merged == [.recording(recordings[1])])
    }

    @Test("A purchase, its recording and its revocation are three records, as are a product's two marks")
    func kindsHaveKeysOfTheirOwn() throws {
        try forAll("keys", cases: 5_000) { random, place in
            let (left, right) = (Fact.random(using: &random), Fact.random(using: &random))
            let isSame = left.record.key == right.record.key
            try #require(isSame == (Name(left) == Name(right)), "\(place)")
        }
    }

    /// The identity of a fact, independent of its encoding.
    private enum Name: Hashable {
        case purchase(TransactionReference), revocation(TransactionReference)
        case recording(TransactionReference, ReplicaID)
        case renewalState(TransactionReference), assertion(Assertion.Reference), acceptance(TransactionReference)
        case flag(ProductID, EnvironmentID, isSet: Bool), spend(SpendID), pending(ProductID), reset(EnvironmentID)
        case contradiction(TransactionReference, Purchase), claim, none
        case policy, evidence(String, String)

        init(_ fact: Fact) {
            self =
                switch fact {
                case .purchase(let fact): .purchase(fact.transaction)
                case .recording(let fact): .recording(fact.transaction, fact.replica)
                case .revocation(let fact): .revocation(fact.transaction)
                case .flag(let fact): .flag(fact.product, fact.environment, isSet: fact.isSet)
                case .spend(let fact): .spend(fact.id)
                case .pending(let fact): .pending(fact.product)
                case .renewalState(let fact): .renewalState(fact.line)
                case .assertion(let fact): .assertion(fact.reference)
                case .acceptance(let fact): .acceptance(fact.transaction)
                case .reset(let fact): .reset(fact.environment)
                case .claim: .claim
                case .policy: .policy
                case .evidence(let fact): .evidence(fact.kind, fact.subject)
                case .contradiction(let fact): .contradiction(fact.kept.transaction, fact.dropped.unstamped)
                case .unreadable: .none
                }
        }
    }
}

extension Purchase {
    /// The content of a statement without its stamp.
    fileprivate var unstamped: Purchase {
        var purchase = self
        purchase.stamp = Stamp(logicalTime: .zero)
        return purchase
    }
}
