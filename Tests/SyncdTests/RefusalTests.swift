import Foundation
import Testing

@Suite("What is refused: one line on standard error, and nothing changes")
struct RefusalTests {
    private func expectRefusal(of refused: Refusal) throws {
        let sandbox = try Sandbox()
        try sandbox.run("record purchase \(Owls.threeMonths) --transaction t1 --date 2026-01-01")
        try FileManager.default.createDirectory(atPath: sandbox.path("foreign"), withIntermediateDirectories: false)
        try sandbox.write("mine", to: "foreign/letter")
        let before = try sandbox.tree()
        let outcome = try sandbox.run(refused.arguments)
        #expect(outcome == .refused(refused.exitCode, refused.reason))
        #expect(try sandbox.tree() == before)
    }

    @Test("Usage", arguments: Refusal.usage + Refusal.stores)
    func usage(refused: Refusal) throws { try expectRefusal(of: refused) }

    @Test("Purchases and their arguments", arguments: Refusal.purchases)
    func purchase(refused: Refusal) throws { try expectRefusal(of: refused) }

    @Test("What is not there", arguments: Refusal.missing)
    func missing(refused: Refusal) throws { try expectRefusal(of: refused) }

    @Test("A denied use is exit code 10 and leaves a new store unmade")
    func deniedUse() throws {
        let sandbox = try Sandbox()
        let denied = Sandbox.Outcome(exitCode: 10, output: "denied: not purchased\n", error: "")
        #expect(try sandbox.run("use random-owls") == denied)
        #expect(try sandbox.tree().isEmpty)
    }

    @Test("A purchase that contradicts what was synced leaves a device without an id of its own as it was")
    func contradictionAfterSync() throws {
        let sandbox = try Sandbox()
        let alice = "--account alice --remote file:remote"
        try sandbox.run("record purchase \(Owls.night) --transaction t1 \(alice)")
        try sandbox.run("sync --create-remote \(alice)")
        try sandbox.run("restore \(alice) --local file:tablet")
        let before = try sandbox.tree()
        let outcome = try sandbox.run("record purchase \(Owls.shy) --transaction t1 \(alice) --local file:tablet")
        #expect(outcome == .refused(5, "transaction \"t1\" is already recorded differently: product \(Owls.night)"))
        #expect(try sandbox.tree() == before)
    }

    @Test("An argument that is no UTF-8 is refused: two ids would become one")
    func notUTF8() throws {
        let sandbox = try Sandbox()
        let outcome = try sandbox.run(
            after: "id=$(printf 'a\\377')", "record purchase \(Owls.night) --transaction \"$id\"")
        #expect(outcome == .refused(2, "argument 5 is not UTF-8: \"a\u{FFFD}\""))
        #expect(try sandbox.tree().isEmpty)
    }

    @Test("A full standard output is an error, not a crash", arguments: ["status", "export", "export --format ledger"])
    func fullOutput(command: String) throws {
        let sandbox = try Sandbox()
        try sandbox.run("record purchase \(Owls.night) --transaction t1")
        let outcome = try sandbox.run(after: "exec >/dev/full", command)
        #expect(outcome == .refused(1, "standard output cannot be written: No space left on device"))
    }

    @Test("A system that is short of files is exit code 75: try again later")
    func tryAgain() throws {
        let sandbox = try Sandbox()
        try sandbox.run("record purchase \(Owls.night) --transaction t1")
        let before = try sandbox.tree()
        // The runtime needs some for itself, how many is not ours to know, and crashes without them. The highest limit
        // at which the command fails is therefore the one to look at.
        let outcomes = try (5...12).map { try sandbox.run(after: "ulimit -n \($0)", "record flag \(Owls.shy)") }
        let transient = try #require(outcomes.last { $0.exitCode == 75 }, "\(outcomes)")
        #expect(transient.output == "")
        #expect(transient.error.count { $0 == "\n" } == 1)
        #expect(
            transient.error.hasSuffix(
                "the system is short of file descriptors or memory; try again (open: Too many open files)\n")
        )
        let firstDone = try #require(outcomes.firstIndex { $0.exitCode == 0 })
        #expect(outcomes[firstDone].output == "set: flag of \(Owls.shy) for anonymous\n")
        #expect(try sandbox.tree() != before)
    }
}
