import Entitlements
import EntitlementsTestSupport
import Testing

@testable import SyncSimulation

/// Builds a ledger fact by fact. Dates are days of 2026 or RFC 3339.
private struct Book {
    var facts: [Fact] = []
    private(set) var time: UInt64 = 0

    static let month = Terms(kind: .nonRenewing(group: "random", duration: CalendarDuration(months: 1)))
    static let quarter = Terms(kind: .nonRenewing(group: "random", duration: CalendarDuration(months: 3)))
    static let owl = Terms(kind: .nonConsumable)
    static let coins = Terms(kind: .consumable(units: 5))

    private mutating func stamp(_ signedAt: String?) throws -> Stamp {
        time += 1
        return Stamp(signedDate: try signedAt.map(Book.date), logicalTime: LogicalTime(rawValue: time))
    }

    static func date(_ text: String) throws -> Timestamp {
        try Timestamp(text.count > 5 ? text : "2026-\(text)T00:00:00Z")
    }

    mutating func buy(
        _ id: TransactionID, _ terms: Terms?, at date: String, quantity: Int64 = 1, bonus: CalendarDuration = .zero,
        product: ProductID = "p", signedAt: String? = nil, environment: EnvironmentID = .production
    ) throws {
        var terms = terms
        terms?.bonus = bonus
        facts.append(
            .purchase(
                Purchase(
                    transaction: TransactionReference(environment: environment, id: id), product: product,
                    terms: terms, date: try Book.date(date), quantity: quantity, stamp: try stamp(signedAt))))
    }

    mutating func revoke(_ id: TransactionID, at date: String?, signedAt: String? = nil) throws {
        facts.append(
            .revocation(
                Revocation(
                    transaction: TransactionReference(id: id), revokedAt: try date.map(Book.date),
                    stamp: try stamp(signedAt))))
    }

    mutating func assert(until: String, at date: String) throws {
        facts.append(
            .assertion(
                Assertion(
                    Assertion.Reference(group: "random", source: "parse", until: try Book.date(until)),
                    assertedAt: try Book.date(date), recordedAt: try Book.date(date), replica: Book.replica,
                    logicalTime: try stamp(nil).logicalTime)))
    }

    mutating func spend(_ id: SpendID, _ units: Int64) throws {
        facts.append(
            .spend(
                Spend(
                    id: id, product: "p", units: units, date: try Book.date("01-01"), replica: Book.replica,
                    logicalTime: try stamp(nil).logicalTime)))
    }

    mutating func mark(_ product: ProductID, isSet: Bool) throws {
        facts.append(
            .flag(
                Flag(
                    product: product, isSet: isSet, date: try Book.date("01-01"), replica: Book.replica,
                    logicalTime: try stamp(nil).logicalTime)))
    }

    mutating func reset(_ environment: EnvironmentID) throws {
        facts.append(
            .reset(
                EnvironmentReset(
                    environment: environment, date: try Book.date("01-01"), logicalTime: try stamp(nil).logicalTime)))
    }

    private static let replica: ReplicaID = {
        var random = SplitMix64(seed: 1)
        return .random(using: &random)
    }()

    var ledger: ModelLedger { get throws { try Ledger(facts.map(\.record)).modelled } }

    var replay: ModelReplay { get throws { ModelReplay(account: try ledger) } }

    /// The start and the end of each span.
    func coverage() throws -> [String] {
        try replay.coverage(of: "random").map {
            "\(Timestamp(milliseconds: $0.start)) – \(Timestamp(milliseconds: $0.end))"
        }
    }
}

private func days(_ start: String, _ end: String) -> String {
    "2026-\(start)T00:00:00.000Z – 2026-\(end)T00:00:00.000Z"
}

