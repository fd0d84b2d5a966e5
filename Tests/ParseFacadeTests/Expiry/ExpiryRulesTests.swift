import Entitlements
import Testing
import WrittenDates

@Suite("The rules for written expiry dates")
struct ExpiryRulesTests {
    private let rules: ExpiryRules
    private let now: Timestamp
    private static let (three, six): (ProductID, ProductID) = (
        "com.back40.InsomniOwl.3monthsOfRandom", "com.back40.InsomniOwl.6monthsOfRandom"
    )

    init() throws {
        rules = try #require(ExpiryRules(try tutorialCatalog(), group: "random"))
        now = try Timestamp("2026-01-15T12:00:00Z")
    }

    private func at(_ text: String) throws -> Timestamp { try Timestamp(text + "T12:00:00Z") }

    /// The outcome of a written date for an installation that was served and has written dates.
    private func outcome(
        _ written: Timestamp, served: [Timestamp] = [], written earlier: [Timestamp] = [], end: Timestamp? = nil,
        others: [Timestamp] = [], repeated: Bool = false
    ) -> ExpiryRules.Outcome {
        var own = SeenDates()
        for (index, date) in served.enumerated() {
            _ = own.rememberServed(date, at: Timestamp(milliseconds: now.milliseconds - 1_000 + Int64(index)))
        }
        for (index, date) in earlier.enumerated() {
            _ = own.rememberWritten(date, at: Timestamp(milliseconds: now.milliseconds - 500 + Int64(index)))
        }
        var situation = ExpiryRules.Situation(own: own, now: now)
        (situation.end, situation.isRepeated) = (end, repeated)
        var other = SeenDates()
        for date in others { _ = other.rememberServed(date, at: now) }
        situation.others = [other]
        return rules.outcome(of: written, in: situation)
    }

    @Test("R1: a date that was written before means nothing, also if a later date was served meanwhile")
    func repeated() throws {
        let (base, date) = (try at("2026-02-01"), try at("2026-05-01"))
        #expect(outcome(date, served: [base], end: base) == .purchase(Self.three))
        #expect(outcome(date, served: [base], end: base, repeated: true) == .nothing(.repeated))
    }

    @Test("R2: an echo means nothing, but two devices that were served one date and write the same one both bought")
    func echo() throws {
        let (base, date) = (try at("2026-02-01"), try at("2026-05-01"))
        #expect(outcome(base, served: [base], end: base) == .nothing(.echo))
        #expect(outcome(date, written: [date], end: date) == .nothing(.echo))
        // Another device has bought first, so the end equals the written date.
        #expect(outcome(date, served: [base], end: date, others: [base, date]) == .purchase(Self.three))
    }

    @Test("R3: the last date of the installation is the base, so another device's purchase does not change the product")
    func bases() throws {
        let base = try at("2026-02-01")
        // From the end, the same date would be three months.
        #expect(outcome(try at("2026-08-01"), served: [base], end: try at("2026-05-01")) == .purchase(Self.six))
        // Two purchases offline, one after the other.
        let first = try at("2026-05-01")
        #expect(outcome(try at("2026-08-01"), served: [base], written: [first], end: first) == .purchase(Self.three))
        // A product after now to the minute, although a longer one after the last date is some hours off.
        let past = try Timestamp("2025-10-15T23:00:00Z")
        #expect(outcome(try at("2026-04-15"), served: [past], end: past) == .purchase(Self.three))
        // A first purchase.
        #expect(outcome(try at("2026-04-15")) == .purchase(Self.three))
        // The sample of 2016 adds to a date that is long past.
        #expect(outcome(try at("2025-05-01"), served: [try at("2025-02-01")]) == .purchase(Self.three))
        // The device adds months in its own time zone, and clamps to the end of a month.
        let clamped = try at("2026-02-28")
        #expect(outcome(clamped, served: [try at("2025-11-30")]) == .purchase(Self.three))
    }

