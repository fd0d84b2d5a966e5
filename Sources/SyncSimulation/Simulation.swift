import EntitlementSync

/// Runs scenarios.
///
/// The production store, engine and reconciler run unmodified on a seeded executor in virtual time, over stores and
/// links that fail as the scenario says; what is reached and what must hold is watched from outside. The same scenario
/// gives the same run, byte for byte, on every machine and in every process.
///
/// ```swift
/// let scenario = Swarm().scenario(seed: 42)
/// let outcome = Simulation(scenario).run()
/// for violation in outcome.violations { print(violation) }
/// ```
public struct Simulation: Sendable {
    /// What happens.
    public let scenario: Scenario
    /// The catalogues, rules and shared store under test.
    public let subject: Subject

    /// What a run gave.
    public struct Outcome: Sendable {
        /// What must not have happened and did; empty when all held.
        public var violations: [Violation]
        /// Which rare states were reached.
        public var marks: Marks
        /// A hash of what happened, in order: when, where, what kind of thing, whether it failed, and all bytes that
        /// the stores hold in the end. Texts are not in it.
        public var traceHash: UInt64
        /// What happened, if it was asked for.
        public var trace: Trace?
        /// How many jobs ran.
        public var jobCount: Int
        /// How much virtual time went by.
        public var virtualTime: Duration
    }

    /// A run of `scenario`. An expiry rule that the scenario names replaces the one of `subject`.
    public init(_ scenario: Scenario, of subject: Subject = Subject()) {
        self.scenario = scenario
        self.subject = subject.using(expiryRule: scenario.rules)
    }

    /// The number of jobs after which a run counts as endless: 20 million, and 5,000 for each time that a device polls.
    ///
    /// No drawn scenario takes a hundredth of the former; a poll that finds nothing new takes about 800.
    public var jobLimit: Int {
        let polls = scenario.devices.compactMap(\.pollingHours).reduce(0) { $0 + scenario.days * 24 / $1 }
        return 20_000_000 + 5_000 * polls
    }

    /// When every run begins: 1 January 2026, 00:00 UTC, in milliseconds since 1970 UTC.
    public static let epoch = Scheduler.epoch

    /// Runs it on the calling thread, which it keeps until the end.
    ///
    /// - Parameter isRecording: whether the outcome has the trace, which takes time and memory.
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
                case .stuck: "somebody waits for what never comes"
                case .endless(let jobs): "after \(jobs) jobs it had not come to its end"
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
