/// A scenario whose steps can be removed.
package protocol ShrinkableScenario: Hashable {
    associatedtype ScheduledStep
    /// The actions, in ascending order of time.
    var steps: [ScheduledStep] { get set }
}

/// The search for a smaller scenario that violates the same oracle. Single-threaded.
package final class ShrinkSearch<Candidate: ShrinkableScenario, Failure> {
    package private(set) var best: Candidate
    package private(set) var violation: Failure
    /// The number of runs.
    package private(set) var attempts = 1
    /// True if a candidate was skipped because the attempts were used up.
    package private(set) var isExhausted = false
    private let limit: Int
    private let check: (Candidate, Failure) -> Failure?
    private let progress: (ShrinkSearch) -> Void
    /// Scenarios without violations, so that none is run twice.
    private var held: Set<Candidate> = []
    private var before: Candidate

    /// - Parameters:
    ///   - violation: The violation of `scenario`.
    ///   - limit: The maximum number of runs.
    ///   - check: Runs a scenario. Returns its violation of the same oracle as the given one.
    ///   - progress: Called after each run.
    package init(
        _ scenario: Candidate, violation: Failure, limit: Int, check: @escaping (Candidate, Failure) -> Failure?,
        progress: @escaping (ShrinkSearch) -> Void
    ) {
        (best, before, self.violation, self.limit) = (scenario, scenario, violation, limit)
        (self.check, self.progress) = (check, progress)
    }

    /// Repeats all passes until they change nothing.
    package func repeatPasses(_ passes: () -> Void) {
        repeat {
            before = best
            passes()
        } while !isUnchanged && !isExhausted
    }

    /// True if the present repetition of the passes has changed nothing.
    package var isUnchanged: Bool { best == before }

    /// Adopts a modified copy of the best scenario if it violates the same oracle. Returns `true` if it does, or equals
    /// the best one.
    @discardableResult
    package func tries(_ change: (inout Candidate) -> Void) -> Bool {
        var candidate = best
        change(&candidate)
        if candidate == best { return true }
        if held.contains(candidate) { return false }
        guard attempts < limit else {
            isExhausted = true
            return false
        }
        attempts += 1
        let found = check(candidate, violation)
        if let found { (best, violation) = (candidate, found) } else { held.insert(candidate) }
        progress(self)
        return found != nil
    }

    /// Removes runs of steps, first halves. Later ones come first, since the last steps are seldom the cause.
    package func leaveOutSteps() {
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
}
