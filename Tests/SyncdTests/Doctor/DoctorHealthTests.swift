import Foundation
import TestSupport
import Testing

@Suite("syncd doctor on a healthy installation", .timeLimit(.minutes(15)))
struct DoctorHealthTests {
    private let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    private static let deviceChecks = [
        "configuration", "catalog", "secret-files", "store-files", "store-access", "disk-space", "store-lock", "store",
        "socket", "account", "credentials", "remote", "remote-tls", "remote-clock", "remote-version",
        "remote-identity",
    ]

    /// Everything in the sandbox, except the index of SQLite's log, which readers share and SQLite rebuilds.
    private func tree() throws -> [String: Data?] { try sandbox.tree().filter { !$0.key.hasSuffix("-shm") } }

    @Test("A device has no failure, and nothing changes", arguments: ["sqlite:phone.sqlite", "file:phone"])
    func device(local: String) throws {
        let server = try ServerProcess(sandbox)
        try sandbox.logIn("alice", local: local, remote: server.url)
        try sandbox.prepare("record purchase \(Owls.night) --local \(local) --remote \(server.url)")
        try sandbox.prepare("sync --local \(local) --remote \(server.url)")
        let before = try tree()
        let report = try sandbox.doctor(
            "run --local \(local) --remote \(server.url) --socket \(sandbox.path("s/socket"))")
        #expect(report.healthy)
        #expect(report.checks.map(\.check) == Self.deviceChecks)
        #expect(report.names("skipped") == ["secret-files", "remote-tls"])
        #expect(report.names("failed") + report.names("warning") == [], "\(report.checks)")
        #expect(report["store"].contains("keys, whole"))
        #expect(report["remote-version"].contains("has version \(report.version), as this device"))
        #expect(report["remote-identity"].contains("knows account \"alice\""))
        #expect(try tree() == before)
        #expect(server.stop() == 0)
    }

    @Test("A device in use has no failure, and its process is named")
    func deviceInUse() throws {
        let words = ["--local", "sqlite:phone.sqlite", "--socket", sandbox.path("s/socket")]
        let process = try sandbox.start(["run"] + words, environment: sandbox.device)
        #expect(process.firstOutputLine() == "listening on \(sandbox.path("s/socket"))")
        let report = try sandbox.doctor(["run"] + words)
        #expect(report.names("failed") + report.names("warning") == [], "\(report.checks)")
        #expect(report["store-lock"].contains("syncd run keeps the store: process "))
        #expect(report["socket"].contains("syncd run listens on "))
        process.send(SIGTERM)
        #expect(process.outcome().exitCode == 0)
    }

    @Test("A server has no failure while it runs and after its end, and nothing changes")
    func server() throws {
        let certificate = try DoctorCertificate(in: sandbox, days: 90)
        let options = ["--password-cost", "10", "--catalog", Sandbox.example] + certificate.options
        let store = "sqlite:\(sandbox.path("server.sqlite"))"
        let server = try ServerProcess(store: store, options: options + ["--listen", "127.0.0.1:0"])
        func examine() throws -> DoctorReport {
            try sandbox.doctor(["serve", "--store", store, "--listen", "127.0.0.1:\(server.port)"] + options)
        }
        let running = try examine()
        #expect(running.names("failed") + running.names("warning") == [], "\(running.checks)")
        let place = "already listening at 127.0.0.1:\(server.port) and is ready"
        #expect(running["listen"] == "syncd \(running.version), process \(server.processID), is \(place) | ")
        #expect(running["store-lock"].contains("open in process \(server.processID) (syncd)"))
        #expect(running["certificate"].contains("1 certificate, valid for 89 more days"))
        #expect(server.stop() == 0)
        let before = try tree()
        let ended = try examine()
        #expect(ended.names("failed") + ended.names("warning") == [], "\(ended.checks)")
        #expect(ended["listen"].contains("127.0.0.1:\(server.port) is free"))
        #expect(try tree() == before)
    }

    @Test("A configuration file with both commands is examined for both, one line for each check")
    func both() throws {
        try sandbox.prepare("record purchase \(Owls.night) --local sqlite:phone.sqlite")
        try sandbox.write(
            #"{"run": {"local": "sqlite:phone.sqlite"}, "serve": {"store": "memory:", "listen": "127.0.0.1:0"}}"#,
            to: "c.json")
        chmod(sandbox.path("c.json"), 0o600)
        let outcome = try sandbox.run("doctor --config c.json", environment: ["SYNCD_LOCAL": ""])
        #expect(outcome.exitCode == 0, "\(outcome)")
        let lines = outcome.output.split(separator: "\n")
        #expect(lines.contains { $0.hasPrefix("ok       run    store ") && $0.hasSuffix(": 2 keys, whole") })
        #expect(lines.contains { $0.hasPrefix("skipped  serve  store ") })
        #expect(lines.last?.contains(" ok, ") == true)
    }

    @Test("Wrong usage has the exit code 2 and no report")
    func usage() throws {
        for command in ["doctor store", "doctor run --locale x", "doctor serve --local x"] {
            let outcome = try sandbox.run(command)
            #expect(outcome.exitCode == 2 && outcome.output.isEmpty, "\(command): \(outcome)")
        }
        let outcome = try sandbox.run("doctor", environment: ["SYNCD_LOCAL": ""])
        #expect(outcome.exitCode == 2)
        #expect(outcome.error.contains("nothing is configured: pass run --local STORE"))
    }
}

/// A certificate for 127.0.0.1 that trusts itself, in files of a sandbox.
struct DoctorCertificate {
    let path: String
    private let keyPath: String

    var options: [String] { ["--tls-certificate", path, "--tls-key", keyPath] }

    /// - Parameter days: the number of days for which it is valid; -1 for a certificate that expired yesterday.
    init(in sandbox: Sandbox, days: Int) throws {
        (path, keyPath) = (sandbox.path("tls.pem"), sandbox.path("tls.key"))
        let (request, names) = (sandbox.path("tls.csr"), sandbox.path("tls.names"))
        try sandbox.write("subjectAltName=IP:127.0.0.1\n", to: "tls.names")
        try ProcessEnd.run(
            "/usr/bin/openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
            "/CN=localhost", "-keyout", keyPath, "-out", request)
        try ProcessEnd.run(
            "/usr/bin/openssl", "x509", "-req", "-in", request, "-signkey", keyPath, "-days", "\(days)", "-extfile",
            names, "-out", path)
        chmod(keyPath, 0o600)
    }
}
