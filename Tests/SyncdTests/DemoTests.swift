import Foundation
import Testing

@Suite("The demo")
struct DemoTests {
    private let sandbox: Sandbox

    init() throws {
        sandbox = try Sandbox()
    }

    private func demo(catalog: String) throws -> Sandbox.Outcome {
        let temporary = sandbox.path("tmp dir")
        try FileManager.default.createDirectory(atPath: temporary, withIntermediateDirectories: true)
        return try sandbox.run(["demo", "--catalog", catalog], environment: ["TMPDIR": temporary])
    }

    private func kept() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: sandbox.path("tmp dir"))
    }

    @Test("checks every end of its story and cleans up, also in folders with spaces and with a caller's own store set")
    func passes() throws {
        try FileManager.default.copyItem(atPath: Sandbox.example, toPath: sandbox.path("the catalogue.json"))
        let outcome = try demo(catalog: "the catalogue.json")
        #expect(outcome.exitCode == 0 && outcome.error.isEmpty)
        #expect(outcome.output.hasSuffix("\nEvery end was checked: 11 checks, all as expected.\n"))
        #expect(outcome.output.contains("phone on 2026-02-02: active until 2026-10-01, owns 1 by latestExpiryWins"))
        #expect(try kept().isEmpty)
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("store")))
    }

    @Test(
        "fails, and keeps its folders, when a rule gives another end",
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

    @Test("takes its server along when it is interrupted", arguments: [SIGTERM, SIGINT])
    func interrupted(signal: Int32) throws {
        let temporary = sandbox.path("tmp dir")
        try FileManager.default.createDirectory(atPath: temporary, withIntermediateDirectories: true)
        let demo = try sandbox.start(
            ["demo", "--catalog", Sandbox.example], environment: ["TMPDIR": temporary])
        let end = ContinuousClock.now + .seconds(60)
        while servers().isEmpty, ContinuousClock.now < end { demo.waitForEnd(atMost: 20) }
        #expect(servers().count == 1)
        demo.send(signal)
        #expect(demo.outcome().exitCode == -signal)
        while !servers().isEmpty, ContinuousClock.now < end { demo.waitForEnd(atMost: 20) }
        #expect(servers().isEmpty)
    }

    /// The servers of this sandbox's demos that run.
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

    @Test("says which product another catalogue lacks")
    func otherCatalog() throws {
        try sandbox.write(#"{"products": []}"#, to: "other.json")
        #expect(
            try demo(catalog: "other.json")
                == .refused(3, "other.json: the demo needs the product \(Owls.threeMonths)"))
    }
}
