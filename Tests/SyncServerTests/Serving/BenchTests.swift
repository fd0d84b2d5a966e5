import Foundation
import TestSupport
import Testing

@Suite("syncd bench", .timeLimit(.minutes(2)))
struct BenchTests {
    private func bench(_ arguments: [String]) throws -> Tool.Outcome {
        try Tool.run(BuiltProgram.path(of: "syncd"), ["bench"] + arguments)
    }

    private struct Report: Decodable {
        struct Latencies: Decodable {
            var count: Int
            var medianMicroseconds: Int
            var mostMicroseconds: Int
        }

        var answers: Int
        var sent: Int
        var statuses: [String: Int]
        var unexpected: [String: Int]
        var failures: [String: Int]
        var latencies: [String: Latencies]
        var leftOver: String?
    }

    @Test(
        "each kind of work is answered as it should be, and the accounts are gone afterwards",
        arguments: [
            ("read", ["read"], "200"), ("read-unchanged", ["read-unchanged"], "304"), ("write", ["write"], "200"),
            ("mixed", ["read", "write"], "200"), ("login", ["login"], "200"),
            ("watch", ["event after its write", "write"], "200"),
        ])
    func work(_ work: (name: String, kinds: [String], status: String)) throws {
        let server = try ServerProcess(store: "memory:")
        defer { _ = server.stop() }
        let outcome = try bench([
            server.url, "--work", work.name, "--seconds", "1", "--rate", "20", "--connections", "6", "--accounts", "3",
            "--json",
        ])
        #expect(outcome.exitCode == 0, "\(outcome.errors)")
        let report = try JSONDecoder().decode(Report.self, from: Data(outcome.output.utf8))
        #expect(report.sent == 20)
        #expect(report.statuses == [work.status: 20])
        #expect(report.unexpected.isEmpty && report.failures.isEmpty)
        #expect(report.latencies.keys.sorted() == work.kinds)
        if let heard = report.latencies["event after its write"] { #expect(heard.count == 40) }
        #expect(report.leftOver == nil)
        let metrics = try #require(try ask(server.port, "GET", "/metrics")).text
        #expect(metrics.contains(#"route="/v1/accounts/self/erasure",status="2xx"} 3"# + "\n"))
    }

    @Test("answers that are not to be expected end it with 1, and are told")
    func unexpectedAnswers() throws {
        let server = try ServerProcess(store: "memory:")
        defer { _ = server.stop() }
        let folder = try TemporaryFolder()
        let file = folder.path(of: "requests")
        try Data(#"{"method":"GET","path":"/v1/accounts/self"}"#.utf8).write(to: URL(filePath: file))
        let outcome = try bench([
            server.url, "--requests", file, "--seconds", "1", "--rate", "10",
        ])
        #expect(outcome.exitCode == 1)
        #expect(outcome.output.contains("unexpected: 10 answers 401"))
        #expect(outcome.errors == "syncd: 10 requests were not answered as they should be (see above)\n")
    }

    @Test(
        "what is not meant is refused in a line, before anything is asked",
        arguments: [
            (["https://example.com"], "--allow-remote"), (["http://127.0.0.1:1/path"], "is no server"),
            (["http://127.0.0.1:1", "--work", "nothing"], "--work"),
            (["http://127.0.0.1:1", "--seconds", "3601"], "--seconds: 3601 is not from 1 to 3600"),
            (["http://127.0.0.1:1", "--rate", "0"], "--rate"), (["http://127.0.0.1:1", "--reconnect"], "--reconnect"),
        ])
    func refusals(_ refusal: (arguments: [String], told: String)) throws {
        let outcome = try bench(refusal.arguments)
        #expect(outcome.exitCode == 2)
        #expect(outcome.output.isEmpty)
        #expect(outcome.errors.contains(refusal.told) && outcome.errors.split(separator: "\n").count == 1)
    }
}
