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
        let violations = { SimulatedService($0, of: subject).run().violations }
        guard let violation = violations(scenario).first else { return nil }
        return withoutActuallyEscaping(progress) { progress in
            let search = ShrinkSearch(scenario, violation: violation, limit: attempts) { candidate, violation in
                violations(candidate).first { $0.oracle == violation.oracle }
            } progress: {
                progress($0.attempts, $0.best)
            }
            search.repeatPasses {
                search.leaveOutSteps()
                search.simplify()
            }
            return (search.best, search.violation)
        }
    }
}

extension ServiceScenario: ShrinkableScenario {}

extension ShrinkSearch<ServiceScenario, ServiceViolation> {
    fileprivate func simplify() {
        tries { $0.cluster = nil }
        tries { $0.link = LinkRates() }
        for rate in [\LinkRates.lostRequests, \.lostAnswers, \.repeatedRequests, \.slow, \.cutStreams] {
            tries { $0.link[keyPath: rate] = 0 }
        }
        tries { $0.ownership = .keepWithFirst }
        tries { $0.isVerified = true }
        tries { $0.limits = nil }
        tries { $0.later = nil }
        tries { $0.projection = nil }
        tries { $0.projection?.idleServer = nil }
        tries { $0.projection?.deliversEvents = false }
        tries { $0.projection?.lostDeliveries = 0 }
        for index in best.servers.indices { tries { $0.servers[index] = 0 } }
        for index in best.servers.indices.reversed() where best.servers.count > 1 {
            tries { $0.removeServer(index) }
        }
        let last = best.steps.flatMap(\.action.devices).max() ?? 0
        if last + 1 < best.devices.count { tries { $0.devices.removeLast($0.devices.count - last - 1) } }
        for index in best.steps.indices { tries { $0.shortenPause(before: index) } }
    }
}

extension ServiceScenario {
    /// Removes a server and the steps that disturb it, and renumbers those after it.
    fileprivate mutating func removeServer(_ index: Int) {
        servers.remove(at: index)
        if let idle = projection?.idleServer, idle >= index {
            projection?.idleServer = idle > index ? idle - 1 : nil
        }
        if servers.count == 1 { projection?.idleServer = nil }
        steps = steps.compactMap { step in
            step.action.removingServer(index).map { ServiceStep(at: step.at, $0) }
        }
    }

    fileprivate mutating func shortenPause(before index: Int) {
        let gap = steps[index].at - (index == 0 ? 0 : steps[index - 1].at)
        guard gap > 2_000 else { return }
        for later in index..<steps.count { steps[later].at -= gap - 1_000 }
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
