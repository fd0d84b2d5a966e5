import Foundation
import Testing

@Suite("A refused command prints one line on standard error and changes nothing")
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

    @Test("Wrong usage is refused", arguments: Refusal.usage + Refusal.stores)
    func usage(refused: Refusal) throws { try expectRefusal(of: refused) }

    @Test("Wrong arguments of a purchase are refused", arguments: Refusal.purchases)
    func purchase(refused: Refusal) throws { try expectRefusal(of: refused) }

    @Test("Unknown ids and missing files are reported", arguments: Refusal.missing)
    func missing(refused: Refusal) throws { try expectRefusal(of: refused) }

    @Test("A denied use ends with exit code 10 and creates no store")
    func deniedUse() throws {
        let sandbox = try Sandbox()
        let denied = Sandbox.Outcome(exitCode: 10, output: "denied: not purchased\n", error: "")
        #expect(try sandbox.run("use random-owls") == denied)
        #expect(try sandbox.tree().isEmpty)
    }

    @Test("A purchase that contradicts a synced one does not change the device")
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

    @Test("An argument that is not UTF-8 is refused, because two ids could become one")
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

    @Test("A system without free file descriptors ends with exit code 75")
    func tryAgain() throws {
        let sandbox = try Sandbox()
        try sandbox.run("record purchase \(Owls.night) --transaction t1")
        let before = try sandbox.tree()
        // The runtime needs an unknown number of descriptors and crashes without them. The highest limit
        // at which the command fails is therefore the one to check.
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
