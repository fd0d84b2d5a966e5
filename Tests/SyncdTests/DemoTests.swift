import Foundation
import TestSupport
import Testing

@Suite("The demo")
struct DemoTests {
    private let sandbox: Sandbox

    init() throws {
        sandbox = try Sandbox()
    }

    private func demo(catalog: String?) throws -> Sandbox.Outcome {
        let temporary = sandbox.path("tmp dir")
        try FileManager.default.createDirectory(atPath: temporary, withIntermediateDirectories: true)
        let option = catalog.map { ["--catalog", $0] } ?? []
        return try sandbox.run(["demo"] + option, environment: ["TMPDIR": temporary])
    }

    private func kept() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: sandbox.path("tmp dir"))
    }

    @Test("The demo runs anywhere with its built-in catalogue, checks every result and cleans up")
    func passes() throws {
        let outcome = try demo(catalog: nil)
        #expect(outcome.exitCode == 0 && outcome.error.isEmpty)
        #expect(outcome.output.hasSuffix("\nAll 11 checks passed.\n"))
        #expect(outcome.output.contains("phone on 2026-02-02: active until 2026-10-01, owns 1 by latestExpiryWins"))
        #expect(try kept().isEmpty)
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("store")))
    }

    @Test(
        "The demo fails and keeps its folders if a rule gives another result",
        arguments: [
            ("P3M", "P2M", "phone on 2026-01-01: expected the end 2026-04-01"),
            (
                #""expiry": "stackPurchases""#, #""expiry": "latestExpiryWins""#,
                "phone on 2026-02-02: expected the end 2027-01-01"
            ),
            (#""consumables": "deviceLocal""#, #""consumables": "deviceLocal", "bonus": "P1D""#, "phone on 2026-01-01"),
        ])
    func fails(rule: String, replacement: String, reason: String) throws {
        let text = try String(decoding: Data(contentsOf: URL(filePath: Sandbox.example)), as: UTF8.self)
        try sandbox.write(text.replacing(rule, with: replacement), to: "wrong.json")
        let outcome = try demo(catalog: "wrong.json")
        #expect(outcome.exitCode == 1)
        #expect(outcome.error.hasPrefix("syncd: \(reason)") && outcome.error.count { $0 == "\n" } == 1)
        #expect(try kept().count == 1)
    }

    @Test("An interrupted demo stops its server", arguments: [SIGTERM, SIGINT])
    func interrupted(signal: Int32) throws {
        let temporary = sandbox.path("tmp dir")
        try FileManager.default.createDirectory(atPath: temporary, withIntermediateDirectories: true)
        let end = ContinuousClock.now + Patience.limit
        let stopped = try interrupt(with: signal, temporary, until: end)
        while !servers().isEmpty, ContinuousClock.now < end { stopped.waitForEnd(atMost: 20) }
        #expect(servers().isEmpty)
    }

    /// Starts a demo, and interrupts it once its server runs. On a busy machine a demo may be over before the signal
    /// reaches it; then another one is started.
    private func interrupt(
        with signal: Int32, _ temporary: String, until end: ContinuousClock.Instant
    ) throws -> RunningCommand {
        while true {
            let demo = try sandbox.start(["demo", "--catalog", Sandbox.example], environment: ["TMPDIR": temporary])
            while servers().isEmpty, ContinuousClock.now < end { demo.waitForEnd(atMost: 5) }
            demo.send(signal)
            let status = demo.outcome().exitCode
            guard status == 0, ContinuousClock.now < end else {
                #expect(status == -signal)
                return demo
            }
        }
    }

    /// The running servers of this sandbox's demos.
    private func servers() -> [String] {
        let processes = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        return processes.filter { name in
            guard Int(name) != nil, let words = FileManager.default.contents(atPath: "/proc/\(name)/cmdline") else {
                return false
            }
            let line = String(decoding: words, as: UTF8.self)
            return line.contains("serve\0") && line.contains(sandbox.path("tmp dir"))
        }
    }

    @Test("The demo names a product that its catalogue lacks")
    func otherCatalog() throws {
        try sandbox.write(#"{"products": []}"#, to: "other.json")
        #expect(
            try demo(catalog: "other.json")
                == .refused(3, "other.json: the demo needs the product \(Owls.threeMonths)"))
    }
}
