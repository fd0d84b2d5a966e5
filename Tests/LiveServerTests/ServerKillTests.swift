import CurlTransport
import Foundation
import HTTPStorage
import SyncCore
import SyncCoreTesting
import Synchronization
import TestSupport
import Testing

@Suite("A server that is killed")
struct ServerKillTests {
    private static let rounds = Soak.serverRounds
    private static let writers = 16

    /// The acknowledged writes, and the signal for the writers to stop.
    private final class Progress: Sendable {
        private let state = Mutex<(acknowledged: [String], isOver: Bool)>(([], false))

        var acknowledged: [String] { state.withLock { $0.acknowledged } }
        var isOver: Bool { state.withLock { $0.isOver } }

        func note(_ name: String) { state.withLock { $0.acknowledged.append(name) } }
        func end() { state.withLock { $0.isOver = true } }
    }

    @Test(
        "A server killed again and again keeps every acknowledged write of 16 writers, which recover on their own",
        .timeLimit(.minutes(60)))
    func killing() async throws {
        let folder = try TemporaryFolder()
        let store = "sqlite:\(folder.path(of: "store.sqlite"))"
        var server = try ServerProcess(store: store)
        let (url, port) = (server.url, server.port)
        let client = try CurlClient()
        let (acknowledgements, acknowledge) = AsyncStream.makeStream(of: Void.self)
        let progress = Progress()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for writer in 0..<Self.writers {
                group.addTask {
                    let backend = try HTTPBackend(server: url, transport: client) { _ throws(BackendError) in
                        ServerProcess.operatorToken
                    }
                    var number = 0
                    while !progress.isOver {
                        let name = "accounts/w\(writer)/initial/\(number)"
                        if try await Self.write(name, to: backend, until: progress) {
                            progress.note(name)
                            acknowledge.yield()
                            number += 1
                        }
                    }
                }
            }
            var iterator = acknowledgements.makeAsyncIterator()
            for _ in 0..<Self.rounds {
                for _ in 0..<40 { _ = await iterator.next() }
                #expect(server.kill() == -SIGKILL)
                server = try ServerProcess(store: store, options: ["--listen", "127.0.0.1:\(port)"])
            }
            progress.end()
            try await group.waitForAll()
        }
        let backend = try HTTPBackend(server: url, transport: client) { _ throws(BackendError) in
            ServerProcess.operatorToken
        }
        let acknowledged = progress.acknowledged
        var lost: [String] = []
        for start in stride(from: 0, to: acknowledged.count, by: 200) {
            let names = acknowledged[start..<min(start + 200, acknowledged.count)]
            let answers = try await backend.read(try names.map { ReadRequest(try EntryKey($0)) }).outcome
            for (name, answer) in zip(names, answers) {
                guard case .found(let entry) = try answer.get(), entry.value == Array(name.utf8) else {
                    lost.append(name)
                    continue
                }
            }
        }
        print("\(Self.rounds) rounds, \(acknowledged.count) writes acknowledged, \(lost.count) lost")
        #expect(lost.isEmpty)
        #expect(server.stop() == 0)
    }

    /// Writes until acknowledged. After an unknown outcome the write is retried.
    private static func write(
        _ name: String, to backend: HTTPBackend, until progress: Progress
    ) async throws -> Bool {
        let (key, value) = (try EntryKey(name), Array(name.utf8))
        while !progress.isOver {
            do throws(BackendError) {
                switch try await backend.write(value, to: key, if: .absent).outcome {
                case .written: return true
                case .conflict(let entry):
                    // The conflict must be with an earlier attempt of this writer.
                    guard entry?.value == value else {
                        throw BackendError(.other, message: "\(name) has the value of another writer")
                    }
                    return true
                case .deleted: throw BackendError(.other, message: "a write reported a deletion")
                }
            } catch {
                guard error.disposition != .permanent else { throw error }
                await Task.yield()
            }
        }
        return false
    }
}
