import Foundation
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Shutdown during writes")
struct ShutdownTests {
    private static let fields = ["Authorization: Bearer \(ServerProcess.operatorToken)"]
    private static let writerCount = 16

    @Test("After SIGTERM during the writes of 16 clients, every acknowledged write is kept and the exit code is 0")
    func ending() throws {
        var generator = SeededGenerator(seed: printedSeed("SIGTERM of syncd serve"))
        for kind in ["sqlite", "file"] {
            let folder = try TemporaryFolder()
            let store = "\(kind):\(folder.path)/store"
            var acknowledged: [String] = []
            for round in 0..<5 {
                let server = try ServerProcess(store: store, options: ["--log-level", "warning"])
                let count = Int.random(in: 1...150, using: &generator)
                let new = try Self.write(to: server, round: round, endingAfter: count)
                #expect(new.count >= count)
                #expect(server.stop() == 0, "\(server.log)")
                #expect(!server.log.contains("error"), "\(server.log)")
                acknowledged += new
            }
            let server = try ServerProcess(store: store)
            for name in acknowledged {
                #expect(try ask(server.port, "GET", "/v1/kv/\(name)", fields: Self.fields)?.text == name)
            }
            print(
                "SIGTERM of syncd serve over \(kind): \(acknowledged.count) writes acknowledged in 5 rounds, none lost")
            #expect(server.stop() == 0)
        }
    }

    @Test("A watcher receives each write at once, and its stream ends on shutdown", .timeLimit(.minutes(15)))
    func watching() throws {
        let server = try ServerProcess(store: "memory:")
        let watcher = try RawConnection(port: server.port)
        watcher.send(request("GET", "/v1/changes", fields: Self.fields + ["Accept: text/event-stream"]))
        var text = ""
        func expect(_ part: String) throws {
            while !text.contains(part) {
                let more = try #require(watcher.receive(), "\(text)")
                try #require(!more.isEmpty, "\(text)")
                text += String(decoding: more, as: UTF8.self)
            }
        }
        try expect("event: cursor\n")
        #expect(text.contains("content-type: text/event-stream") || text.contains("Content-Type: text/event-stream"))
        for number in 0..<20 {
            let written = try ask(server.port, "PUT", "/v1/kv/w/\(number)?if=any", fields: Self.fields, body: "x")
            #expect(written?.status == 200)
            try expect("\"key\":\"w/\(number)\"")
        }
        server.askToEnd()
        #expect(watcher.receiveAll() != nil)
        #expect(server.stop() == 0)
    }

    /// Writes over many connections until the server closes them. Sends SIGTERM after `count` answers.
    ///
    /// - Returns: the keys of the acknowledged writes.
    private static func write(to server: ServerProcess, round: Int, endingAfter count: Int) throws -> [String] {
        var connections = try (0..<writerCount).map { _ in try RawConnection(port: server.port) }
        var pending = [String](repeating: "", count: writerCount)
        var (acknowledged, number) = ([String](), 0)
        func send(_ index: Int) {
            pending[index] = "load/\(round)/\(number)"
            number += 1
            connections[index].send(
                request("PUT", "/v1/kv/\(pending[index])", fields: fields + ["If-None-Match: *"], body: pending[index]))
        }
        for index in connections.indices { send(index) }
        var open = Set(connections.indices)
        while !open.isEmpty {
            var polls = open.sorted().map { pollfd(fd: connections[$0].descriptor, events: Int16(POLLIN), revents: 0) }
            guard poll(&polls, nfds_t(polls.count), Patience.milliseconds) > 0 else { throw POSIXError(.ETIMEDOUT) }
            for index in open.sorted()
            where polls.contains(where: {
                $0.fd == connections[index].descriptor && $0.revents != 0
            }) {
                let more = connections[index].receive() ?? []
                if more.isEmpty { open.remove(index) }
                guard let answer = connections[index].answerSoFar(adding: more) else { continue }
                #expect(answer.status == 200, "\(answer.text)")
                if answer.status == 200 { acknowledged.append(pending[index]) }
                if acknowledged.count == count { server.askToEnd() }
                send(index)
            }
        }
        connections = []
        return acknowledged
    }
}
