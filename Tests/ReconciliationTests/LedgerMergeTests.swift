import EntitlementSync
import Entitlements
import EntitlementsTestSupport
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Merging ledgers as documents")
struct LedgerMergeTests {
    private let merge = LedgerMerge()

    private func document(_ ledger: Ledger, section: [UInt8] = []) -> [UInt8] {
        merge.close(OpenDocument(content: ledger, localSection: section))
    }

    @Test("Opening, joining and closing obeys the join laws, for known and unknown kinds of records")
    func laws() {
        let cases = Soak.caseCount(10_000, least: 500)
        let report = JoinLaws.check(
            cases: cases, seed: printedSeed("join laws of ledgers"),
            join: { left, right in
                let joined = merge.join(try merge.open(left).content, try merge.open(right).content)
                return document(joined.content)
            },
            value: { generator in
                var random = SplitMix64(seed: generator.next())
                return document(.random(using: &random))
            })
        #expect(report.holds, "\(report)")
        #expect(report.caseCount == cases)
    }

    @Test("A side lacks something exactly if it differs from the union, and digests differ with the content")
    func lacking() throws {
        try forAll("sides that lack", cases: 5_000) { random, place in
            let left = Ledger.random(upTo: 3, using: &random)
            let right = random.chance(1, in: 4) ? left : Ledger.random(upTo: 3, using: &random)
            let joined = merge.join(left, right)
            try #require(joined.leftLacks == (joined.content != left), "\(place)")
            try #require(joined.rightLacks == (joined.content != right), "\(place)")
            try #require((merge.digest(of: left) == merge.digest(of: right)) == (left == right), "\(place)")
        }
    }

    @Test("The local section is part of the document but not of the joined content")
    func section() throws {
        let ledger = Ledger([Record(key: [1], order: [2], payload: [3])])
        let opened = try merge.open(document(ledger, section: [7, 8]))
        #expect(opened.localSection == [7, 8])
        #expect(opened.content == ledger)
        #expect(merge.digest(of: opened.content) == merge.digest(of: ledger))
    }

    @Test("A damaged document and a newer one give different errors")
    func damage() throws {
        var damaged = document(Ledger([Record(key: [1], order: [2], payload: [3])]))
        damaged[damaged.count - 1] ^= 1
        let error = #expect(throws: DocumentError.self) { try merge.open(damaged) }
        #expect(error?.isNewer == false)
        var newer = document(Ledger())
        newer[4] = 2
        #expect(#expect(throws: DocumentError.self) { try merge.open(newer) }?.isNewer == true)
    }
}
