import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Adoption of anonymous purchases, interrupted at every step")
struct AdoptionCrashTests {
    private let home: Household
    private static let facts: Set = ["time", "units", "owl", "spend"]

    init() throws {
        home = try Household()
    }

    /// The first action after the crash.
    enum Recovery: CaseIterable, Sendable {
        case sameAccountLogsIn, otherAccountAdopts, anonymousRecords
    }

    private func open(_ local: any KeyValueBackend) async throws -> EntitlementStore {
        try await home.store(local, remote: home.remote)
    }

    /// A device with one anonymous fact of each kind.
    private func device() async throws -> MemoryBackend {
        try home.machine.set("2026-01-10T12:00:00Z")
        let local = MemoryBackend(host: home.machine.host)
        let store = try await open(local)
        try await store.record([
            .reported(Owls.threeMonths, transaction: "time"), .reported(Owls.randomOwls, transaction: "units"),
            .reported(Owls.nightOwl, transaction: "owl"), .deferred(Owls.couchOwl),
        ])
        try home.machine.set("2026-06-01T00:00:00Z")
        #expect(try await store.use(Owls.access, id: "spend") == .spent(remaining: 4, of: Owls.randomOwls))
        return local
    }

    @Test(
        "Each fact ends with exactly one owner, and no store keeps writing under the old replica id",
        arguments: Recovery.allCases, [false, true])
    func crash(recovery: Recovery, isDone: Bool) async throws {
        for name in ["alice", "bob"] { try await open(MemoryBackend()).createAccount(name) }
        var (step, claimedCount) = (0, 0)
        while true {
            let local = try await device()
            let oldReplica = try await replica(of: local)
            let crashing = crashing(local, atCall: step, isDone: isDone)
            var alice: Account?
            do { alice = try await open(crashing).logIn("alice", adoptAnonymous: true) } catch {}
            let after = try await Holdings(of: local)
            let isClaimed =
                after.claim?.hasPrefix("alice/") == true || after.ids.keys.contains { $0.hasPrefix("alice/") }
            if isClaimed { claimedCount += 1 }
            let isThrough = crashing.callCount <= step
            #expect(!isThrough || (alice != nil && isClaimed))

            try await recover(recovery, on: local)

            let end = try await Holdings(of: local)
            let names = Set(Self.facts.flatMap(end.owners)).map { String($0.prefix { $0 != "/" }) }
            let owner =
                isClaimed || recovery == .sameAccountLogsIn
                ? "alice" : recovery == .otherAccountAdopts ? "bob" : "anonymous"
            #expect(names == [owner], "\(recovery), step \(step), done: \(isDone)")
            for id in Self.facts { #expect(end.owners(of: id).count == 1, "\(id), step \(step)") }
            #expect(end.claim == nil, "step \(step)")
            if owner != "anonymous" {
                #expect(try await replica(of: local) != oldReplica, "step \(step)")
                #expect(end["anonymous"] == (recovery == .anonymousRecords ? ["new"] : []), "step \(step)")
                try await checkAdoptedFacts(owner, on: local)
            } else {
                #expect(end["anonymous"] == Self.facts.union(["new"]), "step \(step)")
            }
            if isThrough { break }
            step += 1
        }
        #expect(step > 15 && claimedCount > 8 && claimedCount <= step)
    }

    @Test(
        "Facts claimed but not yet moved become anonymous again when the claiming account is erased elsewhere",
        arguments: [false, true])
    func erasedBeforeMoving(isDone: Bool) async throws {
        var (step, claimedCount) = (0, 0)
        while true {
            let stage = try AdoptionCrashTests()
            let local = try await stage.device()
            let other = try await stage.open(MemoryBackend())
            let first = try await other.createAccount("alice")
            let crashing = crashing(local, atCall: step, isDone: isDone)
            do { _ = try await stage.open(crashing).logIn("alice", adoptAnonymous: true) } catch {}
            let after = try await Holdings(of: local)
            try await other.eraseAccount("alice")
            if after.claim == Holdings.name(first), after[first].isEmpty {
                claimedCount += 1
                let store = try await stage.open(local)
                let error = await #expect(throws: EntitlementError.self) { try await store.logIn("alice") }
                #expect(error?.kind == .unknownAccount, "step \(step)")
                let end = try await Holdings(of: local)
                #expect(end.claim == nil && end["anonymous"] == Self.facts, "step \(step)")
                #expect(try await store.snapshot().owned == [Owls.nightOwl], "step \(step)")
            }
            if crashing.callCount <= step { break }
            step += 1
        }
        #expect(step > 15 && claimedCount > 1)
    }

    private func recover(_ recovery: Recovery, on local: MemoryBackend) async throws {
        let store = try await open(local)
        switch recovery {
        case .sameAccountLogsIn: try await store.logIn("alice", adoptAnonymous: true)
        case .otherAccountAdopts: try await store.logIn("bob", adoptAnonymous: true)
        case .anonymousRecords:
            let anonymous = try await home.anonymousDevice(local, remote: home.remote)
            let receipt = try await anonymous.record(.reported(Owls.nightOwl, transaction: "new"))
            for case .recording(let recording) in receipt.newFacts {
                #expect(try await recording.replica.bytes == replica(of: local))
            }
        }
    }

    /// Checks that the adopted facts count for their owner as they did for the anonymous account.
    private func checkAdoptedFacts(_ name: String, on local: MemoryBackend) async throws {
        let store = try await open(local)
        try await store.logIn(name)
        let snapshot = try await store.snapshot()
        #expect(snapshot.owned == [Owls.nightOwl])
        #expect(snapshot[group: Owls.random]?.expires == (try date("2026-04-10T12:00:00Z")))
        #expect(snapshot[balance: Owls.randomOwls] == 4)
        #expect(snapshot.pending == [Owls.couchOwl])
        try await store.sync()
        #expect(try await Holdings(of: home.remote).ids.values.contains(["time", "owl"]))
    }
}
