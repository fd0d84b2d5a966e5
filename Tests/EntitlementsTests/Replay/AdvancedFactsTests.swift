import EntitlementsTestSupport
import TestSupport
import Testing

@testable import Entitlements

@Suite("Facts and replays of later ledgers continue from earlier ones")
struct AdvancedFactsTests {
    @Test("Continuing from an earlier replay gives the same as reading and replaying everything anew")
    func sameAsAnew() throws {
        let catalog = try Shop.catalog()
        let rules = ConflictRules(expiry: StackPurchases(), flags: LastWriterWins(), consumables: .deviceLocal)
        var (stepCount, continuedCount) = (0, 0)
        try forAll("advanced facts", cases: Soak.advancedAccountCount) { random, place in
            var account = RandomAccount(using: &random)
            var replay = Replay(
                account.facts, catalog: catalog, environment: random.pick([.production, .sandbox]),
                rules: random.chance(1, in: 2) ? rules : nil)
            for _ in 0..<random.int(1...4) {
                account.change(using: &random)
                stepCount += 1
                if account.isAdvance(of: replay.facts) { continuedCount += 1 }
                replay = replay.advanced(
                    account: account.account, device: account.device, server: account.server, remote: account.remote)
                let anew = Replay(account.facts, catalog: replay.catalog, environment: replay.environment)
                try Self.requireEqual(replay, anew, place)
            }
        }
        // Most changes are gains, and the others must be read anew.
        #expect(continuedCount * 10 > stepCount * 4 && continuedCount * 10 < stepCount * 9)
    }

    /// Compares every stored property, so that new properties are compared too.
    private static func requireEqual(_ left: Replay, _ right: Replay, _ place: String) throws {
        for (left, right) in zip(Mirror(reflecting: left.facts).children, Mirror(reflecting: right.facts).children) {
            let (one, other) = (left.value as? AnyHashable, right.value as? AnyHashable)
            let isComparable = one != nil || Mirror(reflecting: left.value).displayStyle == .optional
            try #require(isComparable && one == other, "\(place): \(left.label ?? "")")
        }
        try #require(left.timelines == right.timelines, "\(place)")
        try #require(left.ownerships == right.ownerships, "\(place)")
        try #require(left.verdicts == right.verdicts, "\(place)")
    }

    @Test("One new fact among many decodes one")
    func decodesOne() throws {
        var random = SplitMix64(seed: 29)
        var spends = (0..<500).map { Self.spend(SpendID("s\($0)"), using: &random) }
        let new = spends.removeLast()
        let before = Facts(account: Ledger(spends.map(\.record)))
        let after = Ledger((spends + [new]).map(\.record))
        let advance = try #require(before.advance(account: after, device: Ledger(), server: Ledger(), remote: nil))
        #expect(advance.decoded == [new])
        #expect(advance.facts.spends == Facts(account: after).spends)
        #expect(advance.facts.spends.count == 500)
    }

    private static func spend(_ id: SpendID, using random: inout SplitMix64) -> Fact {
        .spend(
            Spend(
                id: id, product: Shop.coins, units: 1, date: .random(using: &random),
                replica: .random(using: &random), logicalTime: .random(using: &random)))
    }
}

/// The ledgers of one account, which change at random.
private struct RandomAccount {
    private(set) var account: Ledger
    private(set) var device: Ledger
    private(set) var server: Ledger
    private(set) var remote: Ledger?

    init(using random: inout SplitMix64) {
        account = Self.gain(0...8, using: &random)
        device = random.chance(1, in: 2) ? Ledger() : Self.gain(0...4, using: &random)
        server = random.chance(1, in: 2) ? Ledger() : Self.statements(0...4, using: &random)
        remote = random.chance(1, in: 2) ? nil : account
    }

    var facts: Facts { Facts(account: account, device: device, server: server, remote: remote) }

    func isAdvance(of facts: Facts) -> Bool {
        facts.advance(account: account, device: device, server: server, remote: remote) != nil
    }

    mutating func change(using random: inout SplitMix64) {
        switch random.int(0...19) {
        case 0: server = server.joined(with: Self.statements(1...2, using: &random))
        case 1: remote = account
        case 2: device = Ledger(device.records.dropLast())
        case 3: account = random.chance(1, in: 4) ? .erased : Ledger(account.records.dropFirst())
        case 4: device = device.joined(with: Ledger(account.records.prefix(2)))
        case 5: account = account.joined(with: device)
        case 6...8: device = device.joined(with: Self.gain(1...2, using: &random))
        case 9...11:
            let both = Self.gain(1...2, using: &random)
            account = account.joined(with: both)
            device = device.joined(with: both)
        default: account = account.joined(with: Self.gain(0...3, using: &random))
        }
    }

    /// Mostly facts that a client records, with ids that often coincide.
    private static func gain(_ count: ClosedRange<Int64>, using random: inout SplitMix64) -> Ledger {
        var records: [Record] = []
        for _ in 0..<random.int(count) {
            var fact = Fact.random(using: &random)
            for _ in 0..<3 {
                switch fact {
                case .contradiction, .acceptance, .policy, .evidence, .flag, .claim: fact = .random(using: &random)
                default: break
                }
            }
            records.append(fact.record)
            if random.chance(1, in: 40) { records[records.count - 1].payload = random.bytes(0...9) }
        }
        return Ledger(records)
    }

    /// Statements of a server, and sometimes its policy.
    private static func statements(_ count: ClosedRange<Int64>, using random: inout SplitMix64) -> Ledger {
        var facts: [Fact] = []
        for _ in 0..<random.int(count) { facts.append(.random(using: &random)) }
        if random.chance(1, in: 3) {
            facts.append(.policy(PolicyStatement(.verified, logicalTime: .random(using: &random))))
        }
        return Ledger(facts.map(\.record))
    }
}
