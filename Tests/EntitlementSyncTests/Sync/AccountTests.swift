import EntitlementSync
import Entitlements
import SyncCore
import Testing
import TestSupport

@Suite("Accounts on one device")
struct AccountTests {
    private let home: Household
    private let local = MemoryBackend()

    init() throws {
        home = try Household()
    }

    private func store(_ account: Account, remote: (any KeyValueBackend)? = nil) async throws -> EntitlementStore {
        try await home.store(local, remote: remote, account: account)
    }

    @Test("Accounts with a ledger are listed in byte order of their names, the anonymous one first")
    func listing() async throws {
        let names = ["a", "a/b", "a%2Fb", "%", "..", "🦉", "caf\u{E9}", "cafe\u{301}", "anonymous/ledger", "A"]
        for name in names { try await store(Account(name)).record(.reported(Owls.nightOwl)) }
        try await store(.anonymous).record(.reported(Owls.nightOwl))
        let listed = try await EntitlementStore.accounts(in: local)
        let sorted = names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
        #expect(listed.map { $0.name.map { Array($0.utf8) } } == [nil] + sorted.map { Array($0.utf8) })
    }

    @Test("An account with only device-local units or pending requests is listed too")
    func deviceOnly() async throws {
        try await store(Account("units")).record(.reported(Owls.randomOwls))
        try await store(Account("request")).record(.deferred(Owls.nightOwl))
        #expect(try await EntitlementStore.accounts(in: local).map(\.name) == ["request", "units"])
    }

    @Test("Incarnations of one account are separate accounts and listed in order")
    func incarnations() async throws {
        for incarnation in ["2", "1", "3"] {
            try await store(Account("alice", incarnation: incarnation)).record(.reported(Owls.nightOwl))
        }
        let listed = try await EntitlementStore.accounts(in: local)
        #expect(listed.map(\.incarnation) == ["1", "2", "3"])
        #expect(try await store(Account("alice")).snapshot().owned.isEmpty)
    }

    @Test("An empty device lists no accounts, and reading an account does not create it")
    func empty() async throws {
        #expect(try await store(home.alice).snapshot().owned.isEmpty)
        #expect(try await EntitlementStore.accounts(in: local).isEmpty)
    }

    @Test("Accounts beyond the first page are listed")
    func manyAccounts() async throws {
        for number in 0..<1_010 {
            let key = try EntryKey("accounts/\(number)/initial/ledger")
            _ = try await local.write([0], to: key, if: .absent)
        }
        #expect(try await EntitlementStore.accounts(in: local).count == 1_010)
    }

    @Test("Accounts with similar names never see each other's facts, locally or on a shared remote")
    func separate() async throws {
        let pairs = [("a/b", "a"), ("caf\u{E9}", "cafe\u{301}"), ("a%2Fb", "a/b"), ("Alice", "alice")]
        for (buyer, other) in pairs {
            let buying = try await store(Account(buyer), remote: home.remote)
            try await buying.record([.reported(Owls.nightOwl), .reported(Owls.randomOwls)])
            try await buying.sync()
            let reading = try await store(Account(other + "'s friend"), remote: home.remote)
            try await reading.sync()
            #expect(try await reading.localLedgers().account.isEmpty, "\(buyer)")
            #expect(try await reading.snapshot().owned.isEmpty, "\(buyer)")
        }
        let names = ["e\u{301}", "\u{E9}"]
        try await store(Account(names[0]), remote: home.remote).record(.reported(Owls.couchOwl))
        try await store(Account(names[0]), remote: home.remote).sync()
        #expect(try await store(Account(names[1]), remote: home.remote).restore().purchases.isEmpty)
    }

    @Test("Anonymous purchases belong to no account and stay anonymous when an account signs in")
    func anonymous() async throws {
        try await store(.anonymous).record(.reported(Owls.nightOwl))
        #expect(try await store(home.alice).snapshot().owned.isEmpty)
        #expect(try await store(.anonymous).snapshot().owned == [Owls.nightOwl])
    }
}
