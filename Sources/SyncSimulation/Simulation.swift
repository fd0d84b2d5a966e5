import EntitlementSync

/// Runs scenarios.
///
/// The production store, engine and reconciler run unmodified on a seeded executor in virtual time, over stores and
/// links that fail as the scenario says. Oracles observe the run from outside. The same scenario gives the same run,
/// byte for byte, on every machine and in every process.
///
/// ```swift
/// let scenario = Swarm().scenario(seed: 42)
/// let outcome = Simulation(scenario).run()
/// for violation in outcome.violations { print(violation) }
/// ```
public struct Simulation: Sendable {
    /// The scenario.
    public let scenario: Scenario
    /// The catalogues, rules and shared store under test.
    public let subject: Subject

    /// The result of a run.
    public struct Outcome: Sendable {
        /// The violated invariants; empty if all held.
        public var violations: [Violation]
        /// The rare states that were reached.
        public var marks: Marks
        /// A hash of all events in order (time, place, kind, failure) and of all bytes that the stores hold at the
        /// end. Texts are not part of it.
        public var traceHash: UInt64
        /// The trace, if it was recorded.
        public var trace: Trace?
        /// The number of jobs that ran.
        public var jobCount: Int
        /// The virtual time that passed.
        public var virtualTime: Duration
    }

    /// A run of `scenario`. An expiry rule that the scenario names replaces the one of `subject`.
    public init(_ scenario: Scenario, of subject: Subject = Subject()) {
        self.scenario = scenario
        self.subject = subject.using(expiryRule: scenario.rules)
    }

    /// The limit of jobs, after which a run counts as endless: 20 million, and 5,000 for each poll of a device.
    ///
    /// No generated scenario takes a hundredth of the former; a poll that finds nothing new takes about 800 jobs.
    package var jobLimit: Int {
        let polls = scenario.devices.compactMap(\.pollingHours).reduce(0) { $0 + scenario.days * 24 / $1 }
        return 20_000_000 + 5_000 * polls
    }

    /// The start of every run: 1 January 2026, 00:00 UTC, in milliseconds since 1970 UTC.
    public static let epoch = Scheduler.epoch

    /// Runs the scenario on the calling thread, which is blocked until the end.
    ///
    /// - Parameter isRecording: `true` to record the trace, which takes time and memory.
    public func run(isRecording: Bool = false) -> Outcome {
        EscapeWatch.begin()
        let world = World(scenario, subject: subject, isRecording: isRecording)
        world.scheduler.spawn {
            await world.live()
            world.isOver = true
        }
        do throws(Scheduler.Failure) {
            try world.scheduler.run(atMost: jobLimit) { world.isOver }
        } catch {
            let reason =
                switch error {
                case .stuck: "deadlock: a task waits, but no job is ready and no timer is set"
                case .endless(let jobs): "the run did not end within \(jobs) jobs"
                }
            world.report(.execution, reason, lane: 0)
        }
        let escapes = EscapeWatch.escapeCount + world.scheduler.foreignJobCount + world.escapeCount
        if escapes > 0 { world.report(.execution, "\(escapes) jobs left the executor of the run", lane: 0) }
        world.mixContents()
        defer { world.takeDown() }
        return Outcome(
            violations: world.violations, marks: world.marks, traceHash: world.recorder.hash,
            trace: isRecording ? world.trace : nil, jobCount: world.scheduler.executor.jobCount,
            virtualTime: .microseconds(world.scheduler.now))
    }
}
