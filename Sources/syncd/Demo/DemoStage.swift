import Entitlements
import Foundation

/// Runs each step of the demo as a process of its own, on folders of its own, and checks what a device then sees.
final class DemoStage {
    private let folder: URL
    private let catalog: String
    /// What was checked, one line each.
    private(set) var checks: [String] = []

    init(folder: URL, catalog: String) {
        self.folder = folder
        self.catalog = catalog
    }

    func chapter(_ title: String) {
        print("\n\(title)")
    }

    func remark(_ text: String) {
        print("  \(text)")
    }

    /// Runs `syncd` on a device's store and shows what it says.
    func run(_ device: String, _ command: String, on day: String, exit expected: Int32 = 0) throws {
        print("  \(device)$ syncd \(command)")
        let result = try launch(device, command.split(separator: " ").map(String.init), on: day)
        for line in result.output.split(separator: "\n", omittingEmptySubsequences: false) where !line.isEmpty {
            print("    \(line)")
        }
        guard result.exitCode == expected else {
            throw Failure(.failed, "\(device): \"\(command)\" ended with \(result.exitCode), not \(expected)")
        }
    }

    /// Checks the end of the subscription and what is owned, as `status --json` of the device tells it.
    ///
    /// - Parameters:
    ///   - end: the day on which the subscription ends, `nil` when it must not be active.
    ///   - rule: the expiry rule to read by, the catalogue's when not given.
    func expect(_ device: String, on day: String, end: String?, owned: [String], rule: String? = nil) throws {
        let result = try launch(device, ["status", "--json"] + (rule.map { ["--expiry", $0] } ?? []), on: day)
        guard result.exitCode == 0 else { throw Failure(.failed, "\(device): no status: \(result.output)") }
        let status = try JSONReader(try JSONValue(parsing: result.output.utf8)).object()
        let group = try status.required("subscriptions").array().first?.object()
        let isActive = try group?.required("active").bool() ?? false
        let expires = try group?["expires"]?.string() ?? "never"
        let holdings = try status.required("owned").array().map { reader in try reader.string() }
        let seen = (isActive ? "active until \(expires.prefix(10))" : "not active") + ", owns \(holdings.count)"
        print("  \(device) on \(day): \(seen)" + (rule.map { " by \($0)" } ?? ""))
        let isRight = isActive == (end != nil) && (end == nil || expires == "\(end ?? "")T00:00:00.000Z")
        guard isRight, holdings == owned else {
            throw Failure(.failed, "\(device) on \(day): expected the end \(end ?? "none") and \(owned), saw \(seen)")
        }
        checks.append("\(device) \(day)")
    }

    func lose(_ device: String) throws {
        try FileManager.default.removeItem(at: folder.appending(path: device))
        print("  \(device): gone")
    }

    private func launch(_ device: String, _ arguments: [String], on day: String) throws
        -> (output: String, exitCode: Int32)
    {
        guard let program = Bundle.main.executableURL else {
            throw Failure(.failed, "the demo cannot find its own program")
        }
        let process = Process()
        process.executableURL = program
        process.arguments =
            arguments + [
                "--local", "file:\(folder.appending(path: device).path(percentEncoded: false))",
                "--account", "owl-lover", "--catalog", catalog, "--at", day,
            ]
        if arguments.first != "record" {
            process.arguments? += ["--remote", "file:\(folder.appending(path: "server").path(percentEncoded: false))"]
        }
        // What the caller has set for his own stores must not reach the story.
        process.environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("SYNCD_") }
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = pipe
        try process.run()
        let output = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return (output, process.terminationStatus)
    }
}
