import EntitlementSync
import Entitlements
import FileStorage
import SyncCore
import TestSupport
import Testing

@Suite("Recording a purchase")
struct RecordTests {
    private let home: Household
    private let local = MemoryBackend()

    init() throws {
        home = try Household()
    }

    @Test("A recorded purchase is durable when the call returns")
    func durable() async throws {
        let folder = try TemporaryFolder()
        let receipt = try await home.offlineDevice(FileBackend(folder: folder.path)).record(
            .reported(Owls.nightOwl, transaction: "t", date: date("2026-01-02T03:04:05.678Z"), quantity: 2))
        #expect(receipt.transactions == [TransactionReference(id: "t")])
        let reopened = try await home.offlineDevice(FileBackend(folder: folder.path))
        let purchase = try #require(try await reopened.replay().facts.purchases.first)
        #expect(purchase.transaction == TransactionReference(store: .reported, environment: .production, id: "t"))
        #expect(purchase.product == Owls.nightOwl)
        #expect(purchase.date == (try date("2026-01-02T03:04:05.678Z")))
        #expect(purchase.quantity == 2)
        #expect(try await reopened.access(to: Owls.nightOwlAccess).isGranted)
    }

    @Test("A purchase without a date is dated now, and one without a transaction id gets a new one")
    func defaults() async throws {
        let store = try await home.offlineDevice()
        let first = try await store.record(.reported(Owls.threeMonths))
        let second = try await store.record(.reported(Owls.threeMonths))
        #expect(first.transactions != second.transactions)
        #expect(try await store.replay().facts.purchases.map(\.date) == [home.machine.now, home.machine.now])
        #expect(try await store.end() == date("2026-07-10T12:00:00Z"))
    }

    @Test("Recording a transaction again adds nothing, with or without its date and quantity")
    func idempotent() async throws {
        let store = try await home.offlineDevice(local)
        let first = try await store.record(
            .reported(Owls.threeMonths, transaction: "t", date: date("2026-01-05"), quantity: 1))
        #expect(first.newFacts.count == 2)
        let before = try await contents(of: local)
        try home.machine.set("2026-02-01T00:00:00Z")
        for evidence in [
            Evidence.reported(Owls.threeMonths, transaction: "t"),
            try .reported(Owls.threeMonths, transaction: "t", date: date("2026-01-05"), quantity: 1),
        ] {
            let again = try await store.record(evidence)
            #expect(again.newFacts.isEmpty)
            #expect(again.transactions == first.transactions)
        }
        #expect(try await contents(of: local) == before)
    }

    @Test("A different version of a known transaction is a contradiction and changes nothing", arguments: 0..<3)
    func contradiction(number: Int) async throws {
        let store = try await home.offlineDevice(local)
        try await store.record(.reported(Owls.threeMonths, transaction: "t", date: date("2026-01-05")))
        let before = try await contents(of: local)
        let evidence = [
            Evidence.reported(Owls.sixMonths, transaction: "t"),
            try .reported(Owls.threeMonths, transaction: "t", date: date("2026-01-06")),
            .reported(Owls.threeMonths, transaction: "t", quantity: 2),
        ][number]
        let error = await #expect(throws: EntitlementError.self) { try await store.record(evidence) }
        #expect(error?.kind == .contradiction)
        #expect(error?.message.contains(["product", "date", "quantity"][number]) == true)
        #expect(try await contents(of: local) == before)
    }

    @Test("Contradicting a restored transaction writes nothing, not even a replica's id")
    func contradictionOnNewDevice() async throws {
        let phone = try await home.device()
        try await phone.record(.reported(Owls.threeMonths, transaction: "t"))
        try await phone.sync()
        let tablet = try await home.device(local)
        try await tablet.sync()
        let before = try await contents(of: local)
        #expect(await kind { try await tablet.record(.reported(Owls.sixMonths, transaction: "t")) } == .contradiction)
        #expect(try await contents(of: local) == before)
    }

    @Test("The same id in two stores or environments names different transactions")
    func otherStores() async throws {
        let store = try await home.offlineDevice()
        try await store.record([
            .reported(Owls.threeMonths, transaction: "1"),
            .reported(Owls.threeMonths, transaction: "1", store: .appStore),
            .reported(Owls.sixMonths, transaction: "1", environment: .sandbox),
        ])
        #expect(try await store.replay().facts.purchases.count == 3)
        #expect(try await store.end() == date("2026-07-10T12:00:00Z"))
    }

    @Test("Ids that are canonically equal but differ in bytes stay two transactions, even after a sync")
    func canonicallyEqual() async throws {
        let phone = try await home.device()
        try await phone.record([
            .reported(Owls.threeMonths, transaction: "caf\u{E9}"),
            .reported(Owls.threeMonths, transaction: "cafe\u{301}"),
        ])
        try await phone.sync()
        let tablet = try await home.device()
        #expect(try await tablet.restore().purchases.count == 2)
        #expect(try await tablet.end() == date("2026-07-10T12:00:00Z"))
    }

    @Test(
        "Ids may contain slashes, percent signs, spaces and emoji",
        arguments: ["a/b", "../..", "%2F", "🦉", " ", String(repeating: "x", count: 255)])
    func oddIDs(id: String) async throws {
        let store = try await home.offlineDevice(local)
        let receipt = try await store.record(.reported(Owls.nightOwl, transaction: TransactionID(id)))
        #expect(receipt.transactions.map(\.id.rawValue) == [id])
        let reopened = try await home.offlineDevice(local)
        #expect(try await reopened.replay().facts.purchases.map(\.transaction.id.rawValue) == [id])
    }

    @Test(
        "A quantity of 3 times three months adds nine months in one step",
        arguments: [("2026-01-31T12:00:00Z", "2026-10-31T12:00:00Z"), ("2026-05-31T12:00:00Z", "2027-03-01T00:00:00Z")])
    func quantity(dates: (bought: String, end: String)) async throws {
        try home.machine.set(dates.bought)
        let store = try await home.offlineDevice()
        try await store.record(.reported(Owls.threeMonths, quantity: 3))
        #expect(try await store.end() == date(dates.end))
    }
}
