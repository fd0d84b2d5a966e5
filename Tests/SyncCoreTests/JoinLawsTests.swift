import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("The join-law checker")
struct JoinLawsTests {
    private static func sortedBytes(_ generator: inout SeededGenerator) -> [UInt8] {
        Array(Set(generator.bytes(count: 0...6).map { $0 % 16 })).sorted()
    }

    @Test("accepts a union of sets")
    func union() {
        let report = JoinLaws.check(
            cases: 10_000, seed: printedSeed("union"), join: { Array(Set($0).union($1)).sorted() },
            value: Self.sortedBytes)
        #expect(report.holds, "\(report)")
        #expect(report.caseCount == 10_000)
    }

    @Test("reports the law that a wrong merge violates, with the values and the seed")
    func wrong() throws {
        // Like rock, paper, scissors: commutative, idempotent and absorbing, but not associative.
        let winner: ([UInt8], [UInt8]) -> [UInt8] = { left, right in
            (left[0] + 1) % 3 == right[0] ? left : right
        }
        let merges: [(JoinLaws.Law, ([UInt8], [UInt8]) -> [UInt8])] = [
            (.commutativity, { first, _ in first }), (.idempotency, { ($0 + $1).sorted() }), (.associativity, winner),
        ]
        for (law, merge) in merges {
            let check = { (seed: UInt64) in
                JoinLaws.check(cases: 1_000, seed: seed, join: merge) { [UInt8.random(in: 0...2, using: &$0)] }
            }
            let counterexample = try #require(check(9).counterexample)
            #expect(counterexample.law == law)
            #expect(counterexample.values.count == 3)
            #expect("\(check(9))".contains("\(law) fails in case \(counterexample.caseNumber), seed 9"))
            #expect(check(9).counterexample?.values == counterexample.values)
        }
    }

    @Test("counts an error of the merge as a counterexample")
    func throwing() {
        let report = JoinLaws.check(
            cases: 10, seed: 1, join: { _, _ in throw BackendError(.damaged, message: "unreadable") },
            value: Self.sortedBytes)
        #expect(!report.holds)
        #expect("\(report)".contains("unreadable"))
    }
}
