import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("A running store follows log-ins on its device", .timeLimit(.minutes(15)))
struct FollowTests {
    private let home: Household
    private let local = MemoryBackend()

    init() throws {
        home = try Household(pauses: .endWhenAdvanced)
    }

    private func open(_ account: Account? = nil) async throws -> EntitlementStore {
        try await home.store(local, remote: home.remote, account: account)
    }

    @Test("Log-in and log-out by another store object change the events, the snapshots and the owner of new facts")
    func follows() async throws {
        let other = try await open()
        try await other.createAccount("alice")
        try await other.logIn("alice")
        try await other.record(.reported(Owls.nightOwl, transaction: "alice's"))
        try await other.sync()
        try await other.logOut()

        let store = try await open()
        let events = store.events
        let snapshots = try await store.snapshots()
        try await whileRunning(store) {
            try await other.logIn("alice")
            for await snapshot in snapshots where snapshot.owned == [Owls.nightOwl] { break }
            #expect(store.account.name == "alice")
            try await store.record(.reported(Owls.couchOwl, transaction: "hers, too"))
            #expect(try await Holdings(of: local)[store.account] == ["alice's", "hers, too"])

            try await other.logOut()
            for await snapshot in snapshots where snapshot.owned.isEmpty { break }
            #expect(store.account.isAnonymous)
        }
        let lines = await events.lines(upTo: "account alice > anonymous")
        #expect(lines.first == "account anonymous > alice")
        #expect(lines.contains("purchased hers, too"))
        #expect(!lines.contains { $0.hasPrefix("restored") || $0.hasPrefix("failed") }, "\(lines)")
    }

    @Test("A store that was opened for an account does not follow log-ins")
    func named() async throws {
        let other = try await open()
        try await other.createAccount("alice")
        let store = try await open(.anonymous)
        try await whileRunning(store) {
            var pauses = home.machine.pauses.makeAsyncIterator()
            _ = await pauses.next()
            try await other.logIn("alice")
            home.machine.advance(by: .seconds(60))
            _ = await pauses.next()
            #expect(store.account.isAnonymous)
        }
    }

    @MainActor
    @Test("The rows of a shop page switch to the account when another store object logs in")
    func model() async throws {
        let other = try await open()
        try await other.createAccount("alice")
        try await other.logIn("alice")
        try await other.record(.reported(Owls.nightOwl))
        try await other.logOut()
        let store = try await open()
        let model = EntitlementModel(store)
        let snapshots = try await store.snapshots()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await store.run() }
            group.addTask { await model.run() }
            try await other.logIn("alice")
            for await snapshot in snapshots where snapshot.owned == [Owls.nightOwl] { break }
            while model.rows.first(where: { $0.product.id == Owls.nightOwl })?.offer != .owned { await Task.yield() }
            #expect(model.snapshot?.context.isSignedIn == true)
            group.cancelAll()
        }
    }
}
