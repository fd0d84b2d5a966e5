import ArgumentParser
import Foundation
import ServiceSimulation
import SyncSimulation

// The commands with `--service`.

extension SeedResult {
    init(_ outcome: SimulatedService.Outcome) {
        failure = outcome.violations.first.map { ($0.oracle.rawValue, $0.message) }
        marks = Dictionary(uniqueKeysWithValues: outcome.marks.map { ($0.key.rawValue, $0.value) })
        (traceHash, virtualTime) = (outcome.traceHash, outcome.virtualTime)
    }
}

extension Failure {
    static let onlyForDevices = Failure(.usage, "--rules, --replicas and --days are for devices, not for --service")
}

/// The output of `replay --service --json`.
private struct ServiceOutput: Encodable {
    var scenario: ServiceScenario
    var hash: String
    var trace: Trace
    var violations: [ServiceViolation]
    var marks: [String: Int]
}

extension ScenarioOptions {
    private func loadService() throws -> ServiceScenario {
        guard !swarm.isGiven, subject.rules == nil else { throw Failure.onlyForDevices }
        switch try source() {
        case .seed(let seed): return ServiceSwarm().scenario(seed: seed)
        case .file(let path):
            let bytes = try readFile(path)
            do { return try ServiceScenario(json: bytes) } catch { throw Failure(.failed, "\(path): \(error)") }
        }
    }

    private func title(of scenario: ServiceScenario) -> String {
        "seed \(scenario.seed), \(plural(scenario.servers.count, "server")), "
            + "\(plural(scenario.devices.count, "device")), \(plural(scenario.steps.count, "step")), "
            + "\(scenario.ownership.rawValue), \(scenario.cluster == nil ? "memory" : "cluster")"
    }

    func replayService(json isJSON: Bool) throws {
        let scenario = try loadService()
        let outcome = SimulatedService(scenario).run(isRecording: true)
        if isJSON {
            let output = ServiceOutput(
                scenario: scenario, hash: outcome.traceHash.hash, trace: outcome.trace, violations: outcome.violations,
                marks: SeedResult(outcome).marks)
            try writeOutput(try output.json())
        } else {
            let end =
                outcome.violations.isEmpty
                ? ["all held"]
                : ["\(plural(outcome.violations.count, "violation")):"] + outcome.violations.map { "  \($0)" }
            let lines = [title(of: scenario)] + outcome.trace.lines + end + ["trace \(outcome.traceHash.hash)"]
            try writeOutput(lines.joined(separator: "\n") + "\n")
        }
        if !outcome.violations.isEmpty { throw ExitCode.failure }
    }

    func reportService(to out: String) throws {
        let scenario = try loadService()
        let outcome = SimulatedService(scenario).run(isRecording: true)
        // The trace has the violations.
        let drawing = Drawing(
            title: "Seed \(scenario.seed)", subtitle: title(of: scenario), trace: outcome.trace, violations: [])
        try writeFile(Array(drawing.html().utf8), to: out)
        let result = outcome.violations.isEmpty ? "all held" : plural(outcome.violations.count, "violation")
        try writeOutput("\(out): \(title(of: scenario)): \(result)\n")
        if !outcome.violations.isEmpty { throw ExitCode.failure }
    }

    func shrinkService(attempts: Int, to path: String?) throws {
        let scenario = try loadService()
        let progress = Progress()
        let found = ServiceShrinker(attempts: attempts).shrink(scenario) { attempts, best in
            progress.show("\(attempts) runs, \(plural(best.steps.count, "step"))")
        }
        progress.clear()
        guard let found else {
            throw Failure(.failed, "\(title(of: scenario)): all held, so there is nothing to shrink")
        }
        writeNotice("\(plural(scenario.steps.count, "step")) to \(found.scenario.steps.count)\n")
        try writeOutput(found.scenario.regressionTest(for: found.violation))
        if let path { try writeFile(found.scenario.json, to: path) }
    }
}
