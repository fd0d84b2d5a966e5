import Foundation
import TestSupport
import Testing

/// The output of `syncd doctor --json`.
struct DoctorReport: Decodable {
    struct Check: Decodable {
        var command: String
        var check: String
        var result: String
        var finding: String
        var remedy: String?
    }

    var healthy: Bool
    var version: String
    var checks: [Check]

    /// The names of the checks with the result `result`.
    func names(_ result: String) -> [String] { checks.filter { $0.result == result }.map(\.check) }

    /// The finding and the remedy of the check `name`.
    subscript(name: String) -> String {
        checks.filter { $0.check == name }.map { "\($0.finding) | \($0.remedy ?? "")" }.joined(separator: "\n")
    }
}

/// Expects that the check `name` alone has failed, with the text `reason`, and names a remedy.
func expectFailure(
    of name: String, _ reason: String, in report: DoctorReport, sourceLocation: SourceLocation = #_sourceLocation
) {
    #expect(report.names("failed") == [name], "\(report.checks)", sourceLocation: sourceLocation)
    #expect(report[name].contains(reason), "\(report[name])", sourceLocation: sourceLocation)
    let remedies = report.checks.filter { $0.result == "failed" }.map { $0.remedy ?? "" }
    #expect(!remedies.contains(""), sourceLocation: sourceLocation)
}

extension Sandbox {
    /// The variables of a device whose state is in the sandbox.
    var device: [String: String] { ["XDG_STATE_HOME": path("state"), "SYNCD_PASSWORD": "correct horse"] }

    /// Runs `syncd doctor`, which must print a report, with an exit code that agrees with it.
    ///
    /// - Parameter user: the id of the user who runs it; `nil` for the user of the test.
    func doctor(_ arguments: [String], asUser user: uid_t? = nil) throws -> DoctorReport {
        let words = ["doctor"] + arguments + ["--json"]
        let outcome: Outcome
        if let user {
            let launcher = ["--reuid", "\(user)", "--regid", "\(user)", "--clear-groups"]
            outcome = try RunningCommand(
                program: URL(filePath: "/usr/bin/setpriv"), arguments: launcher + [programURL.path] + words,
                environment: ["SYNCD_CATALOG": Self.example, "HOME": path("home"), "XDG_CONFIG_HOME": path("none")],
                folder: folder.path
            ).outcome()
        } else {
            outcome = try run(words, environment: device)
        }
        guard let report = try? JSONDecoder().decode(DoctorReport.self, from: Data(outcome.output.utf8)) else {
            throw ProcessEndedWithoutReport(description: "\(outcome)")
        }
        guard (outcome.exitCode == 0) == report.healthy, outcome.error.isEmpty else {
            throw ProcessEndedWithoutReport(description: "\(outcome)")
        }
        return report
    }

    func doctor(_ command: String) throws -> DoctorReport {
        try doctor(command.split(separator: " ").map(String.init))
    }

    /// Runs a command that must succeed.
    func prepare(_ command: String) throws {
        let outcome = try run(command, environment: device)
        guard outcome.exitCode == 0 else { throw ProcessEndedWithoutReport(description: "\(command): \(outcome)") }
    }

    /// Creates an account at the server and logs in to it on the device with the store `local`.
    func logIn(_ name: String, local: String, remote: String) throws {
        try prepare("account create \(name) --local \(local) --remote \(remote)")
        try prepare("account login \(name) --local \(local) --remote \(remote)")
    }

    private struct ProcessEndedWithoutReport: Error, CustomStringConvertible {
        var description: String
    }
}
