import Foundation
import TestSupport
import Testing

@Suite("syncd doctor names each fault of an account and a remote", .timeLimit(.minutes(15)))
struct DoctorRemoteFaultTests {
    private let sandbox: Sandbox
    private let local = "--local file:phone"

    init() throws {
        sandbox = try Sandbox()
        try sandbox.prepare("record purchase \(Owls.night) \(local)")
    }

    /// Starts a server that answers as version `version` whose clock is `seconds` ahead.
    private func liar(version: String, secondsAhead seconds: Int64 = 0) throws -> RawServer {
        try RawServer { connection, _ in
            while let request = connection.readRequest() {
                let now = Int64(Date().timeIntervalSince1970) + seconds
                let isDescription = request.hasPrefix("GET /openapi.yaml ")
                connection.answer(
                    isDescription ? "openapi: 3.1.0\ninfo:\n  title: X\n  version: \(version)\n" : "up\n",
                    fields: "EntitlementSync-Time: \(now * 1_000)\r\n")
            }
        }
    }

    @Test("A server whose clock is two hours ahead")
    func clock() throws {
        let server = try liar(version: "0.1.0", secondsAhead: 7_230)
        let report = try sandbox.doctor("run \(local) --remote http://\(server.authority)")
        expectFailure(of: "remote-clock", "this clock is 2 h behind that of http://\(server.authority)", in: report)
    }

    @Test("A server of another version")
    func version() throws {
        let server = try liar(version: "0.9.2")
        let report = try sandbox.doctor("run \(local) --remote http://\(server.authority)")
        expectFailure(of: "remote-version", "has version 0.9.2, this device 0.1.0", in: report)
        #expect(report["remote-version"].hasSuffix("update syncd on this device"))
    }

    @Test("A server that does not listen, one that never answers, and one of another kind")
    func unreachable() throws {
        let port = try { try RawServer { _, _ in }.port }()
        expectFailure(
            of: "remote", "http://127.0.0.1:\(port): ",
            in: try sandbox.doctor("run \(local) --remote http://127.0.0.1:\(port)"))
        let silent = try RawServer { connection, _ in connection.ignore() }
        let start = ContinuousClock.now
        let report = try sandbox.doctor("run \(local) --remote http://\(silent.authority)")
        expectFailure(of: "remote", "http://\(silent.authority): ", in: report)
        print("the verdict about a server that never answers: \(ContinuousClock.now - start)")
        expectFigure(ContinuousClock.now - start < .seconds(30))
        let other = try RawServer { connection, _ in
            while connection.readRequest() != nil { connection.answer("hello") }
        }
        expectFailure(
            of: "remote", "is no EntitlementSync server",
            in: try sandbox.doctor("run \(local) --remote http://\(other.authority)"))
    }

    @Test("A certificate that has expired, one that expires soon, and one that is not trusted")
    func certificates() throws {
        func report(days: Int, trusting: Bool = true) throws -> DoctorReport {
            let certificate = try DoctorCertificate(in: sandbox, days: days)
            let server = try ServerProcess(store: "memory:", options: certificate.options)
            let trust = trusting ? ["--ca-file", certificate.path] : []
            let report = try sandbox.doctor(["run", "--local", "file:phone", "--remote", server.url] + trust)
            server.stop()
            return report
        }
        expectFailure(of: "remote-tls", "1 certificate, expired 1 day ago", in: try report(days: -1))
        expectFailure(of: "remote-tls", "SSL certificate problem", in: try report(days: 90, trusting: false))
        let soon = try report(days: 5)
        #expect(soon.healthy && soon.names("warning") == ["remote-tls"], "\(soon.checks)")
        #expect(soon["remote-tls"].contains("valid for 4 more days"))
        #expect(try report(days: 90).names("warning") == [])
    }

