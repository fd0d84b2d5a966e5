import EntitlementSync
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import Testing

@testable import SyncService

@Suite("Erasing an account while another server writes")
struct ManyServersErasureTests {
    private let servers: TwoServers
    private let alice: AccountOwner

    init() async throws {
        servers = try await TwoServers()
        alice = AccountOwner(servers.first)
    }

    /// Repeats the erasures that are due, as a server does that has been running for two periods.
    private func sweep(_ service: EntitlementService) async {
        let seen = await service.sweeper.sweep([:])
        #expect(await service.sweeper.sweep(seen).isEmpty)
    }

    @Test("A write that another server admitted before the erasure is refused and leaves nothing", arguments: [1, 3])
    func inFlight(_ count: Int) async throws {
        let reply = await alice.signUp()
        let token = reply["access_token"]
        let home = "accounts/alice/\(reply["incarnation"] ?? "")/"
        let gate = Gate()
        servers.lines.1.beforeWriting { key in if key.text.hasPrefix(home) { await gate.pass() } }
        gate.close()
        let operations = try (0..<count).map {
            BatchOperation.write(WriteRequest(try EntryKey(home + "\($0)"), value: [1], if: .absent))
        }
        let (erased, written) = await withTaskGroup(of: Reply?.self) { group in
            group.addTask {
                if count == 1 {
                    return await servers.second.ask(.put, "/v1/kv/\(home)0?if=any", token: token, body: [1])
                }
                return await servers.second.ask(
                    .post, BatchBody.path, token: token, [.contentType: BatchBody.mediaType],
                    body: BatchBody.bytes(of: operations))
            }
            await gate.reached.wait()
            let erased = await alice.erase(token: token).status
            gate.open()
            return (erased, await group.next() ?? nil)
        }
        #expect(erased == 204)
        #expect(written?.status == (count == 1 ? 403 : 200))
        if count > 1 {
            let results = try BatchBody.results(written?.body ?? [])
            let statuses = results.map { if case .problem(let problem) = $0 { problem.status } else { 200 } }
            #expect(statuses == Array(repeating: 403, count: count))
        }
        #expect(try await servers.keys(home) == [home + "ledger"])
    }

    @Test("The second sweep of any server deletes the leftovers of a crashed one")
    func leftBehind() async throws {
        let reply = await alice.signUp()
        let home = "accounts/alice/\(reply["incarnation"] ?? "")/"
        #expect(await alice.erase(token: reply["access_token"]).status == 204)
        _ = try await servers.store.write([1], to: EntryKey(home + "late"), if: .absent)
        #expect(try await servers.keys("server/erasures/").count == 1)
        await sweep(servers.second)
        #expect(try await servers.keys(home) == [home + "ledger"])
        #expect(try await servers.keys("server/erasures/").isEmpty)
    }

    @Test("An erasure that fails does not keep others from being swept")
    func damaged() async throws {
        var homes: [String] = []
        for name in ["alice", "zoe"] {
            let owner = AccountOwner(servers.first, name)
            let reply = await owner.signUp()
            homes.append("accounts/\(name)/\(reply["incarnation"] ?? "")/")
            #expect(await owner.erase(token: reply["access_token"]).status == 204)
        }
        for home in homes { _ = try await servers.store.write([1], to: EntryKey(home + "late"), if: .absent) }
        let record = try EntryKey("server/accounts/alice")
        let held = try await servers.store.read(record).outcome
        _ = try await servers.store.write([0xff], to: record, if: .any)
        let seen = await servers.second.sweeper.sweep([:])
        let rest = await servers.second.sweeper.sweep(seen)
        #expect(rest.keys.map(\.text).allSatisfy { $0.hasPrefix("server/erasures/alice/") } && rest.count == 1)
        #expect(try await servers.keys(homes[1]) == [homes[1] + "ledger"])
        guard case .found(let entry) = held else {
            Issue.record("the record of alice is absent")
            return
        }
        _ = try await servers.store.write(entry.value, to: record, if: .any)
        #expect(await servers.second.sweeper.sweep(rest).isEmpty)
        #expect(try await servers.keys(homes[0]) == [homes[0] + "ledger"])
    }

    @Test("A late log-in to an erased account does not take the directory entry from its successor")
    func lateLogIn() async throws {
        _ = await alice.signUp()
        let gate = Gate()
        servers.lines.1.beforeReading { key in if key.text == "accounts/alice/account" { await gate.pass() } }
        gate.close()
        let late = AccountOwner(servers.second)
        let next = await withTaskGroup(of: Reply.self) { group in
            group.addTask { await late.logIn() }
            await gate.reached.wait()
            #expect(await alice.erase(token: alice.logIn()["access_token"]).status == 204)
            let next = await AccountOwner(servers.first, password: "another person").signUp()
            gate.open()
            _ = await group.next()
            return next
        }
        await sweep(servers.first)
        let directory = AccountDirectory(backend: servers.store)
        let account = try Account("alice", incarnation: try #require(next["incarnation"]))
        #expect(try await directory.isKnown(account))
    }

    @Test("An erasure whose server crashes at any step is finished by another server")
    func crashes() async throws {
        for step in 1...20 {
            let name = "alice\(step)"
            let owner = AccountOwner(servers.first, name)
            let reply = await owner.signUp()
            let home = "accounts/\(name)/\(reply["incarnation"] ?? "")/"
            for key in ["a", "b"] { #expect(await servers.first.put(home + key, token: reply["access_token"]) == 200) }
            let count = Counter()
            servers.lines.0.beforeWriting { [line = servers.lines.0] _ in if count.next() == step { line.cut(true) } }
            let status = await owner.erase(token: reply["access_token"]).status
            servers.lines.0.beforeWriting(nil)
            servers.lines.0.cut(false)
            let isMarked = step > 2
            await sweep(servers.second)
            let isErased = try await servers.keys(home) == [home + "ledger"]
            #expect(isErased == isMarked, "step \(step)")
            #expect(await AccountOwner(servers.second, name).logIn().status == (isMarked ? 400 : 200), "step \(step)")
            #expect(try await servers.keys("server/erasures/").isEmpty, "step \(step)")
            if status == 204 { return }
        }
        Issue.record("the erasure must take fewer steps")
    }

    @Test("The second sweep does not touch a later account of the same name")
    func sameName() async throws {
        let reply = await alice.signUp()
        #expect(await alice.erase(token: reply["access_token"]).status == 204)
        let next = await AccountOwner(servers.second, password: "another person").signUp()
        let key = "accounts/alice/\(next["incarnation"] ?? "")/note"
        #expect(await servers.second.put(key, token: next["access_token"]) == 200)
        await sweep(servers.first)
        #expect(try await servers.keys(key) == [key])
        #expect(await servers.first.status(of: next["access_token"]) == 200)
    }
}
