import EntitlementSync
import Entitlements
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import Synchronization
import Testing

@testable import SyncService

@Suite("Claims on transactions whose ledger is not stored")
struct ClaimTests {
    private static let now: Int64 = 1_800_000_000_000
    private let clock = TestClock(Self.now)
    private let store = HookedBackend()
    private let service: EntitlementService
    private let (alice, bob): (LedgerAccount, LedgerAccount)

    init() async throws {
        service = try await .open(store, clock: clock)
        (alice, bob) = (await LedgerAccount(service, "alice"), await LedgerAccount(service, "bob"))
    }

    private func purchase(_ id: String) -> Fact { LedgerAccount.purchase(id, at: Self.now) }

    /// Makes writes of ledgers and removals of claims fail from now on, as in a crash of the server.
    private func breakDown(_ disposition: BackendError.Disposition) {
        store.fail(.unavailable, disposition) { key, isDelete in isDelete || key.text.hasSuffix("/ledger") }
    }

    @Test("Of concurrent writes with one precondition, only the one that is stored keeps its claims")
    func concurrentWrites() async throws {
        let arrived = Mutex(0)
        let all = Event()
        store.before { key, _ throws(BackendError) in
            guard key.text.hasSuffix("/ledger") else { return }
            let count = arrived.withLock { count in
                count += 1
                return count
            }
            if count == 8 { all.happen() }
            await all.wait()
        }
        let statuses = await withTaskGroup(of: Int.self) { group in
            for attempt in 0..<8 {
                group.addTask { await alice.put((0..<30).map { purchase("\(attempt)-\($0)") }).status }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(statuses.sorted() == [200] + Array(repeating: 412, count: 7))
        #expect(try await store.claimCount() == 30)
    }

    @Test("A claim of a ledger that was never stored is free after a minute, and its late write is refused")
    func abandonedClaim() async throws {
        breakDown(.outcomeUnknown)
        #expect(await alice.put([purchase("1"), purchase("2")]).status == 500)
        store.before(nil)
        #expect(try await store.claimCount() == 2)
        let restarted = try await EntitlementService.open(store, clock: clock)
        let bob = await bob.at(restarted)
        let written = await bob.put([purchase("1")])
        #expect(written.status == 200)
        #expect(try await bob.refusals() == ["1"])
        clock.advance(seconds: 61)
        #expect(await bob.get().status == 200)
        #expect(try await bob.refusals() == [])
        // The write of the first server arrives late.
        let late = try await store.write(
            LedgerDocumentBytes.of([purchase("1"), purchase("2")]), to: try alice.ledger, if: .absent)
        guard case .conflict = late.outcome else {
            Issue.record("the late write was stored: \(late.outcome)")
            return
        }
        let carol = await LedgerAccount(restarted, "carol")
        #expect(await carol.put([purchase("2")]).status == 200)
        #expect(try await carol.refusals() == [])
        #expect(await alice.at(restarted).put([purchase("1"), purchase("2")], [.ifMatch: "*"]).status == 200)
        #expect(try await alice.at(restarted).refusals() == ["1", "2"])
    }

    @Test("A write that takes longer than a minute conflicts if another account took over its transactions")
    func slowWrite() async throws {
        let ledger = try alice.ledger
        let gate = store.pause { $0 == ledger }
        async let slow = alice.put([purchase("1")])
        await gate.reached.wait()
        clock.advance(seconds: 61)
        #expect(await bob.put([purchase("1")]).status == 200)
        gate.open()
        let conflict = await slow
        #expect(conflict.status == 412)
        #expect(try await bob.refusals() == [])
        let tag = try #require(conflict.fields[.eTag])
        #expect(await alice.put([purchase("1")], [.ifMatch: tag]).status == 200)
        #expect(try await alice.refusals() == ["1"])
    }

    @Test("A claim on which a ledger relies is neither removed by an attempt that lost nor free after a minute")
    func reliedOn() async throws {
        let gate = store.pause { $0.text.hasSuffix("/ledger") }
        async let slow = alice.put([purchase("1"), purchase("3")])
        await gate.reached.wait()
        #expect(await alice.put([purchase("1"), purchase("2")]).status == 200)
        gate.open()
        #expect(await slow.status == 412)
        #expect(try await store.claimCount() == 2)
        clock.advance(seconds: 3_600)
        let bob = await bob.at(service)
        #expect(await bob.put([purchase("1"), purchase("2"), purchase("3")]).status == 200)
        #expect(try await bob.refusals() == ["1", "2"])
    }

    @Test("Claims that were left behind are removed with the account's next write", arguments: [false, true])
    func leftovers(isOutcomeUnknown: Bool) async throws {
        breakDown(isOutcomeUnknown ? .outcomeUnknown : .transient)
        for attempt in 0..<3 {
            #expect(await alice.put((0..<10).map { purchase("\(attempt)-\($0)") }).status >= 500)
        }
        #expect(try await store.claimCount() == 30)
        store.before(nil)
        #expect(await alice.put([purchase("x"), purchase("1-1")]).status == 200)
        #expect(try await store.claimCount() == 2)
        #expect(await bob.put([purchase("x"), purchase("1-1"), purchase("1-2")]).status == 200)
        #expect(try await bob.refusals() == ["1-1", "x"])
    }

    @Test("Outstanding claims of an account are bounded, including those that were left behind")
    func bounds() throws {
        let claims = OutstandingClaims()
        let (first, second) = (try EntryKey("a/ledger"), try EntryKey("b/ledger"))
        let owner = Ownership.Owner(account: AccountIdentity(try Account("a")), since: 0, attempt: "1")
        func leftover(_ count: Int, isOver: Bool) -> OutstandingClaims.Leftover {
            let transactions = (0..<count).map { TransactionReference(id: TransactionID("\($0)")) }
            return OutstandingClaims.Leftover(owner: owner, transactions: transactions, isOver: isOver)
        }
        #expect(claims.begin(60, of: first, limit: 100))
        #expect(!claims.begin(41, of: first, limit: 100))
        #expect(claims.begin(40, of: first, limit: 100))
        #expect(claims.begin(100, of: second, limit: 100))
        claims.end(60, of: first, leaving: leftover(50, isOver: false))
        claims.end(40, of: first, leaving: leftover(40, isOver: true))
        #expect(!claims.begin(11, of: first, limit: 100))
        #expect(claims.takeRemovable(of: first, storedSince: nil).map(\.transactions.count) == [40])
        #expect(claims.begin(50, of: first, limit: 100))
        claims.end(50, of: first)
        let mark = claims.mark()
        #expect(claims.begin(50, of: first, limit: 100))
        claims.end(50, of: first, leaving: leftover(30, isOver: false))
        // A ledger that was read before an attempt ended says nothing about that attempt.
        #expect(claims.takeRemovable(of: first, storedSince: mark).map(\.transactions.count) == [50])
        #expect(claims.takeRemovable(of: first, storedSince: mark).isEmpty)
        #expect(claims.count(of: first) == 30)
        // Claims that a later attempt has renewed are not counted twice.
        let later = claims.mark()
        #expect(claims.begin(30, of: first, limit: 100))
        let renewed = leftover(30, isOver: false)
        claims.end(30, of: first, leaving: renewed, since: later)
        #expect(claims.count(of: first) == 30)
        #expect(claims.takeRemovable(of: first, storedSince: claims.mark()).map(\.transactions.count) == [30])
        // An attempt on its own is never refused.
        #expect(claims.begin(1_000, of: first, limit: 100))
    }
}
