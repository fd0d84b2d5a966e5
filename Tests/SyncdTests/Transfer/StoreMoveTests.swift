import Foundation
import TestSupport
import Testing

@Suite("Moving a store that a server uses")
struct StoreMoveTests {
    private let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    private func run(_ command: String, on device: String, _ server: ServerProcess) throws -> Sandbox.Outcome {
        try sandbox.run(
            "\(command) --local file:\(device) --remote \(server.url)",
            environment: [
                "XDG_STATE_HOME": sandbox.path("\(device)-state"), "SYNCD_PASSWORD": "correct horse",
            ])
    }

    private func buy(_ transaction: String, _ server: ServerProcess) throws {
        let recorded = try run("record purchase \(Owls.night) --transaction \(transaction)", on: "phone", server)
        #expect(recorded.exitCode == 0, "\(recorded)")
        let synced = try run("sync", on: "phone", server)
        #expect(synced.exitCode == 0, "\(synced)")
    }

    @Test(
        "A store is copied while its server works, refused until the copy is finished, and then complete",
        .timeLimit(.minutes(15)))
    func move() throws {
        let (old, new) = ("file:\(sandbox.path("old"))", "sqlite:\(sandbox.path("new.sqlite"))")
        let options = ["--catalog", Sandbox.example]
        let server = try ServerProcess(store: old, options: options)
        let created = try run("account create alice", on: "phone", server)
        #expect(created.exitCode == 0, "\(created)")
        _ = try run("account login alice", on: "phone", server)
        try buy("before", server)
        let copy = try sandbox.start(["store", "copy", "--follow", old, new])
        let line = try #require(copy.firstErrorLine())
        #expect(line.hasPrefix("syncd: copied; "), "\(line)")
        try buy("meanwhile", server)
        copy.send(SIGINT)
        #expect(copy.outcome().exitCode != 0)
        try buy("afterwards", server)
        let refusal = #expect(throws: ServerProcess.Failure.self) { try ServerProcess(store: new, options: options) }
        #expect(refusal?.description.contains("run: syncd store copy --finish OLD-URL \(new)") == true)
        #expect(server.stop() == 0)
        let finished = try sandbox.run(["store", "copy", "--finish", old, new])
        #expect(finished.output.hasPrefix("\(new): equal to \(old), and ready for use; "), "\(finished)")
        let moved = try ServerProcess(store: new, options: options)
        #expect(try run("account login alice", on: "tablet", moved).exitCode == 0)
        let restored = try run("restore", on: "tablet", moved)
        #expect(restored.output.hasPrefix("restored for alice: 3 purchases\n"), "\(restored)")
        #expect(moved.stop() == 0)
        let again = try sandbox.run(["store", "copy", "--finish", old, new])
        #expect(again.exitCode != 0 && again.error.contains("name an empty store"), "\(again)")
    }
}
