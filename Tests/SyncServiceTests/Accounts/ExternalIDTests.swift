import EntitlementSync
import HTTPTypes
import ServiceTestSupport
import SyncCore
import Testing

@testable import SyncService

@Suite("External ids of accounts")
struct ExternalIDTests {
    private let store = HookedBackend()
    private let service: EntitlementService
    private let ids: ExternalIDs

    init() async throws {
        service = try await .open(store)
        ids = ExternalIDs(records: RecordStore(backend: store))
    }

    private func signUp(_ name: String) async throws -> (account: Account, token: String?) {
        let reply = await AccountOwner(service, name).signUp()
        return (try Account(name, incarnation: try #require(reply["incarnation"])), reply["access_token"])
    }

    private func status(_ body: () async throws -> Void) async throws -> HTTPResponse.Status? {
        do { try await body() } catch let error as RequestError { return error.status }
        return nil
    }

    /// The keys and values of the store that contain `text`.
    private func traces(of text: String) async throws -> [String] {
        var traces: [String] = []
        for key in try await store.keys() {
            guard case .found(let entry) = try await store.read(try EntryKey(key)).outcome else { continue }
            if key.contains(text) || String(decoding: entry.value, as: UTF8.self).contains(text) { traces.append(key) }
        }
        return traces
    }

    @Test("An account has at most one id, which finds it until it is replaced or detached")
    func one() async throws {
        let (alice, _) = try await signUp("alice")
        #expect(try await ids.resolve("u/1%") == nil)
        try await ids.attach("u/1%", to: alice)
        try await ids.attach("u/1%", to: alice)
        #expect(try await ids.resolve("u/1%") == alice)
        #expect(try await ids.ids(of: [alice]) == [alice: "u/1%"])
        try await ids.attach("u2", to: alice)
        #expect(try await ids.resolve("u/1%") == nil)
        #expect(try await ids.resolve("u2") == alice)
        #expect(try await traces(of: "1%25") == [])
        #expect(try await ids.detach(alice) == "u2")
        #expect(try await ids.detach(alice) == nil)
        #expect(try await ids.resolve("u2") == nil)
        #expect(try await traces(of: "u2") == [])
    }

    @Test("Ids are compared as bytes, and have 1 to 255 of them without control characters")
    func bytes() async throws {
        let (alice, _) = try await signUp("alice")
        let (bob, _) = try await signUp("bob")
        try await ids.attach("\u{e9}A", to: alice)
        try await ids.attach("e\u{301}A", to: bob)
        #expect(try await ids.resolve("\u{e9}A") == alice)
        #expect(try await ids.resolve("e\u{301}A") == bob)
        #expect(try await ids.resolve("\u{e9}a") == nil)
        // Both spellings after one another, also one that begins with a mark.
        try await ids.attach("\u{301}x", to: alice)
        try await ids.attach("\u{e9}A", to: alice)
        let known = try await ids.ids(of: [alice, bob]).mapValues { Array($0.utf8) }
        #expect(known == [alice: Array("\u{e9}A".utf8), bob: Array("e\u{301}A".utf8)])
        try await ids.attach(String(repeating: "%", count: 255), to: alice)
        for wrong in ["", String(repeating: "x", count: 256), "a\nb", "a\u{85}b", "\0"] {
            #expect(try await status { try await ids.attach(wrong, to: alice) } == .badRequest)
            #expect(try await ids.resolve(wrong) == nil)
        }
    }

    @Test("An id that another account has is refused, and the refusal names that account and what to do")
    func conflict() async throws {
        let (alice, _) = try await signUp("alice")
        let (guest, _) = try await signUp("guest-0123456789abcdef0123456789abcdef")
        try await ids.attach("u1", to: guest)
        let error = await #expect(throws: RequestError.self) { try await ids.attach("u1", to: alice) }
        #expect(error?.status == .conflict)
        #expect(error?.detail.contains("belongs to the account \"\(guest)\"; transfer") == true)
        #expect(error?.detail.contains("detach") == true)
        #expect(try await ids.resolve("u1") == guest)
        #expect(try await ids.ids(of: [alice]) == [:])
        _ = try await ids.detach(guest)
        try await ids.attach("u1", to: alice)
        #expect(try await ids.resolve("u1") == alice)
    }

    @Test("An erasure leaves no trace of an id, and a new account of the name does not inherit it")
    func erasure() async throws {
        let (alice, token) = try await signUp("alice")
        try await ids.attach("former-user", to: alice)
        try await ids.attach("user-4711", to: alice)
        #expect(await AccountOwner(service).erase(token: token).status == 204)
        #expect(try await traces(of: "user") == [])
        #expect(try await status { try await ids.attach("user-4711", to: alice) } == .notFound)
        #expect(try await traces(of: "user") == [])
        let (anew, _) = try await signUp("alice")
        #expect(try await ids.resolve("user-4711") == nil)
        #expect(try await ids.ids(of: [anew]) == [:])
        let (bob, _) = try await signUp("bob")
        try await ids.attach("user-4711", to: bob)
        #expect(try await ids.resolve("user-4711") == bob)
    }

    @Test("A crash at any write blocks no id, and a repetition completes the attachment")
    func crashes() async throws {
        let (alice, _) = try await signUp("alice")
        let (bob, _) = try await signUp("bob")
        var crashes = 0
        for step in 0... {
            try await ids.attach("x-old", to: alice)
            store.fail(after: step)
            let isCrashed = await (try? ids.attach("x-new", to: alice)) == nil
            store.before(nil)
            guard isCrashed else { break }
            crashes += 1
            let known = try await [ids.resolve("x-old"), ids.resolve("x-new")].compactMap { $0 }
            #expect(known == [alice], "\(step)")
            if step.isMultiple(of: 2) {
                try await ids.attach("x-new", to: alice)
                #expect(try await ids.ids(of: [alice]) == [alice: "x-new"], "\(step)")
            } else {
                _ = try await ids.detach(alice)
                try await ids.attach("x-new", to: bob)
                #expect(try await ids.resolve("x-new") == bob, "\(step)")
                _ = try await ids.detach(bob)
            }
            #expect(try await ids.resolve("x-old") == nil, "\(step)")
            _ = try await ids.detach(alice)
        }
        #expect(crashes >= 3)
        #expect(try await traces(of: "x-old") == [])
    }
}

@Suite("External ids at two servers")
struct ExternalIDRaceTests {
    private let store = MemoryBackend()
    private let line: StoreLine
    private let service: EntitlementService
    private let first: ExternalIDs
    private let second: ExternalIDs

    init() async throws {
        line = StoreLine(store)
        service = try await .open(store)
        first = ExternalIDs(records: RecordStore(backend: line))
        second = ExternalIDs(records: RecordStore(backend: store))
    }

    private func signUp(_ name: String) async throws -> (account: Account, token: String?) {
        let reply = await AccountOwner(service, name).signUp()
        return (try Account(name, incarnation: try #require(reply["incarnation"])), reply["access_token"])
    }

    /// Attaches `id` to `account` at the first server, and runs `body` before one of its calls to the store.
    ///
    /// - Returns: `true` if it was attached; `nil` if there is no such call.
    private func attach(
        _ id: String, to account: Account, at number: Int, _ body: @escaping @Sendable () async -> Void
    ) async -> Bool? {
        let (calls, reached) = (Counter(), Event())
        let hook: @Sendable (EntryKey) async -> Void = { _ in
            guard calls.next() == number else { return }
            reached.happen()
            await body()
        }
        line.beforeReading(hook)
        line.beforeWriting(hook)
        defer {
            line.beforeReading(nil)
            line.beforeWriting(nil)
        }
        let isDone = (try? await first.attach(id, to: account)) != nil
        return reached.hasHappened ? isDone : nil
    }

    @Test("One id for two accounts: exactly one of them gets it")
    func twoAccounts() async throws {
        let (alice, bob) = (try await signUp("alice").account, try await signUp("bob").account)
        for number in 1... {
            let other = Event()
            let isFirst = await attach("u", to: alice, at: number) { [second] in
                if (try? await second.attach("u", to: bob)) != nil { other.happen() }
            }
            guard let isFirst else { break }
            #expect(isFirst != other.hasHappened, "\(number)")
            let owner = isFirst ? alice : bob
            #expect(try await first.resolve("u") == owner, "\(number)")
            #expect(try await second.ids(of: [alice, bob]) == [owner: "u"], "\(number)")
            for account in [alice, bob] { _ = try await second.detach(account) }
            #expect(number < 100)
        }
    }

    @Test("Two ids for one account: exactly one of them counts, and nothing remains of the other")
    func twoIDs() async throws {
        let alice = try await signUp("alice").account
        for number in 1... {
            let isFirst = await attach("u", to: alice, at: number) { [second] in
                _ = try? await second.attach("v", to: alice)
            }
            guard let isFirst else { break }
            #expect(isFirst, "\(number)")
            let known = try await [second.resolve("u"), second.resolve("v")].compactMap { $0 }
            #expect(known == [alice], "\(number)")
            let left = try await store.list(prefix: ExternalIDs.prefix, after: nil, limit: 9).outcome.items
            #expect(left.count == 1, "\(number)")
            _ = try await second.detach(alice)
        }
    }

    @Test("An erasure at another server leaves no record of an id that is being attached")
    func erased() async throws {
        for number in 1... {
            let (alice, token) = try await signUp("alice")
            let isFirst = await attach("u", to: alice, at: number) { [service] in
                _ = await AccountOwner(service).erase(token: token)
            }
            guard isFirst != nil else { break }
            #expect(try await second.resolve("u") == nil, "\(number)")
            let left = try await store.list(prefix: ExternalIDs.prefix, after: nil, limit: 9).outcome.items
            #expect(left.isEmpty, "\(number)")
        }
    }
}
