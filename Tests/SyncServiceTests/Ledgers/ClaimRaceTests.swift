import EntitlementSync
import Entitlements
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import Synchronization
import Testing

@testable import SyncService

@Suite("Decisions and claims of writes that lose a race")
struct ClaimRaceTests {
    private static let now: Int64 = 1_800_000_000_000
    private let clock = TestClock(Self.now)
    private let store = HookedBackend()
    private let service: EntitlementService
    private let (alice, bob): (LedgerAccount, LedgerAccount)
    private let future = LedgerAccount.purchase("t", at: Self.now, daysFromNow: 400)

    init() async throws {
        service = try await .open(store, clock: clock)
        (alice, bob) = (await LedgerAccount(service, "alice"), await LedgerAccount(service, "bob"))
    }

    private func purchase(_ id: String) -> Fact { LedgerAccount.purchase(id, at: Self.now) }

    /// A fact that claims no transaction.
    private var note: Fact {
        .renewalState(
            RenewalState(
                line: TransactionReference(id: "line"), willRenew: true,
                stamp: Stamp(logicalTime: LogicalTime(rawValue: 1))))
    }

    private func breakDown(_ disposition: BackendError.Disposition, writing text: String) {
        store.fail(.unavailable, disposition) { key, _ in key.text.contains(text) }
    }

    private func gate(writing key: EntryKey) -> Gate { store.pause { $0 == key } }

    @Test("A purchase dated for a ledger that lost a race is refused once it belongs to another account")
    func lostLedger() async throws {
        let gate = gate(writing: try alice.ledger)
        async let lost = alice.put([future])
        await gate.reached.wait()
        let won = await alice.put([note])
        gate.open()
        #expect(await lost.status == 412)
        #expect(await bob.put([purchase("t")]).status == 200)
        let tag = try #require(won.fields[.eTag])
        #expect(await alice.put([note, future], [.ifMatch: tag]).status == 200)
        #expect(try await bob.refusals() == [])
        #expect(try await alice.refusals() == ["t"])
    }

    @Test("A purchase dated for a ledger that was never stored is refused once another account takes it over")
    func takenOver() async throws {
        breakDown(.outcomeUnknown, writing: try alice.ledger.text)
        #expect(await alice.put([future]).status == 500)
        store.before(nil)
        clock.advance(seconds: 61)
        #expect(await bob.put([purchase("t")]).status == 200)
        #expect(await alice.put([future], [.ifMatch: "*"]).status == 200)
        #expect(try await bob.refusals() == [])
        #expect(try await alice.refusals() == ["t"])
    }

    @Test("A decision that is recorded late does not end a refusal that is newer than its claim")
    func lateDecision() async throws {
        let gate = gate(writing: try LedgerKeys(Account("alice", incarnation: incarnation(of: alice))).serverLedger)
        async let late = alice.put([future])
        await gate.reached.wait()
        clock.advance(seconds: 61)
        #expect(await bob.put([purchase("t")]).status == 200)
        #expect(await alice.put([future], [.ifMatch: "*"]).status == 200)
        gate.open()
        #expect(await late.status == 412)
        #expect(try await alice.refusals() == ["t"])
    }

    private func incarnation(of account: LedgerAccount) -> String {
        String(account.path.split(separator: "/").last ?? "")
    }

    @Test("Claims renewed by a write that lost last until the next ledger is stored, and are removed with it")
    func renewedClaims() async throws {
        let facts = (0..<30).map { purchase("\($0)") }
        let key = try alice.ledger
        let created = gate(writing: key)
        async let first = alice.put(facts)
        await created.reached.wait()
        let renewed = gate(writing: key)
        async let second = alice.put(facts)
        await renewed.reached.wait()
        let won = await alice.put([note])
        created.open()
        #expect(await first.status == 412)
        renewed.open()
        #expect(await second.status == 412)
        #expect(try await store.claimCount() == 30)
        #expect(service.ledgers.claims.count(of: key) == 30)
        let tag = try #require(won.fields[.eTag])
        #expect(await alice.put([note, purchase("x")], [.ifMatch: tag]).status == 200)
        #expect(try await store.claimCount() == 1)
        #expect(service.ledgers.claims.count(of: key) == 0)
    }

    @Test("An error about the ledger of another account refuses the transaction and is not shown")
    func failingFence() async throws {
        let errors = Mutex(0)
        breakDown(.outcomeUnknown, writing: try alice.ledger.text)
        #expect(await alice.put([purchase("t")]).status == 500)
        clock.advance(seconds: 61)
        var environment = service.ledgers
        environment.onError = { _ in errors.withLock { $0 += 1 } }
        let account = try Account("bob", incarnation: incarnation(of: bob))
        let rules = LedgerRules(environment, account, try LedgerKeys(account))
        let written = try await rules.write(
            LedgerDocumentBytes.of([purchase("t")]), to: try bob.ledger, if: .absent
        ).outcome
        guard case .written = written else {
            Issue.record("\(written)")
            return
        }
        #expect(try await bob.refusals() == ["t"])
        #expect(errors.withLock { $0 } == 1)
    }

    @Test("A read of a ledger does not fail because a refusal cannot be reconsidered")
    func failingReview() async throws {
        #expect(await alice.put([purchase("t")]).status == 200)
        let written = await bob.put([purchase("t")])
        #expect(await AccountOwner(service).erase(token: alice.token).status == 204)
        let field = try #require(HTTPField.Name(WireFields.decisions))
        breakDown(.transient, writing: "/decisions")
        let read = await bob.get()
        #expect(read.status == 200 && read.fields[field] == written.fields[field])
        store.before(nil)
        clock.advance(seconds: 60)
        #expect(await bob.get().status == 200)
        #expect(try await bob.decisions().values.map(\.decision) == [.accepted])
    }

    @Test("One reader reconsiders refusals, and the others do not wait for it")
    func reviewOnce() async throws {
        #expect(await alice.put([purchase("t")]).status == 200)
        #expect(await bob.put([purchase("t")]).status == 200)
        let count = Mutex(0)
        let gate = Gate()
        gate.close()
        store.beforeReading { key in
            guard key.text.hasPrefix("owners/") else { return }
            count.withLock { $0 += 1 }
            await gate.pass()
        }
        async let first = bob.get()
        await gate.reached.wait()
        for _ in 0..<5 { #expect(await bob.get().status == 200) }
        gate.open()
        #expect(await first.status == 200)
        #expect(count.withLock { $0 } == 1)
    }

    @Test("One request takes over the claims of at most four other accounts; later reviews take over the rest")
    func manyOwners() async throws {
        for number in 0..<6 {
            let other = await LedgerAccount(service, "other\(number)")
            let tag = try #require(await other.put([note]).fields[.eTag])
            breakDown(.outcomeUnknown, writing: "/ledger")
            #expect(await other.put([note, purchase("\(number)")], [.ifMatch: tag]).status == 500)
            store.before(nil)
        }
        clock.advance(seconds: 61)
        let count = await service.ledgers.decoder.ledgerCount
        #expect(await bob.put((0..<6).map { purchase("\($0)") }).status == 200)
        #expect(await service.ledgers.decoder.ledgerCount <= count + 4)
        #expect(try await bob.refusals().count == 2)
        #expect(await bob.get().status == 200)
        #expect(try await bob.refusals() == [])
    }
}
