import EntitlementSync
import Entitlements
import SyncCore
import Testing

@Suite("Accounts in one store")
struct AccountTests {
    private let home: Household
    private let local = MemoryBackend()

    init() throws {
        home = try Household()
    }

    private func store(_ account: Account, remote: (any KeyValueBackend)? = nil) async throws -> EntitlementStore {
        try await EntitlementStore(
            catalog: home.catalog, local: local, remote: remote, account: account, host: home.machine.host)
    }

    @Test("All that have a ledger are listed by name, byte by byte, nobody first, whatever they are called")
    func listing() async throws {
        let names = ["a", "a/b", "a%2Fb", "%", "..", "🦉", "caf\u{E9}", "cafe\u{301}", "anonymous/ledger", "A"]
        for name in names { try await store(Account(name)).record(.reported(Owls.nightOwl)) }
        try await store(.anonymous).record(.reported(Owls.nightOwl))
        let listed = try await EntitlementStore.accounts(in: local)
        let sorted = names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
        #expect(listed.map { $0.name.map { Array($0.utf8) } } == [nil] + sorted.map { Array($0.utf8) })
    }

    @Test("One that has only units or requests on this device is listed too")
    func deviceOnly() async throws {
        try await store(Account("units")).record(.reported(Owls.randomOwls))
        try await store(Account("request")).record(.deferred(Owls.nightOwl))
        #expect(try await EntitlementStore.accounts(in: local).map(\.name) == ["request", "units"])
    }

    @Test("Two lives of one account are two accounts, listed in order")
    func incarnations() async throws {
        for incarnation in ["2", "1", "3"] {
            try await store(Account("alice", incarnation: incarnation)).record(.reported(Owls.nightOwl))
        }
        let listed = try await EntitlementStore.accounts(in: local)
        #expect(listed.map(\.incarnation) == ["1", "2", "3"])
        #expect(try await store(Account("alice")).snapshot().owned.isEmpty)
    }

    @Test("An empty store lists none, and asking makes none")
    func empty() async throws {
        #expect(try await store(home.alice).snapshot().owned.isEmpty)
        #expect(try await EntitlementStore.accounts(in: local).isEmpty)
    }

    @Test("More than a page of accounts are all listed")
    func manyAccounts() async throws {
        for number in 0..<1_010 {
            let key = try EntryKey("accounts/\(number)/initial/ledger")
            _ = try await local.write([0], to: key, if: .absent)
        }
        #expect(try await EntitlementStore.accounts(in: local).count == 1_010)
    }

    @Test("Accounts never see each other's facts, here or on a shared remote, however alike their names")
    func separate() async throws {
        let pairs = [("a/b", "a"), ("caf\u{E9}", "cafe\u{301}"), ("a%2Fb", "a/b"), ("Alice", "alice")]
        for (buyer, other) in pairs {
            let buying = try await store(Account(buyer), remote: home.remote)
            try await buying.record([.reported(Owls.nightOwl), .reported(Owls.randomOwls)])
            try await buying.sync()
            let looking = try await store(Account(other + "'s friend"), remote: home.remote)
            try await looking.sync()
            #expect(try await looking.localLedgers().account.isEmpty, "\(buyer)")
            #expect(try await looking.snapshot().owned.isEmpty, "\(buyer)")
        }
        let names = ["e\u{301}", "\u{E9}"]
        try await store(Account(names[0]), remote: home.remote).record(.reported(Owls.couchOwl))
        try await store(Account(names[0]), remote: home.remote).sync()
        #expect(try await store(Account(names[1]), remote: home.remote).restore().purchases.isEmpty)
    }

    @Test("What nobody bought is not an account's, and stays when somebody signs in")
    func anonymous() async throws {
        try await store(.anonymous).record(.reported(Owls.nightOwl))
        #expect(try await store(home.alice).snapshot().owned.isEmpty)
        #expect(try await store(.anonymous).snapshot().owned == [Owls.nightOwl])
    }
}
