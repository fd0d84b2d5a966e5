import EntitlementSync
import Entitlements
import SyncCore
import Testing
import TestSupport

@Suite("Importing the facts of another ledger")
struct JoiningTests {
    private static let decision = Fact.acceptance(
        Acceptance(
            transaction: TransactionReference(id: "t1"), decision: .refused("no"), date: Timestamp(milliseconds: 0),
            logicalTime: LogicalTime(rawValue: 1)))
    private static let request = Fact.pending(
        PendingPurchase(
            product: Owls.couchOwl, requestedAt: Timestamp(milliseconds: 0), logicalTime: LogicalTime(rawValue: 1)))
    private static let claim = Record(key: Claim.recordKey, order: [1], payload: [])
    /// A fact of a kind that this version does not know.
    private static let unknown = Record(key: [0xA2, 0x01, 1, 65], order: [1], payload: [7])
    private static let unknownLong = Record(key: [0x82, 0x01, 1, 65], order: [1], payload: [])

    private func someLedger() async throws -> Ledger {
        let store = try await Household().offlineDevice()
        try await store.record([
            .reported(Owls.threeMonths, transaction: "t1"), .reported(Owls.nightOwl, transaction: "t2"),
            .refunded(TransactionReference(id: "t2"), at: date("2026-01-09")),
        ])
        return try await store.localLedgers().account
    }

    @Test("Records are imported once, byte for byte, and count")
    func joined() async throws {
        let other = try await someLedger().joined(with: Ledger([Self.unknown, Self.unknownLong]))
        let store = try await Household().offlineDevice()
        try await store.record(.reported(Owls.couchOwl, transaction: "t3"))
        let own = try await store.localLedgers().account
        let facts = try await store.join(other)
        #expect(facts.count == other.count)
        #expect(try await store.localLedgers().account == own.joined(with: other))
        #expect(try await store.end() == date("2026-04-10T12:00:00Z"))
        #expect(try await store.join(other).isEmpty)
        #expect(try await store.localLedgers().account == own.joined(with: other))
    }

    @Test("The stronger of two statements wins, and its unknown fields are preserved")
    func stronger() async throws {
        let store = try await Household().offlineDevice()
        let weak = purchase(of: Owls.nightOwl, 5)
        #expect(try await store.join(Ledger([weak])).map(\.record) == [weak])
        #expect(try await store.join(Ledger([purchase(of: Owls.couchOwl, 4)])).isEmpty)
        var strong = purchase(of: Owls.couchOwl, 6)
        strong.payload += [14 << 3, 1]
        #expect(try await store.join(Ledger([strong])).map(\.record) == [strong])
        #expect(try await store.localLedgers().account == Ledger([strong]))
    }

    @Test("Claims, server decisions, pending requests and a device's conflict notes are not imported")
    func staying() async throws {
        let notes = [Self.decision.record, Self.request.record, Self.claim]
        let contradiction = try #require(
            Contradiction.between(
                Ledger([purchase(of: Owls.nightOwl)]), Ledger([purchase(of: Owls.couchOwl)]),
                noticedAt: Timestamp(milliseconds: 0), after: .zero
            ).first)
        let other = Ledger(notes + [Fact.contradiction(contradiction).record, Self.unknown])
        #expect(other.transferable == Ledger([Self.unknown]))
        let home = try Household()
        let local = MemoryBackend(host: home.machine.host)
        let store = try await home.offlineDevice(local)
        #expect(try await store.join(Ledger(notes)).isEmpty)
        #expect(try await contents(of: local).isEmpty)
        #expect(try await store.join(other).map(\.record) == [Self.unknown])
        #expect(try await store.localLedgers().account == Ledger([Self.unknown]))
    }

    private func purchase(of product: ProductID, _ time: UInt64 = 0) -> Record {
        Fact.purchase(
            Purchase(
                transaction: TransactionReference(id: "t1"), product: product, terms: nil,
                date: Timestamp(milliseconds: 0), stamp: Stamp(logicalTime: LogicalTime(rawValue: time)))
        ).record
    }

    @Test("The marker of an erased account is rejected and erases nothing")
    func erased() async throws {
        let store = try await Household().offlineDevice()
        try await store.record(.reported(Owls.couchOwl, transaction: "t3"))
        #expect(await kind { try await store.join(.erased) } == .invalid)
        #expect(try await store.localLedgers().account.count == 2)
    }

    @Test("An import that would overfill the ledger is rejected as a whole")
    func full() async throws {
        let home = try Household()
        let local = MemoryBackend(host: home.machine.host)
        let store = try await home.offlineDevice(local)
        let records = (0..<5).map { number in
            Record(key: [0xA2, 0x01, 1, number], order: [1], payload: [UInt8](repeating: 0, count: 1_000_000))
        }
        #expect(await kind { try await store.join(Ledger(records)) } == .ledgerFull)
        #expect(try await contents(of: local).isEmpty)
    }
}