@Suite("The model on the design's examples")
struct ModelExampleTests {
    @Test("A on 1 January and B on 1 February, three months each, A refunded on 1 March: active to 1 June")
    func refund() throws {
        var book = Book()
        try book.buy("A", Book.quarter, at: "01-01")
        try book.buy("B", Book.quarter, at: "02-01")
        #expect(try book.coverage() == [days("01-01", "07-01")])
        try book.revoke("A", at: "03-01")
        #expect(try book.coverage() == [days("01-01", "06-01")])
        try book.revoke("A", at: nil)
        #expect(try book.coverage() == [days("01-01", "07-01")])
    }

    @Test("31 January + 1 month is 1 March 00:00; three months at once end on 1 May; a lapse leaves a gap")
    func months() throws {
        var book = Book()
        try book.buy("A", Book.month, at: "2026-01-31T09:30:00Z")
        #expect(try book.coverage() == ["2026-01-31T09:30:00.000Z – 2026-03-01T00:00:00.000Z"])
        book = Book()
        try book.buy("A", Book.month, at: "01-31", quantity: 3)
        #expect(try book.coverage() == [days("01-31", "05-01")])
        book = Book()
        try book.buy("B", Book.month, at: "03-10")
        try book.buy("A", Book.month, at: "01-01")
        #expect(try book.coverage() == [days("01-01", "02-01"), days("03-10", "04-10")])
        let replay = try book.replay
        let gap = try Book.date("02-10").milliseconds
        #expect(try replay.end("random", at: gap) == Book.date("02-01").milliseconds)
        #expect(!replay.isActive("random", at: gap))
        #expect(try replay.end("random", at: Book.date("03-10").milliseconds) == Book.date("04-10").milliseconds)
        #expect(replay.end("random", at: 0) == nil)
        #expect(replay.coverage(of: "other").isEmpty)
    }

    @Test("Three months bought on two devices on one day are six months; each purchase has one bonus")
    func stacking() throws {
        var book = Book()
        try book.buy("phone", Book.quarter, at: "01-01")
        try book.buy("tablet", Book.quarter, at: "01-01")
        #expect(try book.coverage() == [days("01-01", "07-01")])
        book = Book()
        try book.buy("A", Book.month, at: "01-01", quantity: 2, bonus: CalendarDuration(days: 1))
        try book.buy("B", Book.month, at: "01-01", bonus: CalendarDuration(days: 1))
        #expect(try book.coverage() == [days("01-01", "04-03")])
    }

    @Test("Three months bought on 1 January extend an assertion until 10 February to 10 May; an echo adds nothing")
    func assertions() throws {
        var book = Book()
        try book.assert(until: "02-10", at: "2025-12-01T00:00:00Z")
        try book.buy("A", Book.quarter, at: "01-01")
        #expect(try book.coverage() == ["2025-12-01T00:00:00.000Z – 2026-05-10T00:00:00.000Z"])
        try book.assert(until: "05-10", at: "01-01")
        #expect(try book.coverage() == ["2025-12-01T00:00:00.000Z – 2026-05-10T00:00:00.000Z"])
        // An assertion made on the day of a purchase follows it.
        book = Book()
        try book.assert(until: "02-10", at: "01-01")
        try book.buy("A", Book.quarter, at: "01-01")
        #expect(try book.coverage() == [days("01-01", "04-01")])
    }

    @Test("An unsigned statement cannot revoke a signed purchase")
    func signatures() throws {
        var book = Book()
        try book.buy("A", Book.month, at: "01-01", signedAt: "01-01")
        try book.revoke("A", at: "01-10")
        #expect(try book.coverage() == [days("01-01", "02-01")])
        try book.revoke("A", at: "01-16", signedAt: "01-16")
        try book.revoke("A", at: nil)
        #expect(try book.coverage() == [days("01-01", "01-16")])
        try book.revoke("A", at: nil, signedAt: "01-20")
        try book.revoke("A", at: "01-16", signedAt: "01-16")
        #expect(try book.coverage() == [days("01-01", "02-01")])
    }

