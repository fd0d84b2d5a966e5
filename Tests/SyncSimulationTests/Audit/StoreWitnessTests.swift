import SyncCore
import Testing

@testable import SyncSimulation

@Suite("The witness of a cluster's readers")
struct StoreWitnessTests {
    private static let (first, second) = (version(1), version(2))
    private let key: EntryKey
    private let witness: StoreWitness
    private let reports = Reports()

    init() throws {
        key = try EntryKey("key")
        let reports = reports
        witness = StoreWitness { oracle, _ in reports.oracles.append(oracle) }
    }

    private static func version(_ number: UInt8) -> EntryVersion { EntryVersion(bytes: [number]) }

    private func acknowledge(_ version: EntryVersion, _ value: UInt8) {
        witness.didAnswer(witness.willWrite([value], to: key), key, .written(version))
    }

    private func read(_ version: EntryVersion, _ value: UInt8) {
        witness.didRead(key, .found(Entry(value: [value], version: version)), unless: nil)
    }

    private func fail(_ value: UInt8, _ disposition: BackendError.Disposition) {
        let number = witness.willWrite([value], to: key)
        witness.didFail(number, key, BackendError(.unavailable, disposition: disposition, message: "test"))
    }

    @Test("A read may see the last acknowledged write, also before its answer")
    func current() {
        witness.didRead(key, .absent, unless: nil)
        acknowledge(Self.first, 1)
        read(Self.first, 1)
        let number = witness.willWrite([2], to: key)
        read(Self.second, 2)
        witness.didAnswer(number, key, .written(Self.second))
        witness.didRead(key, .unchanged, unless: Self.second)
        #expect(reports.oracles.isEmpty)
    }

    @Test("A read that misses an acknowledged write is reported")
    func stale() {
        acknowledge(Self.first, 1)
        witness.didRead(key, .absent, unless: nil)
        acknowledge(Self.second, 2)
        read(Self.first, 1)
        #expect(reports.oracles == [.reads, .reads])
    }

    @Test("A write of unknown outcome may be seen, and one that was reported as not done may not")
    func outcomes() {
        acknowledge(Self.first, 1)
        fail(2, .outcomeUnknown)
        read(Self.first, 1)
        read(Self.second, 2)
        #expect(reports.oracles.isEmpty)
        fail(3, .transient)
        read(Self.version(3), 3)
        let number = witness.willWrite([4], to: key)
        witness.didAnswer(number, key, .conflict(Entry(value: [2], version: Self.second)))
        read(Self.version(4), 4)
        #expect(reports.oracles == [.reads, .reads])
    }

    @Test("A version that is used twice is reported")
    func reused() {
        acknowledge(Self.first, 1)
        acknowledge(Self.first, 2)
        #expect(reports.oracles == [.reads])
    }

    @Test("After a change from outside any version may be seen, until the next acknowledged write")
    func replaced() {
        acknowledge(Self.first, 1)
        witness.didReplace()
        read(Self.second, 2)
        acknowledge(Self.version(3), 3)
        witness.didPut(key)
        read(Self.version(4), 4)
        #expect(reports.oracles.isEmpty)
        acknowledge(Self.version(5), 5)
        read(Self.version(4), 4)
        #expect(reports.oracles == [.reads])
    }
}

private final class Reports {
    var oracles: [Violation.Oracle] = []
}
