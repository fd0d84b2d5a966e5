import Entitlements
import Foundation

/// Runs each step of the demo as a separate process with its own folders, and checks the state of the devices.
final class DemoStage {
    private let folder: URL
    private let catalog: String
    private let password: String
    private var server: DemoServer?
    /// The checks so far, one line each.
    private(set) var checks: [String] = []

    /// A stage in `folder`.
    ///
    /// - Parameter password: the password of the demo's account.
    init(folder: URL, catalog: String, password: String) {
        (self.folder, self.catalog, self.password) = (folder, catalog, password)
    }

    /// Starts the server that all devices share.
    func serve(_ options: String) throws {
        print("  server$ syncd serve --store sqlite:server.sqlite --listen 127.0.0.1:0 \(options)")
        let server = try DemoServer(
            program: try program(), folder: folder, options: options.split(separator: " ").map(String.init),
            environment: inherited)
        self.server = server
        print("    listening on \(server.url)")
    }

    /// Stops the server, after success and failure alike.
    func end() throws {
        guard let server else { return }
        self.server = nil
        let exitCode = server.stop()
        guard exitCode == 0 else { throw Failure(.failed, "the demo's server exited with \(exitCode)") }
    }

    func chapter(_ title: String) {
        print("\n\(title)")
    }

    func remark(_ text: String) {
        print("  \(text)")
    }

    /// Runs `syncd` on a device's store and prints its output.
    func run(_ device: String, _ command: String, on day: String, exit expected: Int32 = 0) throws {
        print("  \(device)$ syncd \(command)")
        let result = try launch(device, command.split(separator: " ").map(String.init), on: day)
        for line in result.output.split(separator: "\n", omittingEmptySubsequences: false) where !line.isEmpty {
            print("    \(line)")
        }
        guard result.exitCode == expected else {
            throw Failure(.failed, "\(device): \"\(command)\" exited with \(result.exitCode), not \(expected)")
        }
    }

    /// Checks the end of the subscription and the owned products with `status --json` on the device.
    ///
    /// - Parameters:
    ///   - end: the day on which the subscription must end; `nil` if it must not be active.
    ///   - rule: the expiry rule; `nil` for the catalogue's.
    func expect(_ device: String, on day: String, end: String?, owned: [String], rule: String? = nil) throws {
        let result = try launch(device, ["status", "--json"] + (rule.map { ["--expiry", $0] } ?? []), on: day)
        guard result.exitCode == 0 else { throw Failure(.failed, "\(device): no status: \(result.output)") }
        let status = try JSONReader(parsing: result.output.utf8).object()
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
        for name in [device, "\(device)-state"] {
            try FileManager.default.removeItem(at: folder.appending(path: name))
        }
        print("  \(device): gone")
    }

    private func launch(_ device: String, _ arguments: [String], on day: String) throws
        -> (output: String, exitCode: Int32)
    {
        let process = Process()
        process.executableURL = try program()
        process.arguments =
            arguments + [
                "--local", "file:\(folder.appending(path: device).path(percentEncoded: false))",
                "--catalog", catalog, "--at", day,
            ]
        if let server, arguments.first != "record" { process.arguments? += ["--remote", server.url] }
        process.environment = inherited
        // Each device has its own session.
        let state = folder.appending(path: "\(device)-state").path(percentEncoded: false)
        process.environment?["XDG_STATE_HOME"] = state
        if arguments.first == "account" { process.environment?["SYNCD_PASSWORD"] = password }
        process.standardInput = FileHandle.nullDevice
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = pipe
        try process.run()
        let output = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return (output, process.terminationStatus)
    }

    private func program() throws -> URL {
        guard let program = Bundle.main.executableURL else {
            throw Failure(.failed, "the demo cannot find its own program")
        }
        return program
    }

    /// The environment without the caller's own settings for syncd.
    private var inherited: [String: String] {
        ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("SYNCD_") }
    }
}
