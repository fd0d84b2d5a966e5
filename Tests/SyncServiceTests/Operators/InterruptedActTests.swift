import Entitlements
import ServiceTestSupport
import SyncCore
import Testing

@testable import SyncService

@Suite("Acts of operators that are interrupted or raced")
struct InterruptedActTests {
    /// An act with the rights of alice and of bob after it.
    struct Case: Sendable, CustomTestStringConvertible {
        var kind: OperatorAct.Kind
        var members: [String: String]
        var rights: [Set<String>]
        /// An act of another operator that reverses it.
        var reversal: (kind: OperatorAct.Kind, account: String, members: [String: String])?

        var testDescription: String { "\(kind)" }
    }

    private static let sale = Sale.month("1", of: "1", at: EvidenceStage.start)
    private static let all: [Case] = [
        Case(kind: .grant, members: ["group": "nights", "for": "P1M"], rights: [["owls", "nights"], []]),
        Case(
            kind: .refund, members: sale.members, rights: [[], []],
            reversal: (.reinstatement, "alice", sale.members)),
        Case(
            kind: .transfer, members: sale.members.merging(["to": "bob"]) { $1 }, rights: [[], ["owls"]],
            reversal: (.transfer, "bob", sale.members.merging(["to": "alice"]) { $1 })),
        Case(kind: .recovery, members: [:], rights: [["owls"], []]),
        Case(kind: .erasure, members: [:], rights: [[], []]),
        Case(kind: .sessions, members: [:], rights: [[], []]),
    ]

    private func rights(_ stage: EvidenceStage) async -> [Set<String>] {
        [await stage.rights(of: stage.alice), await stage.rights(of: stage.bob)]
    }

    /// Interrupts the act after each number of writes, and calls `body` with the stage. Ends with the first attempt
    /// that was not interrupted.
    private func interrupt(_ example: Case, _ body: (ActStage, Int) async throws -> Void) async throws {
        var finishedAfter: Int?
        for step in 0..<60 where finishedAfter == nil {
            let acts = try await ActStage.owned(Self.sale)
            acts.stage.store.fail(after: step)
            do {
                try await acts.perform(example.kind, members: example.members, key: "k")
                finishedAfter = step
            } catch {
                #expect(error is BackendError, "\(error)")
            }
            acts.stage.store.before(nil)
            try await body(acts, step)
        }
        #expect(try #require(finishedAfter) > 3)
    }

    @Test("An act that was interrupted at any step happens once when it is repeated at another server", arguments: all)
    func repeated(_ example: Case) async throws {
        try await interrupt(example) { acts, step in
            let outcome = try await acts.perform(example.kind, members: example.members, key: "k", at: acts.other)
            #expect(try await acts.perform(example.kind, members: example.members, key: "k") == outcome)
            await acts.stage.service.followChanges()
            #expect(await rights(acts.stage) == example.rights, "after \(step) writes")
            let entries = try await acts.entries().filter { $0.id != nil }
            #expect(entries.map(\.act) == [example.kind.rawValue], "after \(step) writes: \(entries)")
            #expect(try await acts.stage.store.keys().count { $0.hasPrefix("server/acts/") } == 1)
        }
    }

    @Test("The daily sweep finishes an act that was interrupted at any step after it began", arguments: all)
    func swept(_ example: Case) async throws {
        try await interrupt(example) { acts, step in
            let hasBegun = try await acts.stage.store.keys().contains { $0.hasPrefix("server/acts/") }
            acts.stage.clock.advance(seconds: 600)
            try await OperatorActs(acts.other).sweep(now: acts.stage.now) { Issue.record($0) }
            await acts.stage.service.followChanges()
            let entries = try await acts.entries().filter { $0.id != nil }
            #expect(entries.count == (hasBegun ? 1 : 0), "after \(step) writes")
            if hasBegun { #expect(await rights(acts.stage) == example.rights, "after \(step) writes") }
        }
    }

    @Test(
        "An interrupted act that another one has reversed in the meantime is not done again",
        arguments: all.filter { $0.reversal != nil })
    func reversed(_ example: Case) async throws {
        let reversal = try #require(example.reversal)
        try await interrupt(example) { acts, step in
            let stage = acts.stage
            let hasHappened = await rights(stage) == example.rights
            stage.clock.advance(seconds: 60)
            guard hasHappened else { return }
            try await acts.perform(
                reversal.kind, reversal.account, members: reversal.members, key: "back", at: acts.other)
            #expect(await rights(stage) == [["owls"], []], "after \(step) writes")
            try await acts.perform(example.kind, members: example.members, key: "k", at: acts.other)
            #expect(await rights(stage) == [["owls"], []], "after \(step) writes")
        }
    }

    @Test("One act at two servers at the same moment happens once, and both answer the same", arguments: all)
    func raced(_ example: Case) async throws {
        for _ in 0..<4 {
            let acts = try await ActStage.owned(Self.sale)
            let services = [acts.stage.service, acts.other, acts.stage.service, acts.other]
            let outcomes = try await withThrowingTaskGroup(of: ActOutcome.self) { group in
                for service in services {
                    group.addTask {
                        try await acts.perform(example.kind, members: example.members, key: "k", at: service)
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(Set(outcomes).count == 1)
            // The other server may have ended the sessions.
            await acts.stage.service.followChanges()
            #expect(await rights(acts.stage) == example.rights)
            #expect(try await acts.entries().filter { $0.id != nil }.map(\.act) == [example.kind.rawValue])
        }
    }

    @Test("Different acts at two servers at the same moment all happen, and the list verifies")
    func many() async throws {
        let acts = try await ActStage()
        let services = [acts.stage.service, acts.other]
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<12 {
                group.addTask {
                    try await acts.perform(
                        .grant, members: ["group": "nights", "for": "P7D"], key: "k\(number / 2)",
                        at: services[number % 2])
                }
            }
            try await group.waitForAll()
        }
        #expect(try await acts.stage.serverLedger(of: acts.stage.alice).facts.count { $0.purchase != nil } == 6)
        guard case .intact(6, _) = try await AuditLog(store: acts.stage.store).verify() else {
            Issue.record("the list is not intact")
            return
        }
    }

    @Test("An act that began and can no longer be done is refused alike ever after, and the list says so")
    func failed() async throws {
        let acts = try await ActStage.owned(Self.sale)
        let members = Self.sale.members.merging(["to": "bob"]) { $1 }
        acts.stage.store.fail(after: 1)
        await #expect(throws: BackendError.self) { try await acts.perform(.transfer, members: members, key: "k") }
        acts.stage.store.before(nil)
        try await acts.perform(.transfer, members: members, key: "other")
        try await acts.perform(
            .transfer, "bob", members: Self.sale.members.merging(["to": "alice"]) { $1 }, key: "back")
        // Another operator has moved the purchase to bob and back, which may look like this act.
        try await acts.perform(.erasure, "bob", key: "erasure")
        _ = try? await acts.perform(.transfer, members: members, key: "k")
        #expect(await acts.stage.rights(of: acts.stage.alice) == ["owls"])
    }
}
