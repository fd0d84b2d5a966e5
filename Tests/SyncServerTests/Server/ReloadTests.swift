import Foundation
import TestSupport
import Testing

@Suite("SIGHUP to syncd serve")
struct ReloadTests {
    private static let authorization = "Authorization: Bearer \(ServerProcess.operatorToken)"
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func write(_ text: String, to name: String) throws {
        let path = folder.path(of: name)
        try Data(text.utf8).write(to: URL(filePath: path), options: .atomic)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
    }

    /// A server with a configuration file of these members of `serve`.
    private func serve(_ members: String, _ options: String...) throws -> ServerProcess {
        try write("{\"serve\": {\(members)}}", to: "syncd.json")
        return try ServerProcess(
            store: "sqlite:\(folder.path(of: "store.sqlite"))",
            options: ["--config", folder.path(of: "syncd.json")] + options)
    }

    /// Sends SIGHUP and waits until the log has one more line with `text`.
    private func reload(_ server: ServerProcess, until text: String = "the configuration was read again") -> Bool {
        func count() -> Int { server.log.components(separatedBy: text).count }
        let before = count()
        server.reload()
        return comesTrue { count() > before }
    }

    @Test("Requests on new and on open connections are answered while the configuration is read again")
    func requests() throws {
        let server = try serve(#""limit": ["late-body-seconds=25"]"#)
        for round in 0..<5 {
            let open = try RawConnection(port: server.port)
            open.send(request("PUT", "/v1/kv/a?if=any", fields: [Self.authorization], body: "\(round)"))
            #expect(open.answer()?.status == 200)
            // The header arrives before the signal, the body after it.
            let whole = request("PUT", "/v1/kv/b?if=any", fields: [Self.authorization], body: "body \(round)")
            open.send(String(whole.dropLast(4)))
            server.reload()
            for _ in 0..<20 {
                #expect(try ask(server.port, "GET", "/v1/kv/a", fields: [Self.authorization])?.text == "\(round)")
            }
            open.send(String(whole.suffix(4)))
            #expect(open.answer()?.status == 200)
            #expect(try ask(server.port, "GET", "/v1/kv/b", fields: [Self.authorization])?.text == "body \(round)")
        }
        #expect(comesTrue { server.log.components(separatedBy: "was read again").count == 6 }, "\(server.log)")
        #expect(server.stop() == 0)
        #expect(!FileManager.default.fileExists(atPath: folder.path(of: "store.sqlite-wal")))
    }

    @Test("An event stream ends, and the server serves on")
    func streams() throws {
        let server = try serve("")
        let stream = try RawConnection(port: server.port)
        let fields = [Self.authorization, "Accept: text/event-stream"]
        stream.send(request("GET", "/v1/changes", fields: fields))
        let first = String(decoding: try #require(stream.receive()), as: UTF8.self)
        #expect(first.hasPrefix("HTTP/1.1 200"))
        #expect(reload(server))
        #expect(stream.receiveAll() != nil, "the stream did not end")
        #expect(try ask(server.port, "PUT", "/v1/kv/a?if=any", fields: fields, body: "1")?.status == 200)
        #expect(server.stop() == 0)
    }

    @Test("New connections get the new certificate, and a wrong one changes nothing")
    func certificate() throws {
        for name in ["old", "new", "live"] {
            try FileManager.default.createDirectory(atPath: folder.path(of: name), withIntermediateDirectories: false)
        }
        for name in ["old", "new"] {
            try #require(try Tool.makeCertificate(in: folder.path(of: name)).exitCode == 0)
        }
        func install(_ name: String) throws {
            for file in ["certificate.pem", "key.pem"] {
                try? FileManager.default.removeItem(atPath: folder.path(of: "live/\(file)"))
                try FileManager.default.copyItem(
                    atPath: folder.path(of: "\(name)/\(file)"), toPath: folder.path(of: "live/\(file)"))
            }
        }
        try install("old")
        let server = try serve(
            "", "--tls-certificate", folder.path(of: "live/certificate.pem"), "--tls-key",
            folder.path(of: "live/key.pem"))
        func trusts(_ name: String) throws -> Bool {
            let authority = folder.path(of: "\(name)/certificate.pem")
            return try Tool.run("curl", ["-sS", "--cacert", authority, server.url + "/healthz"]).output == "up\n"
        }
        #expect(try trusts("old") && !trusts("new"))
        try install("new")
        #expect(try trusts("old"))
        #expect(reload(server))
        #expect(try trusts("new") && !trusts("old"))
        try write("garbage", to: "live/certificate.pem")
        #expect(reload(server, until: "certificate.pem holds no certificate in PEM form"), "\(server.log)")
        #expect(try trusts("new"))
        #expect(server.stop() == 0)
    }

    @Test("The catalogue and limits are read again; a wrong file or a change that needs a restart changes nothing")
    func configuration() throws {
        let example = Repository.file("Sources/syncd/Resources/insomniowl.json").path
        let server = try serve(#""limit": ["body-bytes=1024"]"#)
        func status(_ target: String) throws -> Int? {
            try ask(server.port, "GET", target, fields: [Self.authorization])?.status
        }
        func writeStatus() throws -> Int? {
            let body = String(repeating: "x", count: 2_000)
            return try ask(server.port, "PUT", "/v1/kv/a?if=any", fields: [Self.authorization], body: body)?.status
        }
        #expect(try status("/v1/catalog") == 404)
        #expect(try writeStatus() == 413)
        try write(#"{"serve": {"limit": ["body-bytes=4096"], "catalog": "\#(example)"}}"#, to: "syncd.json")
        #expect(reload(server), "\(server.log)")
        #expect(try status("/v1/catalog") == 200)
        #expect(try writeStatus() == 200)
        for (text, reason) in [
            (#"{"serve": {"limit": ["body-bytes=4096"], "catalgo": "x"}}"#, #"did you mean "catalog"?"#),
            (#"{"serve": {"catalog": "\#(folder.path(of: "nothing.json"))"}}"#, "nothing.json: no such file"),
            (#"{"serve": {"limit": ["store-cache=1M"]}}"#, "--limit store-cache has changed: restart the server"),
        ] {
            try write(text, to: "syncd.json")
            #expect(reload(server, until: reason), "\(server.log)")
            #expect(try status("/v1/catalog") == 200)
            #expect(try writeStatus() == 200)
        }
        #expect(server.stop() == 0)
    }
}
