import EntitlementSync
import Entitlements
import SyncCore
import Testing

@Suite("Invalid input is rejected and changes nothing")
struct BadInputTests {
    private let home: Household
    private let local = MemoryBackend()

    init() throws {
        home = try Household()
    }

    /// The error of recording `evidence`. Records an issue if the attempt changes the store or succeeds.
    private func refusal(of evidence: [Evidence]) async throws -> EntitlementError? {
        let store = try await home.offlineDevice(local)
        try await store.record(.reported(Owls.threeMonths, transaction: "before"))
        let before = try await contents(of: local)
        let error = await #expect(throws: EntitlementError.self) { try await store.record(evidence) }
        #expect(try await contents(of: local) == before)
        return error
    }

    @Test("Buying, requesting or withdrawing a product that is not in the catalogue is rejected", arguments: 0..<3)
    func unknownProduct(number: Int) async throws {
        let evidence: [Evidence] = [.reported("no-such"), .deferred("no-such"), .withdrawn("no-such")]
        let error = try await refusal(of: [evidence[number]])
        #expect(error?.kind == .unknownProduct)
        #expect(error?.message == "the catalogue has no product \"no-such\"")
    }

    @Test("A quantity outside 1 to 10,000 is rejected", arguments: [0, -1, 10_001, Int64.min, .max])
    func quantity(_ quantity: Int64) async throws {
        let error = try await refusal(of: [.reported(Owls.threeMonths, quantity: quantity)])
        #expect(error?.kind == .invalid)
        #expect(error?.message == "quantity must be 1 to 10,000, not \(quantity)")
    }

    @Test("Quantities of 1 and 10,000 are accepted", arguments: [1, 10_000])
    func bounds(_ quantity: Int64) async throws {
        let store = try await home.offlineDevice(local)
        try await store.record(.reported(Owls.threeMonths, quantity: quantity))
        #expect(try await store.replay().facts.purchases.map(\.quantity) == [quantity])
    }

    @Test(
        "A transaction id that is empty, too long or has control characters is rejected",
        arguments: ["", String(repeating: "x", count: 256), String(repeating: "🦉", count: 100_000), "a\u{0}", "\u{7F}"])
    func transactionID(id: String) async throws {
        let error = try await refusal(of: [.reported(Owls.threeMonths, transaction: TransactionID(id))])
        #expect(error?.kind == .invalid)
        #expect((error?.message.utf8.count ?? .max) < 500, "an error message must be one short line")
        #expect(error?.message.contains { $0.isNewline || $0 == "\u{0}" } == false)
    }

    @Test("An invalid store or environment id is rejected", arguments: 0..<2)
    func storeID(number: Int) async throws {
        let evidence: [Evidence] = [
            .reported(Owls.threeMonths, store: ""), .reported(Owls.threeMonths, environment: "a\nb"),
        ]
        #expect(try await refusal(of: [evidence[number]])?.kind == .invalid)
    }

    @Test("A batch with one invalid item is rejected as a whole", arguments: 0..<4)
    func batch(number: Int) async throws {
        let bad: [(Evidence, EntitlementError.Kind)] = [
            (.reported("no-such"), .unknownProduct), (.reported(Owls.threeMonths, quantity: 0), .invalid),
            (.reported(Owls.sixMonths, transaction: "before"), .contradiction),
            (.reported(Owls.sixMonths, transaction: "a"), .contradiction),
        ]
        let error = try await refusal(of: [
            .reported(Owls.threeMonths, transaction: "a"), .reported(Owls.randomOwls, transaction: "b"),
            .deferred(Owls.nightOwl), bad[number].0,
        ])
        #expect(error?.kind == bad[number].1)
    }

    @Test("A transaction that appears twice in a batch is recorded once and listed once in the receipt")
    func duplicates() async throws {
        let store = try await home.offlineDevice(local)
        let repeated = Evidence.reported(Owls.threeMonths, transaction: "t")
        let receipt = try await store.record([repeated, .reported(Owls.nightOwl, transaction: "u"), repeated])
        #expect(receipt.transactions.map(\.id) == ["t", "u"])
        #expect(try await store.replay().facts.purchases.count == 2)
    }

    @Test("An empty batch records nothing")
    func emptyBatch() async throws {
        let store = try await home.offlineDevice(local)
        let receipt = try await store.record([])
        #expect(receipt.transactions.isEmpty)
        #expect(receipt.newFacts.isEmpty)
        #expect(try await store.localLedgers().account.isEmpty)
    }

    @Test(
        "An account name that is empty, too long, has control characters or is \"anonymous\" is rejected",
        arguments: ["", "a\u{1}", "anonymous", String(repeating: "a", count: 256)])
    func accountName(name: String) {
        #expect(#expect(throws: EntitlementError.self) { try Account(name) }?.kind == .invalid)
    }

    @Test("A refund with a reason over 1,000 bytes or an invalid transaction id is rejected")
    func refund() async throws {
        let store = try await home.offlineDevice(local)
        let long = await #expect(throws: EntitlementError.self) {
            try await store.refund(TransactionReference(id: "t"), reason: String(repeating: "é", count: 501))
        }
        #expect(long?.kind == .invalid)
        #expect(await kind { try await store.refund(TransactionReference(id: "")) } == .invalid)
        #expect(try await contents(of: local).isEmpty)
    }

    @Test("A flag of an unknown product or of one that is not a permanent unlock is rejected")
    func flag() async throws {
        let store = try await home.offlineDevice(local)
        #expect(await kind { try await store.flag(Owls.threeMonths) } == .invalid)
        #expect(await kind { try await store.flag("no-such") } == .unknownProduct)
        #expect(try await contents(of: local).isEmpty)
    }
}
