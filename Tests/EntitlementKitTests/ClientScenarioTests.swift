import EntitlementSync
import EntitlementSyncEvidence
import Entitlements
import Foundation
import SyncCore
import TestSupport
import Testing

@testable import EntitlementKit

/// The scenarios that all clients run, described in Tests/ClientScenarios/README.md.
@MainActor
@Suite("Scenarios for all clients", .timeLimit(.minutes(15)))
struct ClientScenarioTests {
    private static let folder = Repository.file("Tests/ClientScenarios")

    nonisolated static var files: [String] {
        let folder = Repository.file("Tests/ClientScenarios").path(percentEncoded: false)
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return names.filter { $0.hasSuffix(".json") && $0.first?.isNumber == true }.sorted()
    }

    @Test("The kit passes each scenario", arguments: files)
    func scenario(file: String) async throws {
        let scenario = try JSONReader(parsing: Data(contentsOf: Self.folder.appending(path: file))).object()
        guard try Self.isMine(scenario) else { return }
        let stage = try Stage(scenario, folder: Self.folder)
        for (index, step) in try scenario.required("steps").array().enumerated() {
            let step = try step.object()
            guard try Self.isMine(step) else { continue }
            let about: Comment = "\(file), step \(index + 1)"
            do { try await stage.run(step, about) } catch { Issue.record(error, about) }
        }
    }

    @Test("There are scenarios")
    func count() { #expect(Self.files.count >= 10) }

    private static func isMine(_ part: JSONObjectReader) throws -> Bool {
        try part["only"]?.array().contains { try $0.string() == "swift" } ?? true
    }
}

/// A server, and devices that use it.
@MainActor
private final class Stage {
    private let folder: TemporaryFolder
    private let catalog: URL
    private let options: [String]
    private let root: String?
    /// The scenario's time, minus the real one, in milliseconds.
    private let start: Int64
    private var server: ServerProcess
    private var devices: [String: ScenarioDevice] = [:]

    init(_ scenario: JSONObjectReader, folder: URL) throws {
        let stage = try TemporaryFolder()
        self.folder = stage
        let time = try scenario.required("at").timestamp()
        start = time.milliseconds - HostServices.system.now()
        catalog = folder.appending(path: try scenario["catalog"]?.string() ?? "catalog.json")
        var options = [
            "--catalog", catalog.path(percentEncoded: false),
            "--policy", try scenario["policy"]?.string() ?? "trusted",
            "--ownership", try scenario["ownership"]?.string() ?? "keepWithFirst",
        ]
        var root: String?
        if try scenario["signed"]?.bool() ?? false {
            let key = stage.path(of: "root.pem")
            root = try ProcessEnd.run(BuiltProgram.path(of: "syncd"), "keys", "root", key, "--create")
            options += ["--root-key", key, "--grant-days", "7"]
        }
        self.root = root
        self.options = options
        server = try ServerProcess(
            store: "sqlite:\(stage.path(of: "server.sqlite"))", options: options + ["--at", "\(time)"])
    }

    func run(_ step: JSONObjectReader, _ about: Comment) async throws {
        if let action = try step["server"]?.string() { return try serve(action, at: step["at"]?.timestamp()) }
        let name = try step.required("device").string()
        let device = try devices[name] ?? newDevice(name)
        devices[name] = device
        if let time = try step["clock"]?.timestamp() { return device.setClock(time) }
        if try step["reopen"]?.bool() ?? false { return device.close() }
        if let link = try step["link"]?.string() { return try device.setLink(link, path: step["path"]?.string()) }
        // The kit syncs ledgers. It has no list of items that wait.
        let call = try step.required("call").string()
        guard call != "waiting" else { return }
        let expected = try step["error"]?.string()
        let result: [String: JSON]
        do { result = try await device.call(call, step) } catch let error as ShopError {
            #expect("\(error.kind)" == expected, "\(about): \(error)")
            return
        }
        #expect(expected == nil, "\(about): \(call) succeeded")
        for (member, value) in step["expect"]?.value.members ?? [:] {
            #expect(Self.isEqual(result[member], value), "\(about): \(member)")
        }
    }

    /// Times are equal as instants.
    private static func isEqual(_ value: JSON?, _ expected: JSON) -> Bool {
        guard let text = value?.string, let other = expected.string, let time = try? Timestamp(text) else {
            return value == expected
        }
        return (try? Timestamp(other)) == time
    }

    private func serve(_ action: String, at time: Timestamp?) throws {
        guard action == "start" else {
            server.stop()
            return
        }
        let time = time ?? Timestamp(milliseconds: HostServices.system.now() + start)
        server = try ServerProcess(
            store: "sqlite:\(folder.path(of: "server.sqlite"))",
            options: options + ["--at", "\(time)", "--listen", "127.0.0.1:\(server.port)"])
    }

    private func newDevice(_ name: String) throws -> ScenarioDevice {
        try ScenarioDevice(
            catalog: catalog, server: server.url, folder: URL(filePath: folder.path(of: name)),
            trust: root.map { .signed(by: try GrantRoots([$0])) } ?? .ledger, skew: start)
    }
}
