import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import Testing

@Suite("Adopting what nobody bought, interrupted at every step")
struct AdoptionCrashTests {
    private let home: Household
    private static let facts: Set = ["time", "units", "owl", "spend"]

    init() throws {
        home = try Household()
    }

    /// What happens after the crash.
    enum Afterwards: CaseIterable, Sendable {
        case sameAccountLogsIn, otherAccountAdopts, somebodyRecords
    }

    private func open(_ local: any KeyValueBackend) async throws -> EntitlementStore {
        try await EntitlementStore(catalog: home.catalog, local: local, remote: home.remote, host: home.machine.host)
    }

    /// A device on which nobody bought something of each kind.
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
        "Each fact ends with exactly one owner, complete, and nobody writes on under the old replica",
        arguments: Afterwards.allCases, [false, true])
    func crash(afterwards: Afterwards, isDone: Bool) async throws {
        for name in ["alice", "bob"] { try await open(MemoryBackend()).createAccount(name) }
        var (step, claimedCount) = (0, 0)
        while true {
            let local = try await device()
            let oldReplica = try await replica(of: local)
            let mortal = mortal(local, diesAt: step, isDone: isDone)
            var alice: Account?
            do { alice = try await open(mortal).logIn("alice", adoptAnonymous: true) } catch {}
            let after = try await Holdings(of: local)
            let isClaimed =
                after.claim?.hasPrefix("alice/") == true || after.ids.keys.contains { $0.hasPrefix("alice/") }
            if isClaimed { claimedCount += 1 }
            let isThrough = mortal.callCount <= step
            #expect(!isThrough || (alice != nil && isClaimed))

            try await carryOn(afterwards, on: local)

            let end = try await Holdings(of: local)
            let names = Set(Self.facts.flatMap(end.owners)).map { String($0.prefix { $0 != "/" }) }
            let owner =
                isClaimed || afterwards == .sameAccountLogsIn
                ? "alice" : afterwards == .otherAccountAdopts ? "bob" : "anonymous"
            #expect(names == [owner], "\(afterwards), step \(step), done: \(isDone)")
            for id in Self.facts { #expect(end.owners(of: id).count == 1, "\(id), step \(step)") }
            #expect(end.claim == nil, "step \(step)")
            if owner != "anonymous" {
                #expect(try await replica(of: local) != oldReplica, "step \(step)")
                #expect(end["anonymous"] == (afterwards == .somebodyRecords ? ["new"] : []), "step \(step)")
                try await checkWhole(owner, on: local)
            } else {
                #expect(end["anonymous"] == Self.facts.union(["new"]), "step \(step)")
            }
            if isThrough { break }
            step += 1
        }
        #expect(step > 15 && claimedCount > 8 && claimedCount <= step)
    }

    @Test(
        "What was claimed and not moved when its account was erased elsewhere is nobody's again, and shows",
        arguments: [false, true])
    func erasedBeforeMoving(isDone: Bool) async throws {
        var (step, claimedCount) = (0, 0)
        while true {
            let stage = try AdoptionCrashTests()
            let local = try await stage.device()
            let other = try await stage.open(MemoryBackend())
            let first = try await other.createAccount("alice")
            let mortal = mortal(local, diesAt: step, isDone: isDone)
            do { _ = try await stage.open(mortal).logIn("alice", adoptAnonymous: true) } catch {}
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
            if mortal.callCount <= step { break }
            step += 1
        }
        #expect(step > 15 && claimedCount > 1)
    }

    private func carryOn(_ afterwards: Afterwards, on local: MemoryBackend) async throws {
        let store = try await open(local)
        switch afterwards {
        case .sameAccountLogsIn: try await store.logIn("alice", adoptAnonymous: true)
        case .otherAccountAdopts: try await store.logIn("bob", adoptAnonymous: true)
        case .somebodyRecords:
            let nobody = try await EntitlementStore(
                catalog: home.catalog, local: local, remote: home.remote, account: .anonymous, host: home.machine.host)
            let receipt = try await nobody.record(.reported(Owls.nightOwl, transaction: "new"))
            for case .recording(let recording) in receipt.newFacts {
                #expect(try await recording.replica.bytes == replica(of: local))
            }
        }
    }

    /// What was adopted counts for its owner as it did for nobody.
    private func checkWhole(_ name: String, on local: MemoryBackend) async throws {
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
