import Entitlements
import HTTPTypes
import ServiceTestSupport
import SyncCore
import Synchronization
import SyncProtocol
import SyncService
import Testing

@Suite("Erasing an account")
struct ErasureTests {
    private let store = HookedBackend()
    private let clock = TestClock(1_800_000_000_000)
    private let service: EntitlementService
    private let alice: AccountOwner

    init() async throws {
        service = try await .open(store, clock: clock)
        alice = AccountOwner(service)
    }

    private func put(_ key: String, token: String?) async -> Int {
        await service.ask(.put, "/v1/kv/" + key, token: token, [.ifNoneMatch: "*"], body: [1]).status
    }

    /// The account's keys that are left, except for its entry in the directory.
    private func left() async throws -> [String] {
        try await store.keys().filter { $0.hasPrefix("accounts/alice/") && $0 != "accounts/alice/account" }
    }

    @Test("An erasure waits for writes that were admitted before it, which it refuses, and admits no later ones")
    func inFlight() async throws {
        let reply = await alice.signUp()
        let home = "accounts/alice/\(reply["incarnation"] ?? "")/"
        let gate = store.pause { $0.text == home + "slow" }
        let (erased, written) = await withTaskGroup(of: (String, Int).self) { group in
            group.addTask { ("write", await put(home + "slow", token: reply["access_token"])) }
            await gate.reached.wait()
            group.addTask { ("erase", await alice.erase(token: reply["access_token"]).status) }
            // Gives an erasure that does not wait time to finish.
            for _ in 0..<10_000 { await Task.yield() }
            #expect(await put(home + "late", token: reply["access_token"]) == 403)
            gate.open()
            var statuses: [String: Int] = [:]
            for await (name, status) in group { statuses[name] = status }
            return (statuses["erase"], statuses["write"])
        }
        #expect(erased == 204 && written == 403)
        #expect(try await left() == [home + "ledger"])
    }

    @Test("An erasure that was interrupted at any step blocks writes and can be repeated with the password")
    func interrupted() async throws {
        var interruptions = 0
        for step in 1...100 {
            // Lets wrong guesses expire.
            clock.advance(seconds: 301)
            let reply = await alice.signUp()
            #expect(reply.status == 201)
            let home = "accounts/alice/\(reply["incarnation"] ?? "")/"
            for name in ["a", "b"] { #expect(await put(home + name, token: reply["access_token"]) == 200) }
            store.fail(after: step - 1)
            let status = await alice.erase(token: reply["access_token"]).status
            store.before(nil)
            if status == 204 { break }
            interruptions += 1
            #expect(status == 503)
            // Once the erasure has marked the account, other writes are refused.
            #expect(await put(home + "c", token: reply["access_token"]) == (step <= 2 ? 200 : 403), "\(step)")
            let stranger = AccountOwner(service, password: "wrong password")
            #expect(await stranger.erase(token: reply["access_token"]).status == 400)
            // Another device with the password can repeat it as well.
            let token = step.isMultiple(of: 2) ? await alice.logIn()["access_token"] : reply["access_token"]
            #expect(await alice.erase(token: token).status == 204, "\(step)")
            #expect(await alice.logIn().status == 400)
            #expect(try await left().filter { $0.hasPrefix(home) } == [home + "ledger"], "\(step)")
        }
        #expect(interruptions == 9, "schedule, record, schedule, marker, name, two keys, directory, record")
    }

    private func record(_ transactions: [String], as reply: Reply) async -> Reply {
        let facts = transactions.map { id in
            Fact.purchase(
                Purchase(
                    transaction: TransactionReference(id: TransactionID(id)), product: "owl", terms: nil,
                    date: Timestamp(milliseconds: clock.now), quantity: 1,
                    stamp: Stamp(logicalTime: LogicalTime(rawValue: 1))))
        }
        return await service.ask(
            .put, "/v1/kv/accounts/\(reply["account"] ?? "")/\(reply["incarnation"] ?? "")/ledger",
            token: reply["access_token"], [.ifNoneMatch: "*"], body: LedgerDocumentBytes.of(facts))
    }

    private func owners() async throws -> [String] { try await store.keys().filter { $0.hasPrefix("owners/") } }

    @Test("An erasure frees the account's own claims and keeps those of other accounts")
    func claims() async throws {
        let reply = await alice.signUp()
        let bob = AccountOwner(service, "bob")
        let bobs = await bob.signUp()
        #expect(await record(["1"], as: bobs).status == 200)
        #expect(await record(["1", "2", "3"], as: reply).status == 200)
        #expect(try await owners().count == 3)
        #expect(await alice.erase(token: reply["access_token"]).status == 204)
        #expect(try await owners() == ["owners/reported/production/1"])
        let anew = await AccountOwner(service, password: "another person").signUp()
        #expect(await record(["1", "2"], as: anew).status == 200)
        let decisions = "/v1/kv/accounts/alice/\(anew["incarnation"] ?? "")/decisions"
        let decided = await service.ask(.get, decisions, token: anew["access_token"])
        let ledger = try LedgerDocument(decoding: decided.body).ledger
        #expect(ledger.count == 1, "the first still belongs to bob, the second to the new account")
    }

    @Test("A ledger that cannot be read is erased nevertheless, and the error is reported")
    func damaged() async throws {
        let reply = await alice.signUp()
        let key = try EntryKey("accounts/alice/\(reply["incarnation"] ?? "")/ledger")
        _ = try await store.write([1, 2, 3], to: key, if: .any)
        let errors = Mutex<[String]>([])
        let service = try await EntitlementService.open(
            store, clock: clock, onError: { error in errors.withLock { $0.append(error.message) } })
        #expect(await AccountOwner(service).erase(token: reply["access_token"]).status == 204)
        let told = errors.withLock { $0 }
        #expect(told.count == 1 && told[0].hasPrefix("the claims of an erased ledger stay"))
        let marker = await service.ask(.get, "/v1/kv/" + key.text, token: reply["access_token"])
        #expect(marker.body == LedgerDocumentBytes.erased)
    }
}
