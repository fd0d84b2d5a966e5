import CurlTransport
import Foundation
import HTTPTypes
import SyncProtocol
import TestSupport
import Testing

/// Imports of `syncd import` into a store, which a real server then serves.
@Suite("A migration with the real programs", .serialized)
struct ImportLiveTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func write(_ text: String, _ name: String) throws {
        try Data(text.utf8).write(to: URL(filePath: folder.path(of: name)))
    }

    /// Starts an import, and kills it after `milliseconds` unless it ends before.
    private func run(
        _ arguments: [String], killingAfter milliseconds: Int32? = nil
    ) throws -> (code: Int32, output: String, error: String) {
        let (process, output) = (Process(), Pipe.closedOnExec())
        let errors = folder.path(of: "errors")
        try Data().write(to: URL(filePath: errors))
        process.executableURL = URL(filePath: BuiltProgram.path(of: "syncd"))
        process.arguments =
            ["import", "--format", "parse-mongo", "--catalog", Repository.catalog] + arguments
        process.currentDirectoryURL = URL(filePath: folder.path)
        process.environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("SYNCD_") }
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = try FileHandle(forWritingTo: URL(filePath: errors))
        let end = ProcessEnd(of: process)
        try process.run()
        if let milliseconds {
            // The output closes when the process ends.
            var closing = pollfd(fd: output.fileHandleForReading.fileDescriptor, events: 0, revents: 0)
            _ = poll(&closing, 1, milliseconds)
            end.send(SIGKILL)
        }
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        return (end.wait(), text, try String(contentsOfFile: errors, encoding: .utf8))
    }

    private func ask(
        _ server: ServerProcess, _ method: HTTPRequest.Method, _ path: String, _ json: [String: Any] = [:],
        token: String = ""
    ) async throws -> (status: Int, members: [String: Any]) {
        var request = HTTPRequest(
            method: method, scheme: "http", authority: "127.0.0.1:\(server.port)", path: path)
        let values = [
            ("X-Parse-Application-Id", "owls"), ("X-Parse-Session-Token", token), ("Content-Type", "application/json"),
        ]
        for (name, value) in values where !value.isEmpty {
            if let name = HTTPField.Name(name) { request.headerFields[name] = value }
        }
        let body = method == .get ? [] : Array(try JSONSerialization.data(withJSONObject: json))
        let answer = try await CurlClient().send(
            request, body: body, timeout: Patience.limit, maximumByteCount: 1 << 20)
        let members = try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any] ?? [:]
        return (answer.response.status.code, members)
    }

    private func serve() throws -> ServerProcess {
        try ServerProcess(
            store: "sqlite:\(folder.path(of: "store.sqlite"))",
            options: [
                "--catalog", Repository.catalog, "--parse", "owls", "--parse-field", "ExpirationDate=date:random",
                "--parse-classes", "Purchase",
            ])
    }

    private static let field = ["--parse-field", "ExpirationDate=date:random"]

    @Test("An app with an old session goes on, and its user logs in under both wires")
    func migration() async throws {
        let token = "r:0123456789abcdef0123456789abcdef"
        try write(
            OwlHashes.user(0, hash: OwlHashes.usual[0], more: #","ExpirationDate":{"$date":"2099-03-01T00:00:00Z"}"#)
                + OwlHashes.user(1, hash: OwlHashes.cheap[1]), "users.json")
        try write(
            #"[{"_id":"s","_p_user":"_User$user0","_session_token":"\#(token)","#
                + #""expiresAt":{"$date":"2099-01-01T00:00:00Z"}}]"#, "sessions.json")
        try write(#"{"_id":"p1","_p_user":"_User$user0","product":"owl"}"#, "purchases.json")
        let files =
            ["--users", "users.json", "--sessions", "sessions.json", "--class", "Purchase=purchases.json"] + Self.field
        // The dry run writes nothing.
        let preview = try run(files + ["--dry-run", "--local", "sqlite:store.sqlite"])
        #expect(preview.code == 0 && preview.error.isEmpty, "\(preview.error)")
        #expect(
            preview.output.hasPrefix(
                """
                owl 0 (user0): password kept; random until 2099-03-01T00:00:00.000Z; 1 session; 1 Purchase object
                owl 1 (user1): password kept
                dry run, nothing was written:
                2 users imported, 0 already there, 0 refused

                """), "\(preview.output)")
        #expect(!FileManager.default.fileExists(atPath: folder.path(of: "store.sqlite")))
        let missing = try run(files + ["--local", "sqlite:store.sqlite"])
        #expect(missing.code == 3 && missing.error.contains("--create"))
        let done = try run(files + ["--local", "sqlite:store.sqlite", "--create"])
        #expect(done.code == 0 && done.error.isEmpty, "\(done.error)")

        let server = try serve()
        let me = try await ask(server, .get, "/parse/users/me", token: token)
        #expect(me.status == 200 && me.members["username"] as? String == "owl 0")
        #expect((me.members["ExpirationDate"] as? [String: Any])?["iso"] as? String == "2099-03-01T00:00:00.000Z")
        let purchases = try await ask(server, .get, "/parse/classes/Purchase", token: token)
        #expect((purchases.members["results"] as? [[String: Any]])?.first?["product"] as? String == "owl")
        for password in ["owl password 1", "owl password 0", "owl password 0"] {
            let isRight = password == "owl password 0"
            let old = try await ask(server, .post, "/parse/login", ["username": "owl 0", "password": password])
            #expect(old.status == (isRight ? 200 : 404), "\(password)")
            let index = isRight ? 1 : 0
            let new = try await ask(
                server, .post, "/v1/sessions",
                ["grant_type": "password", "username": "OWL 1", "password": "owl password \(index)"])
            #expect(new.status == (isRight ? 200 : 400), "\(password)")
        }
        #expect(server.stop() == 0)
        // While nothing runs, and again with the server.
        let again = try run(files + ["--local", "sqlite:store.sqlite"])
        #expect(again.code == 0 && again.output.hasPrefix("0 users imported, 2 already there, 0 refused"))
        let second = try serve()
        try write(OwlHashes.user(2, hash: OwlHashes.cheap[2]), "more.json")
        #expect(try run(["--users", "more.json", "--local", "sqlite:store.sqlite"]).code == 0)
        let late = try await ask(second, .post, "/parse/login", ["username": "owl 2", "password": "owl password 2"])
        #expect(late.status == 200)
        #expect(second.stop() == 0)
    }

    @Test("A clash is one line and exit code 5, and everything else is imported")
    func clash() throws {
        try write(
            OwlHashes.user(0, hash: OwlHashes.cheap[0])
                + #"{"_id":"other","username":"OWL 0"}"# + "\n"
                + #"{"_id":"bad","username":"x","_hashed_password":"x"}"#
                + "\n" + OwlHashes.user(1, hash: OwlHashes.cheap[1]), "users.json")
        for arguments in [["--dry-run"], ["--local", "sqlite:store.sqlite", "--create"]] {
            let done = try run(["--users", "users.json"] + arguments)
            let lines = done.error.split(separator: "\n")
            #expect(done.code == 5 && lines.count == 3, "\(done.error)")
            #expect(lines.first?.hasPrefix("syncd: users.json: line 2: refused: OWL 0 (other): the username") == true)
            #expect(lines.dropFirst().first?.contains("line 3: refused: x (bad): _hashed_password") == true)
            #expect(
                lines.last
                    == "syncd: 2 objects of the export were refused, see above; the others need not be imported again")
            #expect(done.output.contains("2 users imported, 0 already there, 2 refused"))
        }
    }

    @Test("Wrong options and files change nothing")
    func refusals() throws {
        try write(OwlHashes.user(0, hash: OwlHashes.cheap[0]) + "{\"_id\":\"cut", "cut.json")
        try write(OwlHashes.user(0, hash: OwlHashes.cheap[0]), "users.json")
        let store = ["--local", "sqlite:store.sqlite", "--create"]
        let table: [([String], Int32, String)] = [
            (store, 2, "at least one of --users"), (["--users", "users.json"], 2, "--local"),
            (["--users", "cut.json"] + store, 1, "cut.json: line 2, column"),
            (["--users", "none.json"] + store, 3, "no such file"), (["--users", "."] + store, 1, "must be a file"),
            (["--users", "users.json", "--class", "Purchase"] + store, 2, "NAME=FILE"),
            (["--users", "users.json", "--class", "_User=users.json"] + store, 2, "--class"),
            (["--users", "users.json", "--parse-field", "x"] + store, 2, "--parse-field"),
            (["--users", "users.json", "--account", "owl"] + store, 2, "--account"),
            (["--users", "users.json", "--remote", "file:x"] + store, 2, "--remote"),
            (["--users", "users.json", "--at", "2026-01-01"] + store, 2, "--at"),
            (["--users", "users.json", "more.json"] + store, 2, "instead of a file"),
            (["--users", "users.json", "--as-server", "--reason", "x"] + store, 2, "--as-server"),
        ]
        for (arguments, code, text) in table {
            let done = try run(arguments)
            #expect(done.code == code && done.error.contains(text), "\(arguments): \(done.code) \(done.error)")
            #expect(!FileManager.default.fileExists(atPath: folder.path(of: "store.sqlite")), "\(arguments)")
        }
    }

    @Test("An import that is killed again and again is completed by running it again")
    func killed() async throws {
        let count = 1_500
        try write((0..<count).map { OwlHashes.user($0, hash: OwlHashes.cheap[$0 % 4]) }.joined(), "users.json")
        try write(
            (0..<count).map { index in
                let digits = String(index, radix: 16)
                let token = "r:" + String(repeating: "0", count: 32 - digits.count) + digits
                return #"{"_id":"s\#(index)","_p_user":"_User$user\#(index)","_session_token":"\#(token)","#
                    + #""expiresAt":{"$date":"2099-01-01T00:00:00Z"}}"# + "\n"
            }.joined(), "sessions.json")
        let arguments = [
            "--users", "users.json", "--sessions", "sessions.json", "--local", "sqlite:store.sqlite", "--create",
        ]
        var (delay, killed, isWhole) = (Int32(200), 0, false)
        while !isWhole, killed < 60 {
            isWhole = try run(arguments, killingAfter: delay).code == 0
            if !isWhole { killed += 1 }
            delay += delay / 4
        }
        #expect(isWhole && killed > 1, "\(killed)")
        let again = try run(arguments)
        #expect(
            again.output
                == ["users", "sessions"].map { "0 \($0) imported, \(count) already there, 0 refused\n" }.joined()
        )
        print("kill -9 of an import of \(count) users and sessions: \(killed) times, then it was whole")
        let server = try serve()
        for index in stride(from: 0, to: count, by: 150) {
            let digits = String(index, radix: 16)
            let token = "r:" + String(repeating: "0", count: 32 - digits.count) + digits
            let me = try await ask(server, .get, "/parse/users/me", token: token)
            #expect(me.members["objectId"] as? String == "user\(index)")
            let body = ["username": "owl \(index)", "password": OwlHashes.password(index)]
            let entered = try await ask(server, .post, "/parse/login", body)
            #expect(entered.status == 200, "\(entered)")
        }
        #expect(server.stop() == 0)
    }
}
