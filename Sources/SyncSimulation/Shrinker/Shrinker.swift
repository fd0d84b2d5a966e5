/// Reduces a failing scenario: removes steps and devices, turns off faults, rounds times and simplifies everything
/// else, as long as the same oracle is violated.
///
/// Steps are removed by delta debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input",
/// 2002): first halves, then quarters, until every remaining step is needed. Random decisions of a run depend on place
/// and occasion and not on each other, so removing a step seldom changes the rest. The result is deterministic.
///
/// ```swift
/// let subject = Subject(rules: ConflictRules(expiry: LatestExpiryWins()))
/// if let shrunk = Shrinker(of: subject).shrink(Swarm().scenario(seed: 42)) {
///     print(shrunk.scenario.regressionTest(for: shrunk.violation))
/// }
/// ```
public struct Shrinker: Sendable {
    /// The catalogues, rules and shared store under test.
    public let subject: Subject
    /// The maximum number of runs, 1 or more.
    public let attempts: Int

    /// The progress of a search.
    public struct Progress: Hashable, Sendable {
        /// The number of runs so far.
        public var attempts: Int
        /// The number of steps of the smallest failing scenario so far.
        public var steps: Int
        /// The number of its devices.
        public var devices: Int
    }

    /// The result of a search.
    public struct Shrunk: Hashable, Sendable {
        /// The smallest scenario that was found to fail.
        public var scenario: Scenario
        /// Its first violation of the oracle that the original scenario violated first.
        public var violation: Violation
        /// The number of runs.
        public var attempts: Int
        /// True if nothing more could be removed, `false` if the attempts were used up.
        public var isMinimal: Bool
    }

    /// Creates a shrinker.
    ///
    /// - Parameters:
    ///   - subject: The catalogues, rules and shared store under test.
    ///   - attempts: The maximum number of runs, 1 or more.
    public init(of subject: Subject = Subject(), attempts: Int = 2_000) {
        precondition(attempts > 0, "attempts must be 1 or more, not \(attempts)")
        self.subject = subject
        self.attempts = attempts
    }

    /// Shrinks `scenario` on the calling thread.
    ///
    /// - Parameters:
    ///   - scenario: The failing scenario.
    ///   - progress: Called after each run.
    /// - Returns: The smallest failing scenario; `nil` if `scenario` does not fail.
    public func shrink(_ scenario: Scenario, progress: (Progress) -> Void = { _ in }) -> Shrunk? {
        guard let violation = Simulation(scenario, of: subject).run().violations.first else { return nil }
        return withoutActuallyEscaping(progress) { progress in
            let search = ShrinkSearch(scenario, violation: violation, limit: attempts) { candidate, violation in
                Simulation(candidate, of: subject).run().violations.first { $0.oracle == violation.oracle }
            } progress: { search in
                progress(
                    Progress(
                        attempts: search.attempts, steps: search.best.steps.count, devices: search.best.devices.count))
            }
            search.repeatPasses {
                search.leaveOutSteps()
                search.leaveOutDevices()
                search.simplifySurroundings()
                search.simplifySteps()
                if search.isUnchanged { search.leaveOutStepsInOtherOrders() }
            }
            return Shrunk(
                scenario: search.best, violation: search.violation, attempts: search.attempts,
                isMinimal: !search.isExhausted)
        }
    }
}

// MARK: removing steps and devices

extension ShrinkSearch<Scenario, Violation> {
    /// Some failures depend on an order of jobs that changes with the number of steps: tries other seeds.
    fileprivate func leaveOutStepsInOtherOrders() {
        for seed in UInt64(1)...4 {
            for index in best.steps.indices.reversed() where index < best.steps.count {
                tries {
                    $0.seed = seed
                    $0.steps.remove(at: index)
                }
            }
        }
    }

    /// Removes whole devices, with their steps or with the steps moved to another device.
    fileprivate func leaveOutDevices() {
        var device = best.devices.count - 1
        while device >= 0 {
            if best.devices.count > 1, !tries({ $0.removeDevice(device) }) {
                for other in best.devices.indices where other != device {
                    if tries({ $0.removeDevice(device, movingStepsTo: other) }) { break }
                }
            }
            device -= 1
        }
    }
}

extension Scenario: ShrinkableScenario {}

extension Scenario {
    /// Removes a device and renumbers those after it.
    fileprivate mutating func removeDevice(_ index: Int, movingStepsTo other: Int? = nil) {
        if let other {
            for step in steps.indices where steps[step].device == index { steps[step].device = other }
        } else {
            steps.removeAll { $0.device == index }
        }
        devices.remove(at: index)
        for step in steps.indices {
            if let device = steps[step].device, device > index { steps[step].device = device - 1 }
        }
    }
}
