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
            let search = ShrinkSearch(
                scenario, violation: violation, subject: subject, limit: attempts, progress: progress)
            search.run()
            return Shrunk(
                scenario: search.best, violation: search.violation, attempts: search.attempts,
                isMinimal: !search.isExhausted)
        }
    }
}

/// The search for a smaller scenario. Single-threaded.
final class ShrinkSearch {
    private(set) var best: Scenario
    private(set) var violation: Violation
    private(set) var attempts = 1
    /// True if a candidate was skipped because the attempts were used up.
    private(set) var isExhausted = false
    private let subject: Subject
    private let limit: Int
    private let progress: (Shrinker.Progress) -> Void
    /// Scenarios without violations, so that none is run twice.
    private var held: Set<Scenario> = []

    init(
        _ scenario: Scenario, violation: Violation, subject: Subject, limit: Int,
        progress: @escaping (Shrinker.Progress) -> Void
    ) {
        best = scenario
        self.violation = violation
        self.subject = subject
        self.limit = limit
        self.progress = progress
    }

    /// Repeats all passes until one changes nothing.
    func run() {
        var before: Scenario
        repeat {
            before = best
            leaveOutSteps()
            leaveOutDevices()
            simplifySurroundings()
            simplifySteps()
            if best == before { leaveOutStepsInOtherOrders() }
        } while best != before && !isExhausted
    }

    /// Adopts `candidate` as the best scenario if it violates the same oracle. Returns `true` if it does, or equals
    /// the best one.
    @discardableResult
    func tries(_ candidate: Scenario) -> Bool {
        if candidate == best { return true }
        if held.contains(candidate) { return false }
        guard attempts < limit else {
            isExhausted = true
            return false
        }
        attempts += 1
        let violations = Simulation(candidate, of: subject).run().violations
        let found = violations.first { $0.oracle == violation.oracle }
        if let found {
            best = candidate
            violation = found
        } else {
            held.insert(candidate)
        }
        progress(Shrinker.Progress(attempts: attempts, steps: best.steps.count, devices: best.devices.count))
        return found != nil
    }

    /// Like ``tries(_:)``, for a modified copy of the best scenario.
    @discardableResult
    func tries(_ change: (inout Scenario) -> Void) -> Bool {
        var candidate = best
        change(&candidate)
        return tries(candidate)
    }
}

// MARK: removing steps and devices

extension ShrinkSearch {
    /// Removes runs of steps, first halves. Later ones come first, since the last steps are seldom the cause.
    private func leaveOutSteps() {
        var size = (best.steps.count + 1) / 2
        while size > 0 {
            var end = best.steps.count
            while end > 0 {
                let range = max(0, end - size)..<end
                tries { $0.steps.removeSubrange(range) }
                end = range.lowerBound
            }
            // A step that only removed steps needed can be removed in another round of single steps.
            size = size == 1 ? 0 : (size + 1) / 2
        }
    }

    /// Some failures depend on an order of jobs that changes with the number of steps: tries other seeds.
    private func leaveOutStepsInOtherOrders() {
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
    private func leaveOutDevices() {
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
