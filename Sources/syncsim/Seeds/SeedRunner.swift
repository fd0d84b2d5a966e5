import Foundation
import SyncSimulation
import Synchronization

/// Runs seeds on several threads, each seed on one thread.
final class SeedRunner: Sendable {
    /// The seeds to run, and the settings.
    struct Plan: Sendable {
        var seeds: SeedRange
        var swarm: Swarm
        var subject: Subject
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
            let outcome = Simulation(plan.swarm.scenario(seed: seed), of: plan.subject).run()
            take(outcome, of: seed)
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

    private func take(_ outcome: Simulation.Outcome, of seed: UInt64) {
        let text = state.withLock { state in
            state.tally.add(outcome, of: seed, keepsHash: plan.keepsHashes)
            return ProgressLine(tally: state.tally, total: plan.stopsAtFailure ? nil : plan.seeds.count)
        }
        progress.show(text.text(after: progress.elapsed))
    }
}

/// The combined results of seeds.
struct Tally: Sendable {
    /// A failing seed and its first violation.
    struct Failing: Sendable {
        var seed: UInt64
        var violation: Violation
    }

    var seeds = 0
    var failures: [Failing] = []
    var marks = Marks()
    /// The total virtual time, in seconds.
    var virtualSeconds = 0.0
    var hashes: [(seed: UInt64, hash: UInt64)] = []

    mutating func add(_ outcome: Simulation.Outcome, of seed: UInt64, keepsHash: Bool) {
        seeds += 1
        if let violation = outcome.violations.first { failures.append(Failing(seed: seed, violation: violation)) }
        marks.add(outcome.marks)
        virtualSeconds += outcome.virtualTime.inSeconds
        if keepsHash { hashes.append((seed, outcome.traceHash)) }
    }

    /// Makes the output independent of the order in which threads finished.
    mutating func sort() {
        failures.sort { $0.seed < $1.seed }
        hashes.sort { $0.seed < $1.seed }
    }
}

/// The progress of a run of many seeds, in one line.
struct ProgressLine {
    var seeds: Int
    var failing: Int
    /// The total number of seeds; `nil` if unlimited.
    var total: UInt64?

    init(tally: Tally, total: UInt64?) {
        seeds = tally.seeds
        failing = tally.failures.count
        self.total = total
    }

    func text(after elapsed: Duration) -> String {
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
