import Entitlements
import HTTPTypes
import ServiceTestSupport
import SyncCore
import Testing

@testable import SyncService

@Suite("Sign-ups of one folded name at two servers")
struct FoldedNameRaceTests {
    /// A server with its own line to the shared store, and an owner who signs up there.
    private struct Side {
        let line: StoreLine
        let owner: AccountOwner
        private let calls = Counter()
        /// Happens when the sign-up has come to the call to stop at.
        let reached = Event()
        private let reachedOrEnded = Event()
        private let resumed = Event()

        init(_ store: MemoryBackend, _ name: String, password: String) async throws {
            line = StoreLine(store)
            owner = AccountOwner(try await .open(line), name, password: password)
        }

        private func stop(at number: Int, _ body: @escaping @Sendable () async -> Void) {
            let hook: @Sendable (EntryKey) async -> Void = { [calls, reached] _ in
                guard calls.next() == number else { return }
                reached.happen()
                await body()
            }
            line.beforeReading(hook)
            line.beforeWriting(hook)
        }

        /// Begins a sign-up, and returns when it waits at one of its calls to the store, or has ended.
        func start(pausingAt number: Int) async -> Task<Reply, Never> {
            stop(at: number) { [reachedOrEnded, resumed] in
                reachedOrEnded.happen()
                await resumed.wait()
            }
            let task = Task { [owner, reachedOrEnded] in
                let reply = await owner.signUp()
                reachedOrEnded.happen()
                return reply
            }
            await reachedOrEnded.wait()
            return task
        }

        /// Completes a sign-up that waits.
        func finish(_ task: Task<Reply, Never>) async -> Reply {
            resumed.happen()
            return await task.value
        }

        /// Signs up at a server that crashes at one of its calls to the store.
        func signUp(crashingAt number: Int) async -> Reply {
            stop(at: number) { [line] in line.cut(true) }
            return await owner.signUp()
        }
    }

    private func accounts(_ service: EntitlementService) async -> [String] {
        let list = await service.ask(.get, "/v1/accounts", token: .operatorToken).members["accounts"]
        return (list as? [[String: Any]] ?? []).compactMap { $0["name"] as? String }
    }

    @Test("However their calls to the store interleave, one account is created, and the other sign-up is refused")
    func interleavings() async throws {
        var schedules = 0
        schedules: for first in 1... {
            for second in 1... {
                let store = MemoryBackend()
                let one = try await Side(store, "Owl", password: "correct horse")
                let two = try await Side(store, "oWL", password: "another horse")
                let tasks = (await one.start(pausingAt: first), await two.start(pausingAt: second))
                let replies = (await one.finish(tasks.0), await two.finish(tasks.1))
                schedules += 1
                let place = Comment(rawValue: "paused at the calls \(first) and \(second)")
                #expect([replies.0.status, replies.1.status].sorted() == [201, 409], place)
                let (winner, loser) = replies.0.status == 201 ? (one.owner, two.owner) : (two.owner, one.owner)
                #expect(await accounts(winner.service) == [winner.name], place)
                // Also at the other server, and by the other spelling.
                let session = await AccountOwner(loser.service, loser.name, password: winner.password).logIn()
                #expect(session.status == 200 && session["account"] == winner.name, place)
                let refused = await AccountOwner(winner.service, "owl", password: loser.password).logIn()
                #expect(refused.status == 400, place)
                if !one.reached.hasHappened { break schedules }
                if !two.reached.hasHappened { break }
            }
        }
        #expect(schedules > 100)
    }

    @Test("Sign-ups with the same name and password share the account, however they interleave")
    func sameOwner() async throws {
        for number in 1... {
            let store = MemoryBackend()
            let one = try await Side(store, "Owl", password: "correct horse")
            let two = try await Side(store, "Owl", password: "correct horse")
            let task = await one.start(pausingAt: number)
            let second = await two.owner.signUp()
            let first = await one.finish(task)
            #expect([first.status, second.status].sorted() == [200, 201], "paused at the call \(number)")
            #expect(first["incarnation"] == second["incarnation"], "paused at the call \(number)")
            guard one.reached.hasHappened else { break }
        }
    }

    @Test("A name that only a lost sign-up had is unknown to support, and free for another issuer's subject")
    func lostName() async throws {
        let store = MemoryBackend()
        let issuer = "https://login.example.com"
        for number in 1... {
            let crashed = try await Side(store, "OwL", password: "correct horse")
            _ = await crashed.signUp(crashingAt: number)
            let claims = try await store.list(prefix: "server/names/", after: nil, limit: 1).outcome.items
            guard claims.isEmpty else { break }
        }
        let service = try await EntitlementService.open(store, issuer: issuer)
        #expect(await AccountOwner(service, "owl").signUp().status == 201)
        let key = try AccountRecord.key(of: "OwL")
        let records = RecordStore(backend: store)
        let lost = try #require(try await records.read(key, as: AccountRecord.self)?.value)
        #expect(lost.incarnation == nil && lost.erased.count == 1 && lost.isUnused)

        let accounts = try await AccountImport(store)
        let imported = try accounts.account("OwL")
        #expect(try await accounts.state(of: imported) == .absent)
        // The folded name is that of the other account. Nothing remains of the attempt.
        await #expect(throws: AccountImport.AccountRefusal.self) {
            _ = try await accounts.create(imported, alias: "uhu", password: nil, created: 1)
        }
        #expect(try await records.read(key, as: AccountRecord.self)?.value == lost)

        // An operator's request means the account that exists.
        let code = await service.ask(.post, "/v1/accounts/OwL/recovery-code", token: .operatorToken)
        #expect(code["account"] == "owl")
        #expect(await service.ask(.post, "/v1/accounts/owl/erasure", token: .operatorToken).status == 204)
        let acts = SupportActs(
            store: store, catalog: try Catalog(products: []), host: TestClock(1_800_000_000_000).host)
        let order = SupportActs.Order(
            account: "OwL", act: "record", summary: "refund", operatorName: "olga", reason: "ticket 7")
        let refund = Evidence.refunded(TransactionReference(store: .appStore, id: "1"))
        let error = await #expect(throws: SupportError.self) { _ = try await acts.record(refund, order) }
        #expect(error?.kind == .unknownAccount)
        #expect(await service.status(of: .external("OwL", 1_800_000_600)) == 200)
        #expect(try await records.read(key, as: AccountRecord.self)?.value.erased == lost.erased)
    }

    @Test("A crash during a sign-up blocks no name, and a repeated sign-up finds an account that was created")
    func crashes() async throws {
        for number in 1... {
            let store = MemoryBackend()
            let crashed = try await Side(store, "Owl", password: "correct horse")
            let lost = await crashed.signUp(crashingAt: number)
            let service = try await EntitlementService.open(store)
            let other = await AccountOwner(service, "OWL", password: "another horse").signUp()
            let repeated = await AccountOwner(service, "Owl").signUp()
            let place = Comment(rawValue: "crashed at the call \(number)")
            if other.status == 201 {
                #expect(lost.status == 503 && repeated.status == 409, place)
                #expect(await accounts(service) == ["OWL"], place)
            } else {
                #expect(other.status == 409 && repeated.status == 200, place)
                #expect(await accounts(service) == ["Owl"], place)
            }
            guard crashed.reached.hasHappened else { break }
        }
    }
}
