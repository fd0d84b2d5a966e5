import EntitlementSync
package import SyncCore
package import SyncService
package import SyncSimulation

/// Runs scenarios of servers.
///
/// The production service runs unmodified on a seeded executor in virtual time, as one to three processes over one
/// store. Clients reach it by the production clients, over a simulated network. Oracles see requests, responses and the
/// contents of the store.
package struct SimulatedService: Sendable {
    /// The scenario.
    package let scenario: ServiceScenario
    /// The service under test.
    package let subject: Subject

    /// Changes to the service under test, for tests of the oracles.
    package struct Subject: Sendable {
        /// Wraps the store of each process.
        package var wrapStore: @Sendable (any KeyValueBackend) -> any KeyValueBackend = { $0 }
        /// Replaces a response before it is sent, by the path of its request.
        package var changeResponse: @Sendable (_ path: String, ServiceResponse) -> ServiceResponse = { $1 }

        /// The production service.
        package init() {}
    }

    /// The result of a run.
    package struct Outcome: Sendable {
        /// The violated invariants; empty if all held.
        package var violations: [ServiceViolation]
        /// The number of times that each rare state was reached.
        package var marks: [ServiceMark: Int]
        /// A hash of all events in order.
        package var traceHash: UInt64
        /// The trace; without events unless it was recorded.
        package var trace: Trace
        /// The number of jobs that ran.
        package var jobCount: Int
        /// The virtual time that passed.
        package var virtualTime: Duration
    }

    /// The limit of jobs, after which a run counts as endless. No generated scenario takes a tenth of it.
    private static let jobLimit = 50_000_000

    /// A run of `scenario`.
    package init(_ scenario: ServiceScenario, of subject: Subject = Subject()) {
        (self.scenario, self.subject) = (scenario, subject)
    }

    /// Runs the scenario on the calling thread, which is blocked until the end.
    ///
    /// - Parameter isRecording: `true` to record the trace, which takes time and memory.
    package func run(isRecording: Bool = false) -> Outcome {
        EscapeWatch.begin()
        let world = ServiceWorld(scenario, subject: subject, isRecording: isRecording)
        world.spawn {
            await world.live()
            world.isOver = true
        }
        do throws(Scheduler.Failure) {
            try world.scheduler.run(atMost: Self.jobLimit) { world.isOver }
        } catch {
            let reason =
                switch error {
                case .stuck: "deadlock: a task waits, but no job is ready and no timer is set"
                case .endless(let jobs): "the run did not end within \(jobs) jobs"
                }
            world.report(.execution, reason)
        }
        let escapes = EscapeWatch.escapeCount + world.scheduler.foreignJobCount
        if escapes > 0 { world.report(.execution, "\(escapes) jobs left the executor of the run") }
        return Outcome(
            violations: world.violations, marks: world.marks, traceHash: world.recorder.hash, trace: world.trace,
            jobCount: world.scheduler.executor.jobCount, virtualTime: .microseconds(world.scheduler.now))
    }
}
