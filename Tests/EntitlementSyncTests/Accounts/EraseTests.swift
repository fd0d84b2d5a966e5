import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import Testing
import TestSupport

@Suite("Account erasure and re-creation")
struct EraseTests {
    private let home: Household
    private let phone = MemoryBackend()
    private let tablet = MemoryBackend()

    init() throws {
        home = try Household()
    }

    private func open(_ local: any KeyValueBackend, remote: (any KeyValueBackend)? = nil) async throws
        -> EntitlementStore
    {
        try await home.store(local, remote: remote ?? home.remote)
    }

    private static func secret(_ text: String) -> Evidence {
        .reported(Owls.nightOwl, transaction: TransactionID("secret-\(text)"))
    }

    /// A store on which Alice has logged in, recorded a purchase and units, and synced.
    private func used(_ local: any KeyValueBackend, _ name: String) async throws -> EntitlementStore {
        let store = try await open(local)
        try await store.createAccount("alice")
        try await store.logIn("alice")
        try await store.record([
            Self.secret(name), .reported(Owls.randomOwls, transaction: TransactionID("secret-units-\(name)")),
        ])
        try await store.sync()
        return store
    }

    /// Checks that no value of the backends contains any data of the account.
    private func expectNothing(_ backends: [any KeyValueBackend], _ comment: String = "") async throws {
        for backend in backends {
            for text in ["secret", "NightOwl", "RandomOwls"] {
                #expect(try await !holds(text, in: backend), "\(text) in \(backend.label) \(comment)")
            }
        }
    }

    @Test("A device that returns after an erasure learns of it and brings nothing back")
    func oldDevice() async throws {
        let old = try await used(tablet, "tablet")
        let store = try await used(phone, "phone")
        let alice = store.account
        try await old.record(Self.secret("unsent"))
        try await store.eraseAccount("alice")
        #expect(store.account.isAnonymous)
        try await expectNothing([phone, home.remote])
        #expect(try await holds("secret-unsent", in: tablet))

        let events = old.events
        #expect(await kind { try await old.sync() } == .accountErased)
        #expect(old.account.isAnonymous)
        #expect(await events.take(2).map(line) == ["erased alice", "account alice > anonymous"])
        try await expectNothing([phone, tablet, home.remote])
        #expect(try await EntitlementStore.accountLoggedIn(in: tablet) == .anonymous)
        for store in [store, old] {
            #expect(try await !store.hasUnsentFacts(alice))
            #expect(await kind { try await store.logIn("alice") } == .unknownAccount)
        }
        let late = try await home.store(tablet, account: alice)
        for evidence in [Self.secret("late"), .reported(Owls.randomOwls)] {
            #expect(await kind { try await late.record(evidence) } == .accountErased)
        }
    }

    @Test("An erasure interrupted at any local or remote call completes when repeated", arguments: [false, true])
    func interrupted(isDone: Bool) async throws {
        var step = 0
        while true {
            let stage = try EraseTests()
            _ = try await stage.used(stage.phone, "phone")
            let (calls, crash) = (Counter(), step)
            let plan = FaultyBackend.Plan { _ in
                let number = calls.next()
                return number < crash ? nil : number == crash && isDone ? .lostAnswer : .permanent(.unavailable)
            }
            do {
                try await stage.open(
                    FaultyBackend(stage.phone, plan: plan), remote: FaultyBackend(stage.home.remote, plan: plan)
                ).eraseAccount("alice")
            } catch {}
            let isThrough = calls.value <= step
            let store = try await stage.open(stage.phone)
            do { try await store.eraseAccount("alice") } catch {
                #expect(error.kind == .unknownAccount, "step \(step)")
            }
            try await stage.expectNothing([stage.phone, stage.home.remote], "step \(step), done: \(isDone)")
            #expect(try await stage.open(stage.phone).account.isAnonymous, "step \(step)")
            let unknown = await #expect(throws: EntitlementError.self) { try await store.logIn("alice") }
            #expect(unknown?.kind == .unknownAccount, "step \(step)")
            if isThrough { break }
            step += 1
        }
        #expect(step > 15)
    }