    @Test("A session file of another address, and one that other users can read")
    func credentials() throws {
        let server = try ServerProcess(sandbox)
        try sandbox.logIn("alice", local: "file:phone", remote: server.url)
        let names = try FileManager.default.contentsOfDirectory(atPath: sandbox.path("state/syncd"))
        let file = sandbox.path("state/syncd/" + (try #require(names.first { $0.hasSuffix(".json") })))
        let moved = "run \(local) --remote http://localhost:\(server.port) --credentials \(file)"
        let remedy = try sandbox.doctor(moved)["credentials"]
        #expect(remedy.contains("\(server.url), not to ") && !remedy.contains("name another file"), "\(remedy)")
        #expect(remedy.contains("syncd account login"), "\(remedy)")
        chmod(file, 0o644)
        let report = try sandbox.doctor("run \(local) --remote \(server.url)")
        expectFailure(of: "credentials", "\(file) must be your own file, which other users cannot access", in: report)
        #expect(report["credentials"].contains("chmod 600 \(file)"))
        try FileManager.default.removeItem(atPath: file)
        expectFailure(
            of: "credentials", "\"alice\" is logged in on this device, but has no session",
            in: try sandbox.doctor("run \(local) --remote \(server.url)"))
        server.stop()
    }

    @Test("A damaged session file, and one wrong remote of two")
    func damagedSession() throws {
        let server = try ServerProcess(sandbox)
        try sandbox.logIn("alice", local: "file:phone", remote: server.url)
        let names = try FileManager.default.contentsOfDirectory(atPath: sandbox.path("state/syncd"))
        let name = try #require(names.first { $0.hasSuffix(".json") })
        try sandbox.write("not JSON", to: "state/syncd/\(name)")
        let report = try sandbox.doctor("run \(local) --remote \(server.url) --remote ftp://example")
        #expect(report["credentials"].contains("rm \(sandbox.path("state/syncd/\(name)")), then syncd account login"))
        #expect(report["configuration"].contains("\"ftp://example\""), "\(report.checks)")
        #expect(report["remote"].contains("\(server.url) answers"), "\(report.checks)")
        server.stop()
    }

    @Test("The store of another account")
    func otherAccount() throws {
        try sandbox.prepare("account create alice \(local)")
        try sandbox.prepare("account login alice \(local)")
        let report = try sandbox.doctor("run \(local) --account bob")
        expectFailure(
            of: "account", "the store belongs to account \"alice\", which is logged in, and --account names \"bob\"",
            in: report)
        let server = try ServerProcess(sandbox)
        server.stop()
        let store = "sqlite:\(sandbox.path("server.sqlite"))"
        expectFailure(of: "account", "the store is that of a server", in: try sandbox.doctor("run --local \(store)"))
    }

    @Test("A server that was replaced by another one at the same address")
    func replacedServer() throws {
        let server = try ServerProcess(sandbox)
        try sandbox.logIn("alice", local: "file:phone", remote: server.url)
        server.stop()
        let other = try ServerProcess(store: "memory:", options: ["--listen", "127.0.0.1:\(server.port)"])
        let report = try sandbox.doctor("run \(local) --remote \(server.url)")
        expectFailure(of: "remote-identity", "refuses the session of \"alice\": another server answers", in: report)
        other.stop()
    }

    @Test("A shared folder that was replaced by another one, and one that is not mounted")
    func replacedFolder() throws {
        let remote = "--remote file:shared"
        try FileManager.default.createDirectory(
            atPath: sandbox.path("shared"), withIntermediateDirectories: false)
        for account in ["alice", "bob"] {
            try sandbox.prepare("record purchase \(Owls.shy) --account \(account) \(local) \(remote)")
            try sandbox.prepare("sync --create-remote --account \(account) \(local) \(remote)")
        }
        #expect(try sandbox.doctor("run \(local) \(remote) --account alice").names("failed") == [])
        try FileManager.default.removeItem(atPath: sandbox.path("shared/accounts/alice"))
        expectFailure(
            of: "remote-identity", "does not hold account \"alice\", with which this device has synced there",
            in: try sandbox.doctor("run \(local) \(remote) --account alice"))
        try FileManager.default.removeItem(atPath: sandbox.path("shared"))
        expectFailure(
            of: "remote", "the folder does not exist",
            in: try sandbox.doctor("run \(local) \(remote) --account alice"))
    }

    @Test("A WebDAV folder is examined, and a wrong password is a failure", .enabled(if: ApacheServer.isInstalled))
    func webDAV() throws {
        let apache = try ApacheServer.shared.get()
        let folder = try apache.makeFolder(guarded: true)
        let url = "webdav://\(ApacheServer.user)@\(apache.authority)\(folder.name)"
        func report(password: String) throws -> DoctorReport {
            let words = "doctor run --json \(local) --remote \(url) --account alice"
            let outcome = try sandbox.run(words, environment: ["SYNCD_WEBDAV_PASSWORD": password])
            #expect(!outcome.output.contains(password))
            return try JSONDecoder().decode(DoctorReport.self, from: Data(outcome.output.utf8))
        }
        let right = try report(password: ApacheServer.password)
        #expect(right.names("failed") + right.names("warning") == [], "\(right.checks)")
        #expect(right["remote-clock"].contains("within "))
        #expect(right["remote-identity"].contains("has not been synced with account \"alice\" yet"))
        expectFailure(
            of: "remote", "the server refused this user name and password", in: try report(password: "a wrong password")
        )
    }
}
