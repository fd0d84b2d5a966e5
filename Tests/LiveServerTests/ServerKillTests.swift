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
    private static let rounds = 30
    private static let writers = 16

    /// What writers were told, and what they are to do.
    private final class Progress: Sendable {
        private let state = Mutex<(acknowledged: [String], isOver: Bool)>(([], false))

        var acknowledged: [String] { state.withLock { $0.acknowledged } }
        var isOver: Bool { state.withLock { $0.isOver } }

        func note(_ name: String) { state.withLock { $0.acknowledged.append(name) } }
        func end() { state.withLock { $0.isOver = true } }
    }

    @Test(
        "keeps everything that it acknowledged to 16 writers, who carry on by themselves: 30 rounds",
        .timeLimit(.minutes(10)))
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
            var heard = acknowledgements.makeAsyncIterator()
            for _ in 0..<Self.rounds {
                for _ in 0..<40 { _ = await heard.next() }
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

    /// Writes until it is acknowledged: what may have happened is settled by writing once more.
    private static func write(
        _ name: String, to backend: HTTPBackend, until progress: Progress
    ) async throws -> Bool {
        let (key, value) = (try EntryKey(name), Array(name.utf8))
        while !progress.isOver {
            do throws(BackendError) {
                switch try await backend.write(value, to: key, if: .absent).outcome {
                case .written: return true
                case .conflict(let entry):
                    // Its own earlier try.
                    guard entry?.value == value else { throw BackendError(.other, message: "another's: \(name)") }
                    return true
                case .deleted: throw BackendError(.other, message: "a write does not delete")
                }
            } catch {
                guard error.disposition != .permanent else { throw error }
                await Task.yield()
            }
        }
        return false
    }
}
