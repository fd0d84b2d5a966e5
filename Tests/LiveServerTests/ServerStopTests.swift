import CurlTransport
import Foundation
import HTTPStorage
import SyncCore
import TestSupport
import Testing

@Suite("The SQLite store of a stopped server")
struct ServerStopTests {
    private let folder: TemporaryFolder
    private let path: String

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path(of: "store.sqlite")
    }

    private func backend(of server: ServerProcess) throws -> HTTPBackend {
        try HTTPBackend(server: server.url, transport: try CurlClient()) { _ throws(BackendError) in
            ServerProcess.operatorToken
        }
    }

    private func write(_ keys: [String], _ value: UInt8, to server: ServerProcess) async throws {
        let requests = try keys.map { WriteRequest(try EntryKey($0), value: [value], if: .any) }
        for answer in try await backend(of: server).write(requests).outcome { _ = try answer.get() }
    }

    /// Reads `keys` from a new server with the store at `path`.
    private func values(_ keys: [String], in path: String) async throws -> [UInt8?] {
        let server = try ServerProcess(store: "sqlite:\(path)")
        let requests = try keys.map { ReadRequest(try EntryKey($0)) }
        return try await backend(of: server).read(requests).outcome.map { answer in
            guard case .found(let entry) = try answer.get() else { return nil }
            return entry.value.first
        }
    }

    @Test("After SIGTERM the store is a single file that can be copied and moved")
    func stopping() async throws {
        let keys = (0..<200).map { "accounts/w\($0 % 7)/initial/\($0)" }
        let server = try ServerProcess(store: "sqlite:\(path)")
        try await write(keys, 1, to: server)
        #expect(server.stop() == 0)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["store.sqlite"])
        let copy = try folder.freshFolder() + "/moved.sqlite"
        try FileManager.default.copyItem(atPath: path, toPath: copy)
        #expect(try await values(keys, in: copy) == Array(repeating: 1, count: keys.count))
    }

    @Test("The log of a killed server is not applied to a restored backup")
    func restoring() async throws {
        let keys = ["a", "b"].map { "accounts/\($0)/initial/k" }
        var server = try ServerProcess(store: "sqlite:\(path)")
        try await write(keys, 1, to: server)
        #expect(server.stop() == 0)
        let backup = folder.path(of: "backup.sqlite")
        try FileManager.default.copyItem(atPath: path, toPath: backup)
        server = try ServerProcess(store: "sqlite:\(path)")
        for number in 0..<20 { try await write(keys, UInt8(10 + number), to: server) }
        #expect(server.kill() == -SIGKILL)
        // A restore that leaves the log of the killed server in place.
        try Data(contentsOf: URL(filePath: backup)).write(to: URL(filePath: path), options: [])
        let error = #expect(throws: ServerProcess.Failure.self) { try ServerProcess(store: "sqlite:\(path)") }
        #expect(error?.description.contains("move \(path)-wal and \(path)-shm away") == true, "\(error as Any)")
        for suffix in ["-wal", "-shm"] { try FileManager.default.removeItem(atPath: path + suffix) }
        #expect(try await values(keys, in: path) == [1, 1])
    }
}
