import Foundation
import TestSupport
import Testing

@testable import syncd

@Suite("syncd doctor names each fault of a server", .timeLimit(.minutes(15)))
struct DoctorServerFaultTests {
    private let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    /// Expects that the check `name` alone has failed, with the text `reason`.
    private func expect(
        _ name: String, _ reason: String, _ options: [String], sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let place = options.contains("--listen") ? [] : ["--listen", "127.0.0.1:0"]
        let report = try sandbox.doctor(["serve", "--password-cost", "10"] + place + options)
        expectFailure(of: name, reason, in: report, sourceLocation: sourceLocation)
    }

    private var store: [String] { ["--store", "sqlite:\(sandbox.path("server.sqlite"))"] }

    @Test("A port that another program has, on a machine with many listening sockets")
    func port() throws {
        // The kernel lists some 26 sockets in each page of its table.
        let others = try (0..<200).map { _ in try RawServer { connection, _ in connection.ignore() } }
        defer { withExtendedLifetime(others) {} }
        let other = try RawServer { connection, _ in connection.ignore() }
        try expect(
            "listen", "process \(getpid()) (", store + ["--listen", other.authority])
        try expect(
            "listen", "203.0.113.7 is no address of this machine",
            store + ["--listen", "203.0.113.7:8440", "--insecure-http"])
        try expect("listen", "listen", store + ["--listen", "127.0.0.1"])
    }

    @Test("A port on which syncd serves another store, or does not answer, or a program that speaks HTTP answers")
    func otherServer() throws {
        let server = try ServerProcess(store: store[1])
        let place = ["--listen", "127.0.0.1:\(server.port)"]
        try expect(
            "listen", "is already listening at 127.0.0.1:\(server.port) with another store",
            ["--store", "sqlite:\(sandbox.path("other.sqlite"))"] + place)
        kill(server.processID, SIGSTOP)
        defer { kill(server.processID, SIGCONT) }
        try expect(
            "listen",
            "syncd, process \(server.processID), is listening at 127.0.0.1:\(server.port), but does not answer",
            store + place)
        let web = try RawServer { connection, _ in
            while connection.read() != nil { connection.answer(status: "200 OK") }
        }
        try expect(
            "listen", "listening on port \(web.authority.split(separator: ":")[1]), so syncd serve cannot start",
            store + ["--listen", web.authority])
    }

    @Test("A public URL whose certificate a private authority has signed needs --ca-file, which is accepted")
    func privateAuthority() throws {
        let certificate = try DoctorCertificate(in: sandbox, days: 90)
        let server = try ServerProcess(store: store[1], options: certificate.options)
        func report(_ more: [String]) throws -> DoctorReport {
            let place = ["--listen", "127.0.0.1:\(server.port)", "--name", server.url]
            return try sandbox.doctor(["serve", "--password-cost", "10"] + store + place + certificate.options + more)
        }
        let untrusted = try report([])
        #expect(untrusted.names("warning") == ["public-tls"], "\(untrusted.checks)")
        #expect(untrusted["public-tls"].contains("pass --ca-file"), "\(untrusted.checks)")
        #expect(untrusted["listen"].contains("is ready"), "\(untrusted.checks)")
        let trusted = try report(["--ca-file", certificate.path])
        #expect(trusted.names("failed") + trusted.names("warning") == [], "\(trusted.checks)")
        #expect(trusted["public-url"].hasPrefix("\(server.url) answers"))
        #expect(try report(["--ca-file", "none.pem"])["public-url"].hasPrefix("none.pem: no such file"))
    }

    @Test("A certificate that has expired, and a key that every user can read")
    func certificate() throws {
        let certificate = try DoctorCertificate(in: sandbox, days: -1)
        try expect("certificate", "tls.pem: 1 certificate, expired 1 day ago", store + certificate.options)
        let other = try DoctorCertificate(in: sandbox, days: 90)
        chmod(sandbox.path("tls.key"), 0o644)
        try expect("certificate", "tls.key has mode 0644", store + other.options)
    }

    @Test("A file with the operator's token that every user can read")
    func secret() throws {
        try sandbox.write(ServerProcess.operatorToken, to: "token")
        chmod(sandbox.path("token"), 0o644)
        try expect("secret-files", "token has mode 0644", store + ["--operator-token-file", "token"])
    }

    @Test("A secret that every user can read, with the permission of the configuration")
    func openSecret() throws {
        try sandbox.write(ServerProcess.operatorToken, to: "token")
        chmod(sandbox.path("token"), 0o644)
        let report = try sandbox.doctor(
            ["serve", "--listen", "127.0.0.1:0", "--operator-token-file", "token", "--allow-open-secrets"] + store)
        #expect(report.names("warning").contains("secret-files"), "\(report.checks)")
        #expect(report["secret-files"].contains("token: every user may access it"), "\(report.checks)")
    }

    @Test("A public URL at which this server, another program or nothing answers")
    func publicURL() throws {
        func report(_ name: String) throws -> DoctorReport {
            try sandbox.doctor(["serve", "--listen", "127.0.0.1:0", "--name", name] + store)
        }
        let server = try ServerProcess(store: "memory:")
        #expect(try report(server.url)["public-url"].hasPrefix("\(server.url) answers"))
        server.stop()
        let gone = try report(server.url)
        #expect(gone.healthy && gone["public-url"].contains("cannot be reached from here"), "\(gone.checks)")
        let other = try RawServer { connection, _ in
            while connection.read() != nil { connection.answer(status: "404 Not Found") }
        }
        let foreign = try report("http://\(other.authority)")
        #expect(foreign.healthy && foreign["public-url"].contains("another program answers"), "\(foreign.checks)")
    }

    @Test("A clock that is behind the latest time in the store")
    func clock() throws {
        let server = try ServerProcess(store: store[1], options: ["--at", "2096-01-01"])
        server.stop()
        try expect("clock", " behind the latest time in the store", store)
    }

    @Test("A store without a value for --store")
    func noStore() throws { try expect("configuration", "--store is required", []) }

    @Test("The limits of free space")
    func space() throws {
        var space = try DiskSpace(at: "/")
        func result(_ free: UInt64) -> Verdict.Result {
            space.freeByteCount = free
            return space.verdict.result
        }
        #expect(result(DiskSpace.least - 1) == .failed)
        #expect(result(DiskSpace.least) == .warning)
        #expect(result(DiskSpace.comfortable) == .ok)
    }

    @Test(
        "Versions are compared as numbers",
        arguments: [
            ("0.1.0", Verdict.Result.ok), ("0.1.9", .ok), ("0.2.0", .failed), ("1.0.0", .failed), ("0.10.0", .failed),
        ])
    func versions(text: String, result: Verdict.Result) throws {
        #expect(try #require(ReleaseNumber(text)).verdict(of: "x").result == result)
    }

    @Test("A text that is no version is not compared", arguments: ["", "1", "1.2", "1.2.x", "a.b.c", "1.2.3.4"])
    func noVersion(text: String) { #expect(ReleaseNumber(text) == nil) }
}