    @Test("A purchase without terms has those of the catalogue, and one out of bounds does not count")
    func terms() throws {
        var book = Book()
        try book.buy("A", nil, at: "01-01", product: "month")
        #expect(try book.coverage().isEmpty)
        let month = ModelTerms(kind: .nonRenewing, group: "random", duration: ModelDuration(months: 1))
        let valued = ModelReplay(account: try book.ledger, catalogue: ["month": month])
        #expect(valued.coverage(of: "random").count == 1)
        try book.buy("B", Book.month, at: "01-01", quantity: 10_001)
        let century = CalendarDuration(months: 1_200, seconds: 1)
        try book.buy("C", Terms(kind: .nonRenewing(group: "random", duration: century)), at: "01-01")
        #expect(try book.coverage().isEmpty)
        try book.buy("D", Book.month, at: "01-01", quantity: 10_000)
        try book.buy("E", Book.month, at: "01-02", quantity: 10_000, environment: .sandbox)
        #expect(
            try book.replay.coverage(of: "random").map(\.end) == [try Book.date("2859-05-01T00:00:00Z").milliseconds])
    }

    @Test("A product is owned if it was bought and not revoked, or its flag was ever set")
    func ownership() throws {
        var book = Book()
        try book.buy("A", Book.owl, at: "01-10")
        #expect(try book.replay.owns("p"))
        #expect(try !book.replay.owns("p", at: Book.date("01-09").milliseconds))
        try book.revoke("A", at: "02-01")
        #expect(try !book.replay.owns("p"))
        #expect(try book.replay.owns("p", at: Book.date("01-31").milliseconds))
        try book.mark("q", isSet: false)
        #expect(try !book.replay.owns("q"))
        try book.mark("q", isSet: true)
        try book.mark("q", isSet: false)
        #expect(try book.replay.owns("q"))
        // Canonically equivalent spellings are different products.
        try book.mark("caf\u{E9}", isSet: true)
        #expect(try book.replay.owns("caf\u{E9}") && !book.replay.owns("cafe\u{301}"))
    }

    @Test("Two devices with 5 shared units spend 4 each: 3 are written off, and the next 5 are all available")
    func units() throws {
        var book = Book()
        try book.buy("A", Book.coins, at: "01-01")
        try book.spend("phone", 4)
        #expect(try book.replay.balance(of: "p", .shared) == 1)
        try book.spend("tablet", 4)
        #expect(try book.replay.balance(of: "p", .shared) == 0)
        try book.buy("B", Book.coins, at: "01-02")
        #expect(try book.replay.balance(of: "p", .shared) == 5)
        #expect(try book.replay.balance(of: "p", .deviceLocal) == 0)
        let onDevice = ModelReplay(account: ModelLedger(), device: try book.ledger)
        #expect(onDevice.balance(of: "p", .deviceLocal) == 5)
        #expect(try onDevice.balance(of: "p", .deviceLocal, at: Book.date("01-01").milliseconds) == 0)
        #expect(onDevice.facts.spendIDs == ["phone", "tablet"] && onDevice.facts.transactionIDs == ["A", "B"])
    }

    @Test("A reset voids a test environment but not production, and an erased ledger grants nothing")
    func environments() throws {
        var book = Book()
        try book.buy("A", Book.month, at: "01-01", environment: .sandbox)
        try book.buy("B", Book.month, at: "01-01")
        try book.reset(.sandbox)
        try book.reset(.production)
        #expect(try book.coverage() == [days("01-01", "02-01")])
        #expect(ModelReplay(account: try book.ledger, environment: "sandbox").coverage(of: "random").isEmpty)
        try book.buy("C", Book.month, at: "03-01", environment: .sandbox)
        #expect(ModelReplay(account: try book.ledger, environment: "sandbox").coverage(of: "random").count == 1)
        var erased = ModelLedger()
        erased.isErased = true
        #expect(ModelReplay(account: erased, device: try book.ledger).coverage(of: "random").isEmpty)
    }
}
