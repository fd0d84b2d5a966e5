import Foundation
import TestSupport

/// An app package in a temporary folder, with one executable that uses products of this package.
struct AppPackage {
    let folder: URL
    private var scratch: URL { folder.appending(path: ".build") }

    /// The packages that an app depends on, besides itself.
    struct Packages: Equatable {
        /// The names of the fetched or pinned packages, sorted.
        let fetched: [String]
        /// The number of packages that the build needed: the fetched ones and this one.
        var count: Int { fetched.count + 1 }
    }

    /// The exit status of a command and its complete output.
    struct CommandResult: Sendable {
        let status: Int32
        let output: String
    }

    /// Writes a package whose `main.swift` is `code`.
    init(products: [String], code: String) throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "entitlement-sync-app-\(UUID().uuidString)")
        let dependencies = products.map { ".product(name: \"\($0)\", package: \"EntitlementSync\")" }
        let manifest = """
            // swift-tools-version: 6.2
            import PackageDescription

            let package = Package(
                name: "App",
                platforms: [.macOS(.v15)],
                dependencies: [.package(name: "EntitlementSync", path: \(String(reflecting: Repository.root.path)))],
                targets: [.executableTarget(name: "App", dependencies: [\(dependencies.joined(separator: ", "))])]
            )
            """
        let sources = folder.appending(path: "Sources/App")
        try FileManager.default.createDirectory(at: sources, withIntermediateDirectories: true)
        try Data(manifest.utf8).write(to: folder.appending(path: "Package.swift"))
        try Data(code.utf8).write(to: sources.appending(path: "main.swift"))
    }

    func remove() throws {
        try FileManager.default.removeItem(at: folder)
    }

    /// Builds the package as a developer at a terminal would.
    func build() async throws -> CommandResult { try await run(["swift", "build"] + paths) }

    /// Fetches the dependencies that a build would need.
    func resolve() async throws -> CommandResult { try await run(["swift", "package", "resolve"] + paths) }

    private var paths: [String] { ["--package-path", folder.path, "--scratch-path", scratch.path] }

    /// Runs the built executable.
    func launch(_ arguments: [String] = [], environment: [String: String] = [:]) async throws -> CommandResult {
        try await run([scratch.appending(path: "debug/App").path] + arguments, environment: environment)
    }

    /// The packages that SwiftPM fetched for the build or pinned for the next one.
    func packages() throws -> Packages {
        let checkouts = scratch.appending(path: "checkouts")
        let cloned =
            FileManager.default.fileExists(atPath: checkouts.path)
            ? try FileManager.default.contentsOfDirectory(atPath: checkouts.path) : []
        let pinned = try Self.pins(in: folder.appending(path: "Package.resolved"))
        return Packages(fetched: Set((cloned + pinned).map { $0.lowercased() }).sorted())
    }

    private static func pins(in file: URL) throws -> [String] {
        struct Resolved: Decodable {
            struct Pin: Decodable { let identity: String }
            let pins: [Pin]
        }
        // SwiftPM writes no file if there is nothing to pin.
        guard FileManager.default.fileExists(atPath: file.path) else { return [] }
        return try JSONDecoder().decode(Resolved.self, from: Data(contentsOf: file)).pins.map(\.identity)
    }

    private func run(_ command: [String], environment: [String: String] = [:]) async throws -> CommandResult {
        // The output goes to a file: a full pipe without a reader would block the command.
        let log = folder.appending(path: "output-\(UUID().uuidString).log")
        try Data().write(to: log)
        let output = try FileHandle(forWritingTo: log)
        defer { try? output.close() }
        let process = Process()
        process.currentDirectoryURL = folder
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = command
        process.environment = Self.environment.merging(environment) { $1 }
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = output
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (ended: CheckedContinuation<Void, any Error>) in
                process.terminationHandler = { _ in ended.resume() }
                do {
                    try process.run()
                } catch {
                    process.terminationHandler = nil
                    ended.resume(throwing: error)
                }
            }
        } onCancel: {
            if process.isRunning { process.terminate() }
        }
        return CommandResult(status: process.terminationStatus, output: try String(contentsOf: log, encoding: .utf8))
    }

    /// This process's environment without the variables that the outer build and test run have set.
    private static var environment: [String: String] {
        let outer = ["SWIFTPM_", "SWIFT_", "XCTest", "LLVM_PROFILE_FILE", "PACKAGE_"]
        return ProcessInfo.processInfo.environment.filter { name, _ in !outer.contains { name.hasPrefix($0) } }
    }
}
