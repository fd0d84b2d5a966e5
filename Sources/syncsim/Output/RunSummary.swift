import SyncSimulation

/// The output of `run`.
struct RunSummary: Codable {
    private enum CodingKeys: CodingKey {
        case failing, seeds, firstSeed, rules, jobs, seconds, seedsPerSecond, virtualDays, timesRealTime, marks
        case missingMarks, isInterrupted, hashes
    }

    struct Failing: Codable, Sendable {
        var seed: UInt64
        var oracle: String
        var message: String
    }

    struct Hash: Codable, Sendable {
        var seed: UInt64
        var hash: String
    }

    /// Failing seeds, in ascending order.
    var failing: [Failing]
    /// The number of seeds that ran.
    var seeds: Int
    var firstSeed: UInt64
    var rules: String
    var jobs: Int
    /// The wall-clock time.
    var seconds: Double
    var seedsPerSecond: Double
    var virtualDays: Double
    /// The ratio of virtual time to real time, over all threads.
    var timesRealTime: Double
    var marks: [String: Int]
    var missingMarks: [String]
    var isInterrupted: Bool
    /// All rare states, in the order of their declaration.
    private var states: [String] = []
    /// `nil` without `--hashes`.
    var hashes: [Hash]?

    /// - Parameter states: All rare states, in the order of their declaration.
    init(_ tally: Tally, plan: SeedRunner.Plan, rules: String, states: [String], elapsed: Duration) {
        failing = tally.failures
        seeds = tally.seeds
        firstSeed = plan.seeds.first
        self.rules = rules
        jobs = plan.jobs
        seconds = max(elapsed.inSeconds, 0.000_001)
        seedsPerSecond = Double(tally.seeds) / seconds
        virtualDays = tally.virtualSeconds / 86_400
        timesRealTime = tally.virtualSeconds / seconds
        marks = Dictionary(uniqueKeysWithValues: states.map { ($0, tally.marks[$0] ?? 0) })
        missingMarks = states.filter { tally.marks[$0, default: 0] == 0 }
        self.states = states
        isInterrupted = Interruption.isAsked
        hashes = plan.keepsHashes ? tally.hashes : nil
    }

    /// The summary, with the first failing seeds; JSON has all of them.
    func text(listsMarks: Bool) -> String {
        var lines: [String] = []
        if !failing.isEmpty {
            lines.append("\(failing.count) of \(plural(seeds, "seed")) fail\(failing.count == 1 ? "s" : ""):")
            lines += shortened(failing.map { "  \($0.seed)  \($0.oracle): \($0.message.onOneLine)" })
        } else {
            lines.append(seeds == 1 ? "the seed holds" : "all \(seeds) seeds hold")
        }
        if isInterrupted { lines.append("interrupted") }
        lines.append(
            "\(plural(seeds, "seed")) in \(seconds.text(digits: 2)) s on \(plural(jobs, "thread")), "
                + "\(seedsPerSecond.text(digits: 1)) a second")
        lines.append(
            "\(virtualDays.text(digits: 0)) virtual days, \(timesRealTime.text(digits: 0)) times as fast as real time")
        return (lines + markLines(listsMarks: listsMarks)).joined(separator: "\n") + "\n"
    }

    private func markLines(listsMarks: Bool) -> [String] {
        var lines = ["\(marks.count - missingMarks.count) of \(marks.count) rare states reached"]
        if listsMarks {
            let width = states.map(\.count).max() ?? 0
            lines += states.map { "  \($0.padded(width))  \(marks[$0] ?? 0)" }
        }
        if !missingMarks.isEmpty { lines.append("never reached: \(missingMarks.joined(separator: ", "))") }
        return lines
    }
}