    @Test("R4: the sum of two products stands for a write that was lost")
    func sum() throws {
        let base = try at("2026-02-01")
        #expect(
            outcome(try at("2026-11-01"), served: [base], end: base)
                == .assertion(until: try at("2026-11-01"), isConflict: false))
    }

    @Test("R5: a first purchase by a clock that is some weeks wrong is a purchase now")
    func wrongClock() throws {
        #expect(outcome(try at("2026-05-10")) == .purchase(Self.three))
        #expect(outcome(try at("2026-06-25")) == .purchase(Self.six))
    }

    @Test("R6: any other later date counts for one product at most, and is a conflict")
    func conflict() throws {
        #expect(
            outcome(try at("2036-01-01"), end: try at("2026-02-01"))
                == .assertion(until: try at("2026-08-01"), isConflict: true))
    }

    @Test("R8: a lower date means nothing")
    func lower() throws {
        let base = try at("2028-02-01")
        #expect(outcome(try at("2026-02-20"), served: [base], end: base) == .nothing(.lower))
    }

    @Test("A date keeps the time at which it was seen first when it is served again, and in several accounts together")
    func firstTimes() throws {
        let (first, second) = (try at("2026-05-01"), try at("2026-08-01"))
        var seen = SeenDates()
        for (date, time) in [(first, 1), (second, 2), (first, 3)] as [(Timestamp, Int64)] {
            _ = seen.rememberServed(date, at: Timestamp(milliseconds: time))
        }
        #expect(seen.served.map(\.at) == [2, 3] && seen.served.map(\.first) == [nil, 1])
        var other = SeenDates()
        _ = other.rememberServed(second, at: Timestamp(milliseconds: 5))
        let joined = SeenDates(joining: [seen, other])
        #expect(joined.served.map(\.at) == [3, 5] && joined.served.map(\.first) == [1, 2])
    }

    private func purchase(_ id: String, _ product: ProductID, seconds: Int64, store: StoreID) throws -> Fact {
        .purchase(
            Purchase(
                transaction: TransactionReference(store: store, id: TransactionID(id)), product: product,
                terms: try tutorialCatalog().terms(of: product),
                date: Timestamp(milliseconds: now.milliseconds + seconds * 1_000),
                stamp: Stamp(logicalTime: LogicalTime(rawValue: 1))))
    }

    /// The end of the group after the server has matched derived purchases with those of the store.
    private func end(_ facts: [Fact]) throws -> Timestamp? {
        let catalog = try tutorialCatalog()
        let account = Ledger(facts.map(\.record))
        var server = ServerLedger()
        for _ in 0..<2 { server.refuseDerivedPurchases(of: account, catalog: catalog, at: now) }
        let replay = Replay(Facts(account: account, server: server.ledger), catalog: catalog)
        return replay.snapshot(at: now)[group: "random"]?.periods.map(\.end).max()
    }

    @Test("R7: a transaction that is another purchase stays one when the store names it anew on another device")
    func restoredCopy() throws {
        let derivedID = "0123456789abcdef0123456789abcdef"
        let derived = try purchase(derivedID, Self.three, seconds: 0, store: "parse")
        let catalog = try tutorialCatalog()
        func sold(_ id: String, signed: Int64) throws -> Purchase {
            let date = Timestamp(milliseconds: now.milliseconds - 20_000)
            return Purchase(
                transaction: TransactionReference(store: .appStore, id: TransactionID(id)), product: Self.three,
                terms: catalog.terms(of: Self.three), date: date, originalID: "1",
                storeExpiry: date.adding(CalendarDuration(months: 3)),
                stamp: Stamp(
                    signedDate: Timestamp(milliseconds: now.milliseconds + signed),
                    logicalTime: LogicalTime(rawValue: 1)))
        }
        let (first, copy) = (try sold("2", signed: 0), try sold("3", signed: 1_000))
        let distinction = Recording(
            transaction: first.transaction, replica: try #require(ReplicaID(bytes: Array(derivedID.utf8.prefix(16)))),
            recordedAt: now, knownEnd: nil, logicalTime: LogicalTime(rawValue: 2))
        func count(_ facts: [Fact]) -> Int {
            var server = ServerLedger()
            server.refuseDerivedPurchases(of: Ledger(facts.map(\.record)), catalog: catalog, at: now)
            return server.facts.count { if case .acceptance = $0 { true } else { false } }
        }
        #expect(count([derived, .purchase(first), .purchase(copy)]) == 1)
        #expect(count([derived, .purchase(first), .purchase(copy), .recording(distinction)]) == 0)
        #expect(count([derived, .purchase(copy), .recording(distinction)]) == 1)
    }

    @Test("R7: of the known transactions that are other purchases, the 64 nearest are recorded as such")
    func distinctions() throws {
        let sold = try (0..<70).map { number in
            try purchase("s\(number)", Self.six, seconds: -1 - Int64(number), store: "app-store")
        }
        let written = WrittenDate(
            now.adding(CalendarDuration(months: 3)), of: "random", id: "0123456789abcdef0123456789abcdef",
            seen: SeenDates(), own: SeenDates(), others: [], now: now)
        let (outcome, facts) = written.outcome(
            Facts(account: Ledger(sold.map(\.record))), rules: rules, catalog: try tutorialCatalog())
        let recorded = facts.compactMap { fact -> TransactionID? in
            guard case .recording(let recording) = fact else { return nil }
            return recording.transaction.id
        }
        #expect(outcome == .purchase(Self.three) && facts.count == 65)
        #expect(Set(recorded) == Set((0..<64).map { TransactionID("s\($0)") }))
    }

    @Test("R7: a transaction of the store in the hour before it is the derived purchase, one to one")
    func match() throws {
        let derived = try purchase("d", Self.three, seconds: 0, store: "parse")
        let sold = try purchase("s", Self.three, seconds: -20, store: "app-store")
        #expect(try end([derived, sold]) == Timestamp("2026-04-15T11:59:40Z"))
        // Two purchases within the hour, and one transaction so far.
        let second = try purchase("d2", Self.three, seconds: 60, store: "parse")
        #expect(try end([derived, second, sold]) == Timestamp("2026-07-15T11:59:40Z"))
        // More than an hour apart, and after the app has written.
        for seconds: Int64 in [-3_601, 31, 3_700] {
            let other = try purchase("s", Self.three, seconds: seconds, store: "app-store")
            let start = Timestamp(milliseconds: min(0, seconds) * 1_000 + now.milliseconds)
            #expect(try end([derived, other]) == start.adding(CalendarDuration(months: 6)), "\(seconds)")
        }
        // The clocks of two servers differ, and the hour has not passed.
        for seconds: Int64 in [-3_600, 30] {
            let other = try purchase("s", Self.three, seconds: seconds, store: "app-store")
            let start = Timestamp(milliseconds: seconds * 1_000 + now.milliseconds)
            #expect(try end([derived, other]) == start.adding(CalendarDuration(months: 3)), "\(seconds)")
        }
        // A longer one is no part of it.
        let longer = try purchase("s", Self.six, seconds: -20, store: "app-store")
        #expect(try end([derived, longer]) == Timestamp("2026-10-15T11:59:40Z"))
        // A sum: the store knows of three months, and later of three more.
        let sum = try purchase("d", Self.six, seconds: 0, store: "parse")
        #expect(try end([sum, sold]) == Timestamp("2026-07-15T12:00:00Z"))
        let other = try purchase("s2", Self.three, seconds: 30, store: "app-store")
        #expect(try end([sum, sold, other]) == Timestamp("2026-07-15T12:00:00Z"))
        // A further purchase after the sum comes on top of it.
        let further = try purchase("s2", Self.three, seconds: 60, store: "app-store")
        #expect(try end([sum, sold, further]) == Timestamp("2026-10-15T12:00:00Z"))
    }
}
