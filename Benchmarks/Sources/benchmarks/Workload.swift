import BenchmarkSupport
import Entitlements
import SyncCoreTesting

/// Two ledgers of one size that share half of their records, with the operations to measure.
struct Workload {
    let size: Int
    let catalog: Catalog
    let left: Ledger
    let right: Ledger
    /// `left` with one more record.
    let leftAndOne: Ledger
    let leftDocument: [UInt8]
    let rightDocument: [UInt8]
    let facts: Facts
    let replay: Replay
    /// An instant within a period of the group.
    let active: Timestamp
    /// An instant before every purchase.
    let early: Timestamp

    init(size: Int, catalog: Catalog, seed: UInt64) {
        self.size = size
        self.catalog = catalog
        var generator = FactGenerator(catalog: catalog, seed: seed)
        let records = generator.facts(count: size + size / 2).map(\.record)
        // The side of each record is random, so that the differences are spread without a pattern.
        var draw = SeededGenerator(seed: seed + 1)
        let shuffled = records.shuffled(using: &draw)
        left = Ledger(shuffled[..<size])
        right = Ledger(shuffled[(size / 2)...])
        leftAndOne = left.joined(with: Ledger(shuffled[size...size]))
        leftDocument = LedgerDocument(ledger: left).encoded()
        rightDocument = LedgerDocument(ledger: right).encoded()
        facts = Facts(account: left)
        replay = Replay(facts, catalog: catalog)
        active = replay.timelines["random"]?.periods.first?.start ?? FactGenerator.firstDate
        early = Timestamp(milliseconds: FactGenerator.firstDate.milliseconds - 1)
    }

    /// Ends the process if a result is wrong.
    func check() {
        let join = Ledger.join(left, right)
        expect(left.count == size && right.count == size, "each ledger has \(size) records")
        expect(join.ledger.count == size + size / 2, "half of the records are shared")
        expect(join.leftLacks && join.rightLacks, "both lack something")
        expect(join.ledger == right.joined(with: left), "joining does not depend on the order")
        expect(join.ledger.joined(with: left) == join.ledger, "joining once more changes nothing")
        expect(
            join.ledger == Ledger(left.records + right.records), "the join is the union of both ledgers' records")
        let decoded = try? LedgerDocument(decoding: leftDocument)
        expect(decoded?.ledger == left, "decoding gives what was encoded")
        expect(facts.unreadable.isEmpty, "every fact is readable")
        let (advanced, anew) = (facts.advanced(account: leftAndOne), Facts(account: leftAndOne))
        expect(advanced.purchases == anew.purchases && advanced.spends == anew.spends, "one new fact is added")
        expect(left.records.map { Fact($0).record } == left.records, "a fact gives its record back")
        expect(replay.access(to: "random-owls", at: early) == .denied(.notPurchased), "nothing is granted too early")
    }
}
