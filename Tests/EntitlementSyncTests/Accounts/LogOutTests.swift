import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import Testing
import TestSupport

@Suite("Log-in and log-out on one device")
struct LogOutTests {
    private let home: Household
    private let local = MemoryBackend()
    private let isOffline = Switch()

    init() throws {
        home = try Household()
    }

    private func open(_ local: any KeyValueBackend) async throws -> EntitlementStore {
        try await home.store(
            local, remote: FaultyBackend(home.remote) { [isOffline] _ in isOffline.isSet ? .transient : nil })
    }

    @Test("Unsent facts stay with their account while another account uses the device")
    func otherAccountInBetween() async throws {
        let store = try await open(local)
        let alice = try await store.createAccount("alice")
        let bob = try await store.createAccount("bob")
        for account in [alice, bob] { #expect(try await !store.hasUnsentFacts(account)) }
        try await store.logIn("alice")
        try await store.record(.reported(Owls.couchOwl, transaction: "sent"))
        #expect(try await store.hasUnsentFacts(alice))
        try await store.sync()
        #expect(try await !store.hasUnsentFacts(alice))

        isOffline.set()
        try await store.record(.reported(Owls.nightOwl, transaction: "unsent"))
        let report = try await store.logOut()
        #expect(report.account == alice && report.hasUnsentFacts && report.failure?.kind == .sync)
        #expect(store.account.isAnonymous)
        #expect(try await store.snapshot().owned.isEmpty)
        await #expect(throws: EntitlementError.self) { try await store.logOut() }

        isOffline.set(false)
        try await store.logIn("bob")
        #expect(try await store.snapshot().owned.isEmpty)
        try await store.record(.reported(Owls.threeMonths, transaction: "bob's"))
        try await store.sync()
        #expect(try await store.hasUnsentFacts(alice))
        #expect(try await !store.logOut().hasUnsentFacts)
        #expect(try await Holdings(of: home.remote)[alice] == ["sent"])

        isOffline.set()
        #expect(try await store.logIn("alice") == alice)
        #expect(try await store.snapshot().owned == [Owls.couchOwl, Owls.nightOwl])
        #expect(try await store.hasUnsentFacts(alice))
        isOffline.set(false)
        try await store.sync()
        #expect(try await !store.hasUnsentFacts(alice))
        let remote = try await Holdings(of: home.remote)
        #expect(remote[alice] == ["sent", "unsent"] && remote[bob] == ["bob's"])
        let here = try await Holdings(of: local)
        #expect(here[alice] == ["sent", "unsent"] && here[bob] == ["bob's"] && here["anonymous"].isEmpty)
    }

    @Test("Logging in offline to an account unknown to the device fails and changes nothing")
    func unknownOffline() async throws {
        try await open(MemoryBackend()).createAccount("alice")
        isOffline.set()
        let store = try await open(local)
        let before = try await contents(of: local)
        let error = await #expect(throws: EntitlementError.self) {
            try await store.logIn("alice", adoptAnonymous: true)
        }
        #expect(error?.kind == .sync && error?.isTransient == true)
        #expect(try await contents(of: local) == before)
        isOffline.set(false)
        #expect(await kind { try await store.logIn("unknown") } == .unknownAccount)
    }

    @Test("Logging in fails if the account's entry on the remote is damaged, even if the device knows the account")
    func damagedDirectory() async throws {
        let store = try await open(local)
        try await store.createAccount("alice")
        let key = try EntryKey("accounts/alice/account")
        guard case .found(let entry) = try await home.remote.read(key).outcome else {
            Issue.record("the remote has no entry \(key)")
            return
        }
        _ = try await home.remote.write(Array(entry.value.dropLast(3)), to: key, if: .any)
        let error = await #expect(throws: EntitlementError.self) { try await store.logIn("alice") }
        #expect(error?.message.contains("the account's entry cannot be read") == true)
        #expect(store.account.isAnonymous)
    }

    @Test("Logging out does not affect an account that another store has logged in since")
    func laterLogInStays() async throws {
        let first = try await open(local)
        for name in ["alice", "bob"] { try await first.createAccount(name) }
        try await first.logIn("alice")
        let second = try await open(local)
        try await second.logIn("bob")
        #expect(try await first.logOut().account.name == "alice")
        #expect(try await EntitlementStore.accountLoggedIn(in: local)?.name == "bob")
        try await second.logOut()
        #expect(try await EntitlementStore.accountLoggedIn(in: local) == .anonymous)
    }

    @Test("Logging in replaces an unreadable session entry")
    func damagedSession() async throws {
        try await open(local).createAccount("alice")
        _ = try await local.write([1, 2, 3], to: EntryKey("device/session"), if: .any)
        #expect(await kind { try await open(local) } == .damaged)
        let store = try await home.anonymousDevice(local, remote: home.remote)
        try await store.logIn("alice")
        #expect(try await open(local).account.name == "alice")
    }

    @Test("Creating the account again on a wiped remote restores all its facts")
    func wipedRemote() async throws {
        let store = try await open(local)
        let alice = try await store.createAccount("alice")
        try await store.logIn("alice")
        try await store.record(.reported(Owls.nightOwl, transaction: "kept"))
        try await store.sync()
        for key in try await contents(of: home.remote).keys { _ = try await home.remote.delete(key, if: .any) }
        #expect(try await store.createAccount("alice") == alice)
        try await store.sync()
        let other = try await open(MemoryBackend())
        try await other.logIn("alice")
        #expect(try await other.restore().purchases.map(\.transaction.id) == ["kept"])
    }
}
