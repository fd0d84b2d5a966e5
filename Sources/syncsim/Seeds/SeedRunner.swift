import Foundation
import SyncSimulation
import Synchronization

/// Runs seeds on several threads, each seed on one thread.
final class SeedRunner: Sendable {
    /// The seeds to run, and the settings.
    struct Plan: Sendable {
        var seeds: SeedRange
        /// Runs a seed.
        var simulate: @Sendable (UInt64) -> SeedResult
        var jobs: Int
        var stopsAtFailure: Bool
        var keepsHashes: Bool
    }

    private struct State {
        /// The next seed; `nil` if none is left.
        var next: UInt64?
        var workers: Int
        var tally = Tally()
    }

    private let plan: Plan
    private let progress: Progress
    private let state: Mutex<State>
    private let workerHasEnded = NSCondition()

    /// Enough for the deepest recursion of a run, unlike the default of 512 KiB on some systems.
    private static let stackSize = 8 << 20

    init(_ plan: Plan, progress: Progress) {
        self.plan = plan
        self.progress = progress
        state = Mutex(State(next: plan.seeds.first, workers: plan.jobs))
    }

    /// Returns when all seeds have run, one has failed and the plan stops there, or the user has interrupted.
    func run() -> Tally {
        for _ in 0..<plan.jobs {
            let thread = Thread { [self] in work() }
            thread.stackSize = Self.stackSize
            thread.start()
        }
        workerHasEnded.lock()
        while state.withLock({ $0.workers > 0 }) { workerHasEnded.wait() }
        workerHasEnded.unlock()
        return state.withLock { state in
            state.tally.sort()
            return state.tally
        }
    }

    private func work() {
        CrashNotice.begin()
        while let seed = nextSeed() {
            CrashNotice.runs(seed)
            take(plan.simulate(seed), of: seed)
        }
        CrashNotice.runs(nil)
        workerHasEnded.lock()
        state.withLock { $0.workers -= 1 }
        workerHasEnded.signal()
        workerHasEnded.unlock()
    }

    private func nextSeed() -> UInt64? {
        guard !Interruption.isAsked else { return nil }
        return state.withLock { state in
            guard let seed = state.next, !(plan.stopsAtFailure && !state.tally.failures.isEmpty) else { return nil }
            state.next = seed == plan.seeds.last ? nil : seed + 1
            return seed
        }
    }

    private func take(_ result: SeedResult, of seed: UInt64) {
        state.withLock { $0.tally.add(result, of: seed, keepsHash: plan.keepsHashes) }
        let total = plan.stopsAtFailure ? nil : plan.seeds.count
        progress.show(state.withLock { $0.tally.progress(of: total, after: progress.elapsed) })
    }
}

/// The result of one seed.
struct SeedResult: Sendable {
    /// The oracle and the message of the first violation; `nil` if all invariants held.
    var failure: (oracle: String, message: String)?
    /// The number of times that each rare state was reached.
    var marks: [String: Int]
    var traceHash: UInt64
    var virtualTime: Duration
}

extension SeedResult {
    init(_ outcome: Simulation.Outcome) {
        failure = outcome.violations.first.map { ($0.oracle.rawValue, $0.message) }
        (marks, traceHash, virtualTime) = (outcome.marks.counts, outcome.traceHash, outcome.virtualTime)
    }
}

/// The combined results of seeds.
struct Tally: Sendable {
    var seeds = 0
    /// The failing seeds, each with its first violation.
    var failures: [RunSummary.Failing] = []
    var marks: [String: Int] = [:]
    /// The total virtual time, in seconds.
    var virtualSeconds = 0.0
    var hashes: [RunSummary.Hash] = []

    mutating func add(_ result: SeedResult, of seed: UInt64, keepsHash: Bool) {
        seeds += 1
        if let first = result.failure {
            failures.append(RunSummary.Failing(seed: seed, oracle: first.oracle, message: first.message))
        }
        marks.merge(result.marks) { $0 + $1 }
        virtualSeconds += result.virtualTime.inSeconds
        if keepsHash { hashes.append(RunSummary.Hash(seed: seed, hash: result.traceHash.hash)) }
    }

    /// Makes the output independent of the order in which threads finished.
    mutating func sort() {
        failures.sort { $0.seed < $1.seed }
        hashes.sort { $0.seed < $1.seed }
    }

    /// The progress of the run in one line. `total` is the number of all seeds; `nil` if unlimited.
    func progress(of total: UInt64?, after elapsed: Duration) -> String {
        let failing = failures.count
        let rate = Double(seeds) / max(elapsed.inSeconds, 0.001)
        let result = failing == 0 ? "none fails" : "\(failing) fail\(failing == 1 ? "s" : "")"
        guard let total else { return "\(seeds) seeds, \(rate.text(digits: 1)) a second, \(result)" }
        let part = Double(seeds) / Double(total)
        let filled = Int(part * 24)
        let bar = String(repeating: "█", count: filled) + String(repeating: "░", count: 24 - filled)
        let left = Int(min((Double(total) - Double(seeds)) / max(rate, 0.001), 1e9))
        return "\(bar) \(Int(part * 100)) %  \(seeds) of \(total) seeds, \(rate.text(digits: 1)) a second, "
            + "\(result), \(Self.clock(left)) left"
    }

    /// `1:02:03`.
    private static func clock(_ seconds: Int) -> String {
        let parts = [seconds / 60 % 60, seconds % 60].map { $0 < 10 ? "0\($0)" : "\($0)" }
        return "\(seconds / 3_600):" + parts.joined(separator: ":")
    }
}
