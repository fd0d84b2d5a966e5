import SyncCore
import SyncCoreTesting
import Testing

@testable import SyncSimulation

/// The cluster alone, in virtual time.
@Suite("A simulated cluster")
struct SimulatedClusterTests {
    private static let keys = ["a", "b", "c"].compactMap { try? EntryKey($0) }

    @Test("A change feed that is followed beside slow commits reports every acknowledged write in its next page")
    func slowCommits() throws {
        var overtaken = 0
        for seed in UInt64(1)...50 {
            let bench = try Bench(seed: seed, ClusterSetup(slowCommits: 500, longestCommit: 5_000, longestLag: 5_000))
            try bench.run { bench in
                for round in 0..<4 {
                    for key in Self.keys { bench.spawn { await bench.write([UInt8(round)], to: key) } }
                    await bench.rest(milliseconds: 3_000)
                }
                await bench.rest(milliseconds: 30_000)
            }
            #expect(bench.violations.isEmpty, "seed \(seed)")
            #expect(bench.written == 12, "seed \(seed)")
            overtaken += bench.marks.count { $0 == .slowCommitOvertaken }
        }
        #expect(overtaken > 0)
    }

    @Test("A failover loses no acknowledged write, and only writes under way have an unknown outcome")
    func failovers() throws {
        var marks: Set<Mark> = []
        for seed in UInt64(1)...100 {
            let bench = try Bench(seed: seed, ClusterSetup(slowCommits: 100, longestCommit: 500, longestLag: 5_000))
            try bench.run { bench in
                await bench.work(on: Self.keys) { bench.cluster.failOver(afterWrites: 2, promotion: 200_000) }
                bench.cluster.heal()
                await bench.finish(Self.keys)
            }
            #expect(bench.violations.isEmpty, "seed \(seed)")
            #expect(bench.refusals.allSatisfy { $0.kind == .unavailable && $0.disposition != .permanent })
            marks.formUnion(bench.marks)
        }
        let expected: Set<Mark> = [.failoverDuringWrite, .unknownSurvivedFailover, .unknownLostInFailover]
        #expect(marks.isSuperset(of: expected), "missing: \(expected.subtracting(marks))")
    }

    @Test("A switchover loses no write, and each connection to the former primary is closed when it is used")
    func switchovers() throws {
        var refusals = 0
        for seed in UInt64(1)...100 {
            let bench = try Bench(seed: seed, ClusterSetup(slowCommits: 100, longestCommit: 500, longestLag: 5_000))
            try bench.run { bench in
                await bench.work(on: Self.keys) {
                    await bench.rest(milliseconds: 10)
                    bench.cluster.switchOver(promotion: 200_000)
                }
                await bench.finish(Self.keys)
            }
            #expect(bench.violations.isEmpty, "seed \(seed)")
            #expect(bench.refusals.allSatisfy { $0.kind == .unavailable && $0.disposition == .transient })
            #expect(bench.marks.count { $0 == .readOnlyConnectionClosed } == 4)
            refusals += bench.refusals.count
        }
        #expect(refusals > 0)
    }

    @Test("Contents that replace those of the cluster are on the standby too")
    func replaced() throws {
        let bench = try Bench(seed: 1, ClusterSetup(longestLag: 60_000))
        try bench.run { bench in
            let key = Self.keys[0]
            await bench.write([1], to: key)
            let copy = bench.contents.copy()
            await bench.write([2], to: key)
            #expect(bench.contents.putBack(copy))
            bench.cluster.failOver(afterWrites: 0, promotion: 1_000)
            await bench.rest(milliseconds: 10)
            bench.cluster.heal()
            let value = try await bench.contents.read(key).outcome.value
            #expect(value == [1])
        }
        #expect(bench.violations.isEmpty)
    }

    /// `SwarmTests` runs them.
    @Test("Scenarios with and without a cluster are generated")
    func swarm() {
        let scenarios = (UInt64(1)...200).map { Swarm().scenario(seed: $0) }
        let clusters = scenarios.filter { $0.remote.cluster != nil }
        #expect((20...80).contains(clusters.count))
        #expect(clusters.allSatisfy { $0.remote.comparesAndSwaps })
        #expect(clusters.contains { $0.remote.policy != nil } && clusters.contains { $0.remote.policy == nil })
    }
}

/// A cluster with a scheduler and a witness. Single-threaded.
private final class Bench: @unchecked Sendable {
    let scheduler: Scheduler
    let cluster: SimulatedCluster
    let contents: StoreContents
    private(set) var marks: [Mark] = []
    private(set) var violations: [String] = []
    private(set) var refusals: [BackendError] = []
    private(set) var written = 0
    private var isOver = false

    init(seed: UInt64, _ setup: ClusterSetup) throws {
        let scheduler = Scheduler(seed: seed)
        let random = RandomSource(seed: seed)
        let bits = Bits(random.generator(for: 0, 0, .remote))
        let host = HostServices(
            now: { scheduler.trueTime }, timer: SimulationClock(scheduler: scheduler), randomBits: { bits.next() })
        self.scheduler = scheduler
        cluster = SimulatedCluster(
            setup, primary: MemoryBackend(host: host), host: host, scheduler: scheduler, random: random)
        contents = StoreContents(cluster, executor: scheduler.executor)
        cluster.reach = { [unowned self] in self.marks.append($0) }
        contents.witness = StoreWitness { [unowned self] in self.violations.append("\($0): \($1)") }
    }

    func run(_ body: @escaping @Sendable (Bench) async throws -> Void) throws {
        scheduler.spawn { [self] in
            do { try await body(self) } catch { Issue.record(error) }
            isOver = true
        }
        try scheduler.run(atMost: 1_000_000) { isOver }
    }

    /// Writes and reads all keys in 20 rounds, and calls `disturb` beside the writes of the eleventh.
    func work(on keys: [EntryKey], disturb: () async -> Void) async {
        for round in 0..<20 {
            for key in keys { spawn { await self.write([UInt8(round)], to: key) } }
            if round == 10 { await disturb() }
            await rest(milliseconds: 100)
            for key in keys { await read(key) }
        }
        await rest(milliseconds: 30_000)
    }

    /// Reads all keys, and compares the contents with the change feed.
    func finish(_ keys: [EntryKey]) async {
        for key in keys { await read(key) }
        await contents.witness?.checkEnd(contents)
    }

    func spawn(_ body: @escaping @Sendable () async -> Void) { scheduler.spawn(body) }

    func rest(milliseconds: Int64) async {
        do { try await scheduler.sleep(until: scheduler.now + milliseconds * 1_000) } catch {}
    }

    func write(_ value: [UInt8], to key: EntryKey) async {
        do throws(BackendError) {
            if case .written = try await contents.write(value, to: key, if: .any).outcome { written += 1 }
        } catch { refusals.append(error) }
    }

    func read(_ key: EntryKey) async {
        do throws(BackendError) { _ = try await contents.read(key) } catch { refusals.append(error) }
    }
}

extension ReadOutcome {
    fileprivate var value: [UInt8]? {
        if case .found(let entry) = self { entry.value } else { nil }
    }
}
