import EntitlementSync
import Entitlements
import HTTPTypes
import ServiceTestSupport
import SyncCore
import Testing

@testable import SyncService

@Suite("Customers of another system")
struct CustomerImportTests {
    private static let anonymous = "$RCAnonymousID:0123456789abcdef0123456789abcdef"

    private let stage: EvidenceStage
    private let customers: CustomerImport
    private let ids: ExternalIDs

    init() async throws {
        stage = try await EvidenceStage(.verified)
        customers = try await Self.importer(stage)
        ids = ExternalIDs(records: RecordStore(backend: stage.store))
    }

    private static func importer(_ stage: EvidenceStage, issuer: String? = nil) async throws -> CustomerImport {
        CustomerImport(
            stage.store, try await AccountImport(stage.store),
            catalog: try #require(stage.service.configuration.catalog), issuer: issuer, host: stage.clock.host)
    }

    private func account(_ name: String) async throws -> Account {
        try #require(try await RecordStore(backend: stage.store).account(name)?.value.activeAccount)
    }

    private func month(_ id: String, of original: String? = nil, at date: Int64? = nil) -> Fact {
        let start = Timestamp(milliseconds: date ?? stage.now)
        return .purchase(
            Purchase(
                transaction: TransactionReference(store: .appStore, id: TransactionID(id)), product: "month",
                terms: nil,
                date: start, originalID: original.map { TransactionID($0) },
                storeExpiry: Timestamp(milliseconds: start.milliseconds + 30 * EvidenceStage.day),
                stamp: Stamp(logicalTime: LogicalTime.zero.next(at: start))))
    }

    private func add(
        _ id: String, _ otherIDs: [String] = [], _ facts: [Fact]
    ) async throws -> CustomerImport.Outcome {
        let customer = CustomerImport.Customer(
            id: id, otherIDs: otherIDs, created: Timestamp(milliseconds: stage.now), facts: facts)
        return try #require(try await customers.add([customer]).first)
    }

    private func purchases(of account: Account) async throws -> [Purchase] {
        try await ServerLedgerWriter(
            records: RecordStore(backend: stage.store), decoder: LedgerDecoder(), policy: nil, catalog: nil,
            now: stage.clock.host.now
        ).read(account).facts.compactMap(\.purchase)
    }

    @Test("A purchase that was imported counts once when the store's signed statement about it arrives")
    func evidence() async throws {
        let alice = try await account("alice")
        try await ids.attach("u1", to: alice)
        let start = stage.now - 30 * EvidenceStage.day
        let facts = [month("1", at: start), month("2", of: "1")]
        let first = try await add("u1", [], facts)
        #expect(first == CustomerImport.Outcome(account: "alice", added: 2))
        #expect(await stage.rights(of: stage.alice) == ["owls"])
        let sales = [Sale.month("1", of: "1", at: start), Sale.month("2", of: "1", at: stage.now)]
        #expect(try await stage.send(sales, as: stage.alice).status == 200)
        let signed = try await purchases(of: alice)
        #expect(signed.count == 2 && signed.allSatisfy { $0.stamp.signedDate != nil && $0.line.id == "1" })
        // A repetition neither adds nor replaces anything.
        #expect(try await add("u1", [], facts) == CustomerImport.Outcome(account: "alice", present: 2))
        #expect(try await purchases(of: alice) == signed)
    }

    @Test("A refund that a newer export states ends the purchase, and an older export does not bring it back")
    func refunds() async throws {
        let older = month("1")
        let refund = Fact.revocation(
            Revocation(
                transaction: TransactionReference(store: .appStore, id: "1"),
                revokedAt: Timestamp(milliseconds: stage.now + 1), reason: "revenuecat",
                stamp: Stamp(logicalTime: LogicalTime.zero.next(at: Timestamp(milliseconds: stage.now + 1)))))
        try await ids.attach("u1", to: try await account("alice"))
        _ = try await add("u1", [], [older])
        #expect(await stage.rights(of: stage.alice) == ["owls"])
        _ = try await add("u1", [], [older, refund])
        stage.clock.pass(seconds: 1)
        #expect(await stage.rights(of: stage.alice) == [])
        _ = try await add("u1", [], [older])
        #expect(await stage.rights(of: stage.alice) == [])
    }

    @Test("An anonymous customer is a guest, until a newer export names the app's user")
    func guests() async throws {
        let guest = try await add(Self.anonymous, [], [month("1")])
        #expect(guest.account == "guest-0123456789abcdef0123456789abcdef" && guest.isNew && guest.added == 1)
        let named = try await add("u9", [Self.anonymous], [month("1"), month("2", of: "1")])
        #expect(named.account == guest.account && !named.isNew && named.added == 1 && named.present == 1)
        #expect(try await ids.resolve("u9")?.name == guest.account)
        let later = try await add(Self.anonymous, [], [month("3", of: "1")])
        #expect(later.account == guest.account && later.added == 1 && later.refusal == nil)
        // The other way round: first the user, then the anonymous id alone.
        let other = "$RCAnonymousID:ffffffffffffffffffffffffffffffff"
        #expect(try await add("u10", [other], [month("11")]).account == "u10")
        #expect(try await add(other, [], [month("12")]).account == "u10")
    }

    @Test("A purchase of another account stays with it, and an id that means another account's name does not get it")
    func others() async throws {
        let (sale, bob) = (Sale.month("1", of: "1", at: stage.now), stage.bob)
        #expect(try await stage.send([sale], as: bob).status == 200)
        let outcome = try await add("bob", [], [month("1"), month("7")])
        #expect(outcome.account?.hasPrefix("customer-") == true)
        #expect(outcome.held.map(\.id) == ["1"] && outcome.added == 1)
        #expect(await stage.rights(of: bob) == ["owls"])
        let names = ["Owl", "owl", "\u{301}x", " x ", "anonymous"]
        var accounts: Set<String> = []
        for (index, name) in names.enumerated() {
            let outcome = try await add(name, [], [month("9\(index)")])
            #expect(outcome.refusal == nil && outcome.added == 1, "\(name)")
            accounts.insert(try #require(outcome.account))
        }
        #expect(accounts.count == names.count)
        for wrong in ["", "a\nb", String(repeating: "x", count: 256)] {
            let outcome = try await add(wrong, [], [month("5")])
            #expect(outcome.account == nil && outcome.refusal != nil)
        }
    }

    @Test("A crash at any write is completed by a repetition")
    func crashes() async throws {
        for step in 0... {
            let id = "user-\(step)"
            let facts = [month("a\(step)"), month("b\(step)", of: "a\(step)")]
            stage.store.fail(after: step)
            let isDone = await (try? add(id, [Self.anonymous.replacing("0123", with: "00\(step + 10)")], facts)) != nil
            stage.store.before(nil)
            let repeated = try await add(id, [], facts)
            #expect(repeated.refusal == nil && repeated.held == [], "\(step)")
            #expect(try await purchases(of: try await account(id)).count == 2, "\(step)")
            #expect(try await ids.resolve(id)?.name == id, "\(step)")
            if isDone { break }
            #expect(step < 60)
        }
    }

    @Test("An erased customer does not return")
    func erased() async throws {
        _ = try await add("u1", [], [month("1")])
        let erased = try await account("u1")
        #expect(try await stage.service.beginErasure(of: erased, by: nil))
        try await stage.service.finishErasure(of: erased)
        #expect(try await add("u1", [], [month("1")]).refusal == "the account was erased")
        #expect(try await ids.resolve("u1") == nil)
    }

    @Test("With an issuer, its account of the same subject gets the purchases, also one that it has not named yet")
    func issuer() async throws {
        let issuer = "https://login.example.com"
        let service = try await EntitlementService.open(stage.store, clock: stage.clock, issuer: issuer)
        let expires = stage.now / 1_000 + 600
        #expect(await service.status(of: .external("u1", expires)) == 200)
        let customers = try await Self.importer(stage, issuer: issuer)
        let all = ["u1", "u2"].map { id in
            CustomerImport.Customer(id: id, created: Timestamp(milliseconds: stage.now), facts: [month("of-\(id)")])
        }
        let outcomes = try await customers.add(all)
        #expect(outcomes.map(\.account) == ["u1", "u2"] && outcomes.map(\.isNew) == [false, true])
        let known = try await account("u2")
        #expect(await service.status(of: .external("u2", expires)) == 200)
        #expect(try await account("u2") == known)
        #expect(try await purchases(of: known).count == 1)
    }
}
