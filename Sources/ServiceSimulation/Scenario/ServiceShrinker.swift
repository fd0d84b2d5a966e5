import SyncSimulation

/// Reduces a failing scenario: removes steps, servers, devices and faults, as long as the same oracle is violated.
package struct ServiceShrinker {
    /// The service under test.
    package var subject: SimulatedService.Subject
    /// The maximum number of runs.
    package var attempts: Int

    /// A shrinker of scenarios that fail with `subject`.
    package init(of subject: SimulatedService.Subject = .init(), attempts: Int = 2_000) {
        (self.subject, self.attempts) = (subject, attempts)
    }

    /// Shrinks `scenario` on the calling thread. The result is deterministic.
    ///
    /// - Parameter progress: Called after each run with the number of runs and the smallest failing scenario.
    /// - Returns: The smallest failing scenario and its violation; `nil` if `scenario` does not fail.
    package func shrink(
        _ scenario: ServiceScenario, progress: (Int, ServiceScenario) -> Void = { _, _ in }
    ) -> (scenario: ServiceScenario, violation: ServiceViolation)? {
        guard var violation = SimulatedService(scenario, of: subject).run().violations.first else { return nil }
        var (best, runs) = (scenario, 1)
        func tries(_ change: (inout ServiceScenario) -> Void) -> Bool {
            var candidate = best
            change(&candidate)
            guard candidate != best, runs < attempts else { return false }
            runs += 1
            let found = SimulatedService(candidate, of: subject).run().violations
                .first { $0.oracle == violation.oracle }
            if let found { (best, violation) = (candidate, found) }
            progress(runs, best)
            return found != nil
        }
        var before: ServiceScenario
        repeat {
            before = best
            leaveOutSteps(of: { best.steps.count }, tries)
            simplify(best, tries)
        } while best != before && runs < attempts
        return (best, violation)
    }

    /// Removes runs of steps, first halves. Later ones come first, since the last steps are seldom the cause.
    private func leaveOutSteps(of count: () -> Int, _ tries: ((inout ServiceScenario) -> Void) -> Bool) {
        var size = (count() + 1) / 2
        while size > 0 {
            var end = count()
            while end > 0 {
                let range = max(0, end - size)..<end
                _ = tries { $0.steps.removeSubrange(range) }
                end = range.lowerBound
            }
            size = size == 1 ? 0 : (size + 1) / 2
        }
    }

    private func simplify(_ best: ServiceScenario, _ tries: ((inout ServiceScenario) -> Void) -> Bool) {
        _ = tries { $0.cluster = nil }
        _ = tries { $0.link = LinkRates() }
        _ = tries { $0.link.lostRequests = 0 }
        _ = tries { $0.link.lostAnswers = 0 }
        _ = tries { $0.link.repeatedRequests = 0 }
        _ = tries { $0.link.slow = 0 }
        _ = tries { $0.link.cutStreams = 0 }
        _ = tries { $0.ownership = .keepWithFirst }
        _ = tries { $0.isVerified = true }
        for index in best.servers.indices { _ = tries { $0.servers[index] = 0 } }
        for index in best.servers.indices.reversed() where best.servers.count > 1 {
            _ = tries { scenario in
                guard scenario.servers.count > index, scenario.servers.count > 1 else { return }
                scenario.servers.remove(at: index)
                // Steps that disturb a server that is gone go with it.
                let count = scenario.servers.count
                scenario.steps.removeAll { $0.action.server.map { $0 >= count } ?? false }
            }
        }
        let last = best.steps.flatMap(\.action.devices).max() ?? 0
        if last + 1 < best.devices.count { _ = tries { $0.devices.removeLast($0.devices.count - last - 1) } }
        for index in best.steps.indices {
            _ = tries { scenario in
                // Shortens the pause before the step.
                guard index < scenario.steps.count else { return }
                let former = index == 0 ? 0 : scenario.steps[index - 1].at
                let gap = scenario.steps[index].at - former
                guard gap > 2_000 else { return }
                for later in index..<scenario.steps.count { scenario.steps[later].at -= gap - 1_000 }
            }
        }
    }
}

extension ServiceScenario {
    /// A regression test for a suite of Swift Testing. The scenario is embedded as JSON.
    package func regressionTest(for violation: ServiceViolation) -> String {
        let lines = String(decoding: json, as: UTF8.self).split(separator: "\n")
        return """
                // \(violation)
                @Test func seed\(seed)() throws {
                    let json = #\"""
            \(lines.map { "            \($0)" }.joined(separator: "\n"))
                        \"""#
                    let scenario = try ServiceScenario(json: Array(json.utf8))
                    #expect(SimulatedService(scenario).run().violations.isEmpty)
                }

            """
    }
}
