/// Makes a failing scenario small: leaves out steps and devices, ends faults, rounds times and simplifies all else, as
/// long as the same oracle is violated.
///
/// Steps are left out by delta debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input",
/// 2002): halves first, then quarters, until no single one can be spared. Random decisions of a run depend on place and
/// occasion and not on each other, so that what is left out seldom changes the rest. The same scenario shrinks to the
/// same one each time.
///
/// ```swift
/// let subject = Subject(rules: ConflictRules(expiry: LatestExpiryWins()))
/// if let shrunk = Shrinker(of: subject).shrink(Swarm().scenario(seed: 42)) {
///     print(shrunk.scenario.regressionTest(for: shrunk.violation))
/// }
/// ```
public struct Shrinker: Sendable {
    /// What is put to the test.
    public let subject: Subject
    /// How many runs it may take at most, 1 or more.
    public let attempts: Int

    /// How far it is.
    public struct Progress: Hashable, Sendable {
        /// Runs so far.
        public var attempts: Int
        /// Steps of the smallest scenario so far that fails.
        public var steps: Int
        /// Devices of it.
        public var devices: Int
    }

    /// What is left of a scenario.
    public struct Shrunk: Hashable, Sendable {
        /// The smallest scenario that was found to fail.
        public var scenario: Scenario
        /// What it violates: the first violation of the oracle that was violated first in the beginning.
        public var violation: Violation
        /// How many runs it took.
        public var attempts: Int
        /// Whether nothing more could be spared. `false` when the attempts were used up before.
        public var isMinimal: Bool
    }

    /// A shrinker.
    ///
    /// - Parameters:
    ///   - subject: what is put to the test.
    ///   - attempts: how many runs it may take at most, 1 or more.
    public init(of subject: Subject = Subject(), attempts: Int = 2_000) {
        precondition(attempts > 0, "a shrinker runs the scenario at least once")
        self.subject = subject
        self.attempts = attempts
    }

    /// Shrinks `scenario` on the calling thread.
    ///
    /// - Parameters:
    ///   - scenario: what fails.
    ///   - progress: called after each run.
    /// - Returns: what is left; `nil` when the scenario does not fail.
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

/// The search for a smaller scenario. One thread only.
final class ShrinkSearch {
    private(set) var best: Scenario
    private(set) var violation: Violation
    private(set) var attempts = 1
    /// Whether something was left untried because the attempts were used up.
    private(set) var isExhausted = false
    private let subject: Subject
    private let limit: Int
    private let progress: (Shrinker.Progress) -> Void
    /// Scenarios that hold, so that none is run twice.
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

    /// Goes on until a whole pass changes nothing.
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

    /// Takes `candidate` for the best if it violates the same oracle. Returns whether it does, as the best one itself.
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

    /// As ``tries(_:)`` for the best scenario with a change.
    @discardableResult
    func tries(_ change: (inout Scenario) -> Void) -> Bool {
        var candidate = best
        change(&candidate)
        return tries(candidate)
    }
}

// MARK: leaving out

extension ShrinkSearch {
    /// Runs of steps, halves first; later ones before earlier ones, since what comes last is seldom the cause.
    private func leaveOutSteps() {
        var size = (best.steps.count + 1) / 2
        while size > 0 {
            var end = best.steps.count
            while end > 0 {
                let range = max(0, end - size)..<end
                tries { $0.steps.removeSubrange(range) }
                end = range.lowerBound
            }
            // What was needed only by steps that have gone since can go in another round of single ones.
            size = size == 1 ? 0 : (size + 1) / 2
        }
    }

    /// Some failures need an order of jobs that another number of steps no longer gives: other seeds may.
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

    /// Whole devices, with what happens on them or with it moved to another one.
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
    /// Renumbers the devices after it.
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