    @Test("Learning of an erasure can be interrupted at any call and still completes", arguments: [false, true])
    func interruptedLearning(isDone: Bool) async throws {
        var step = 0
        while true {
            let stage = try EraseTests()
            _ = try await stage.used(stage.tablet, "tablet")
            try await stage.used(stage.phone, "phone").eraseAccount("alice")
            let crashing = crashing(stage.tablet, atCall: step, isDone: isDone)
            do { try await stage.open(crashing).sync() } catch {}
            let isThrough = crashing.callCount <= step
            let store = try await stage.open(stage.tablet)
            try await store.createAccount("bob")
            if store.account.isAnonymous {
                try await store.logIn("bob")
            } else {
                await #expect(throws: EntitlementError.self) { try await store.sync() }
            }
            try await stage.expectNothing([stage.tablet, stage.phone, stage.home.remote], "step \(step)")
            #expect(store.account.name != "alice", "step \(step)")
            if isThrough { break }
            step += 1
        }
        #expect(step > 10)
    }

    @Test("A re-created account has nothing of the erased one until its evidence is recorded again")
    func recreated() async throws {
        let store = try await used(phone, "phone")
        let first = store.account
        let old = try await open(tablet)
        try await old.logIn("alice")
        try await store.flag(Owls.couchOwl)
        try await store.sync()
        try await old.sync()
        #expect(try await old.snapshot().owned == [Owls.couchOwl, Owls.nightOwl])
        try await store.eraseAccount("alice")
        let second = try await store.createAccount("alice")
        #expect(second != first && second.name == "alice")

        // The old device does not know of the erasure, logs in, and gets the new incarnation.
        try await old.record(Self.secret("unsent"))
        #expect(try await old.logIn("alice") == second)
        try await old.sync()
        #expect(try await old.snapshot().owned.isEmpty)
        try await expectNothing([phone, tablet, home.remote])

        try await store.logIn("alice")
        try await store.record(
            .reported(
                Owls.nightOwl, transaction: "proof", store: .appStore, signedAt: date("2026-01-10")))
        try await store.sync()
        for store in [store, old] {
            try await store.sync()
            #expect(try await store.snapshot().owned == [Owls.nightOwl])
        }
        #expect(try await Holdings(of: home.remote)[first].isEmpty)
    }

    @Test(
        "A device that knows of an erasure repeats it on a remote that was wiped or restored from a backup",
        arguments: [false, true])
    func backup(isWiped: Bool) async throws {
        let store = try await used(phone, "phone")
        let first = store.account
        let backup = try await contents(of: home.remote)
        try await store.eraseAccount("alice")
        for key in try await contents(of: home.remote).keys { _ = try await home.remote.delete(key, if: .any) }
        if !isWiped {
            for (key, entry) in backup { _ = try await home.remote.write(entry.value, to: key, if: .absent) }
            #expect(try await holds("secret", in: home.remote))
        }
        try await store.record(.reported(Owls.couchOwl, transaction: "unadopted"))
        #expect(await kind { try await store.logIn("alice", adoptAnonymous: true) } == .unknownAccount)
        try await expectNothing([home.remote])
        #expect(try await Holdings(of: home.remote).erased == [Holdings.name(first)])
        #expect(try await Holdings(of: phone)["anonymous"] == ["unadopted"], "an erased account adopts nothing")
        #expect(try await store.createAccount("alice") != first)
    }

    @Test("Devices that create an account concurrently, also after an erasure, create exactly one")
    func createdAtOnce() async throws {
        for seed in 0..<60 as Range<UInt64> {
            var generator = SeededGenerator(seed: seed)
            let remote = MemoryBackend()
            if seed % 2 == 1 {
                let store = try await open(MemoryBackend(), remote: remote)
                try await store.createAccount("alice")
                try await store.eraseAccount("alice")
            }
            let salt = generator.next()
            let scheduler = CallScheduler { turn, waiting in
                var generator = SeededGenerator(seed: salt &+ UInt64(turn))
                return waiting.randomElement(using: &generator) ?? waiting[0]
            }
            let made = Accounts()
            try await scheduler.run(
                over: remote,
                (0..<3).map { _ in
                    { remote in
                        let account = try await open(MemoryBackend(), remote: remote).createAccount("alice")
                        made.insert(account)
                    }
                })
            #expect(made.all.count == 1, "seed \(seed)")
            #expect(try await open(MemoryBackend(), remote: remote).logIn("alice") == made.all.first)
        }
    }
}
