#if Parse
package import Entitlements
import SyncCoreTesting
import WrittenDates

/// One random history of accounts that old apps use, against any server.
///
/// A seed gives every server the same purchases, devices and faults. The apps behave like those of the tutorials: they
/// keep one date on the device and on the server, add months to the later one, and keep no purchases.
package struct OldAppHistory<Server: DateServer> {
    private struct Device {
        let installation: String
        var account = "owl"
        /// The date in the app's user defaults.
        var local: Timestamp?
        /// The difference between its clock and the true time, in milliseconds.
        var clockOffset: Int64 = 0
        /// True for the sample of 2016, which adds months to a date in the past.
        var addsToPast = false
        /// The writes that wait for a connection.
        var waiting: [Timestamp] = []
        /// The writes that are repeated at the end.
        var replays: [Timestamp] = []
    }

    private let kind: OldAppKind
    private let catalog: Catalog
    private let group: GroupID
    private let isRecording: Bool
    private var server: Server
    private var generator: SeededGenerator
    private var now = Timestamp(milliseconds: 1_700_000_000_000)
    private var devices: [Device]
    /// The true purchases of each account.
    private var sold: [String: [Purchase]] = [:]
    /// The imported end of the account, a fact about what was paid before.
    private var imported: Fact?
    private var restored: Set<TransactionReference> = []
    /// A line for each event, if the history is recorded.
    package private(set) var lines: [String] = []

    /// The history of a seed.
    ///
    /// - Parameters:
    ///   - catalog: A catalogue with non-renewing products in `group`.
    ///   - isRecording: True to keep a line for each event.
    package init(
        _ kind: OldAppKind, seed: UInt64, catalog: Catalog, group: GroupID, server: Server, isRecording: Bool = false
    ) {
        (self.kind, self.catalog, self.group, self.server) = (kind, catalog, group, server)
        self.isRecording = isRecording
        generator = SeededGenerator(seed: seed)
        devices = [Device(installation: "phone"), Device(installation: "tablet")]
        if kind.isShared { devices.removeLast() }
        let skew: Int64 = kind == .wrongClocks ? 400 : kind == .skewedClocks ? 20 : 0
        if skew > 0 { devices[0].clockOffset = Int64.random(in: -skew...skew, using: &generator) * dayLength }
        for index in devices.indices where Int.random(in: 0..<3, using: &generator) == 0 {
            devices[index].addsToPast = true
        }
        if kind == .importedDates { importDate() }
    }

    private mutating func importDate() {
        let date = Timestamp(
            milliseconds: now.milliseconds + Int64.random(in: -200_000...400_000, using: &generator) * 86_400)
        server.importDate(date, of: "owl", at: now)
        imported = RuleServer.assertion(
            date, of: group, by: WrittenDate.importSource, at: now, LogicalTime.zero.next(at: now))
        for index in devices.indices where Bool.random(using: &generator) { devices[index].local = date }
        trace { _ in "owl is imported with \(date)" }
    }

    /// Runs the history.
    package mutating func run() -> OldAppOutcome {
        for _ in 0..<(kind == .retries ? 32 : 8) { step() }
        wait(milliseconds: 2 * 3_600_000)
        for index in devices.indices {
            sync(index)
            for date in devices[index].replays { write(date, on: index) }
        }
        if kind == .newVersion { restore() }
        if [.lostWrites, .bothVersions, .differentProducts, .sameProduct].contains(kind) {
            restore(atMost: Int.random(in: 0...(sold["owl"]?.count ?? 0), using: &generator))
        }
        var outcome = OldAppOutcome()
        for account in Set(devices.map(\.account)).union(sold.keys).sorted() {
            let facts = (sold[account] ?? []).map { Fact.purchase($0) } + [imported].compactMap { $0 }
            let ledger = Ledger(facts.map(\.record))
            let paid = WrittenDate.end(of: group, Replay(Facts(account: ledger), catalog: catalog))
            let end = server.date(of: account, at: now)
            trace { "\(account) has \($0.text(end)), paid until \($0.text(paid))" }
            // Ends in the past are equal: none of them grants access.
            let difference = max(end ?? now, now).milliseconds - max(paid ?? now, now).milliseconds
            if difference < -tolerance { outcome.lost = max(outcome.lost, -difference) }
            if difference > tolerance { outcome.gained = max(outcome.gained, difference) }
        }
        return outcome
    }

    private mutating func step() {
        wait(milliseconds: Int64.random(in: dayLength...45 * dayLength, using: &generator))
        let index = Int.random(in: 0..<devices.count, using: &generator)
        let choice = Int.random(in: 0..<10, using: &generator)
        if kind.isShared, choice < 4 { devices[index].account = devices[index].account == "owl" ? "bat" : "owl" }
        if choice < 4 { return sync(index) }
        if kind == .newVersion, choice < 6 { return restore() }
        if kind == .concurrentPurchases {
            for index in devices.indices { sync(index) }
            let dates = devices.indices.map { buy(on: $0, isOnline: true) }
            for (index, date) in dates.enumerated() { writeAtOnce(date, on: index) }
            return
        }
        if kind == .lostWrites {
            let first = buy(on: index, isOnline: true)
            trace { "\($0.place(of: index)) loses the write of \(first)" }
            wait(milliseconds: Int64.random(in: 60_000...600_000, using: &generator))
            return writeAtOnce(buy(on: index, isOnline: true), on: index)
        }
        if kind == .bothVersions { return buyInBothVersions() }
        if kind == .differentProducts || kind == .sameProduct { return buyUnseen(on: index) }
        let isOnline = kind == .newVersion || kind.isNotifiedFirst || choice < 8
        let date = buy(on: index, isOnline: isOnline)
        if isOnline { return writeAtOnce(date, on: index) }
        devices[index].waiting.append(date)
        // A store needs a connection, so only the app's own server is out of reach, for some hours. Others buy then.
        for other in devices.indices where other != index && Bool.random(using: &generator) {
            let isOnline = Bool.random(using: &generator)
            let date = buy(on: other, isOnline: isOnline)
            if isOnline { writeAtOnce(date, on: other) } else { devices[other].waiting.append(date) }
        }
        wait(milliseconds: Int64.random(in: 3_600_000...dayLength, using: &generator))
        for index in devices.indices.shuffled(using: &generator) { sync(index) }
    }

    /// Old apps and a new version on another device buy within an hour, one after the other.
    private mutating func buyInBothVersions() {
        for _ in 0..<Int.random(in: 2...4, using: &generator) {
            let index = devices.indices.randomElement(using: &generator) ?? 0
            if Bool.random(using: &generator) {
                writeAtOnce(buy(on: index, isOnline: true), on: index)
            } else {
                guard let product = randomProduct() else { return }
                report(sell(product, to: devices[index].account))
            }
            wait(milliseconds: Int64.random(in: 60_000...900_000, using: &generator))
        }
    }

    /// A new version buys after an old app has bought without a connection, and before that app writes its date.
    private mutating func buyUnseen(on index: Int) {
        sync(index)
        let products = catalog.products.filter { $0.kind.group == group }.shuffled(using: &generator)
        guard let old = products.first, let new = kind == .sameProduct ? old : products.last else { return }
        let date = buy(old, on: index, isOnline: false)
        wait(milliseconds: Int64.random(in: 60_000...1_200_000, using: &generator))
        let purchase = sell(new, to: devices[index].account)
        // A shorter purchase that is reported later can be a part of the old app's.
        let (added, known) = (now.adding(duration(of: new)), now.adding(duration(of: old)))
        let isLate = added >= known && Bool.random(using: &generator)
        if !isLate { report(purchase) }
        wait(milliseconds: Int64.random(in: 60_000...1_200_000, using: &generator))
        writeAtOnce(date, on: index)
        wait(milliseconds: Int64.random(in: 60_000...600_000, using: &generator))
        if isLate { report(purchase) }
    }

    private func duration(of product: Product) -> CalendarDuration {
        if case .nonRenewing(_, let duration) = product.kind { duration } else { .zero }
    }

    private mutating func randomProduct() -> Product? {
        catalog.products.filter { $0.kind.group == group }.randomElement(using: &generator)
    }

    private mutating func sell(_ product: Product, to account: String) -> Purchase {
        let purchase = Purchase(
            transaction: TransactionReference(
                store: "appstore", id: TransactionID("\(account) \(sold[account]?.count ?? 0)")),
            product: product.id, terms: catalog.terms(of: product.id), date: now,
            stamp: Stamp(logicalTime: LogicalTime.zero.next(at: now)))
        sold[account, default: []].append(purchase)
        return purchase
    }

    /// A new version of the app reports a purchase of its own.
    private mutating func report(_ purchase: Purchase) {
        restored.insert(purchase.transaction)
        server.restore(purchase, to: "owl", at: now)
        trace { _ in "the new version reports \(purchase.product) of \(purchase.date)" }
    }

    /// The app's `purchaseSubscriptionWithMonths`, of a random product. Returns the date to write.
    private mutating func buy(on index: Int, isOnline: Bool) -> Timestamp {
        guard let product = randomProduct() else { return now }
        return buy(product, on: index, isOnline: isOnline)
    }

    /// The app's `purchaseSubscriptionWithMonths`. Returns the date to write.
    private mutating func buy(_ product: Product, on index: Int, isOnline: Bool) -> Timestamp {
        let duration = duration(of: product)
        let purchase = sell(product, to: devices[index].account)
        if isOnline { flush(index) }
        let remote = isOnline ? read(index) : nil
        let own = Timestamp(milliseconds: now.milliseconds + devices[index].clockOffset)
        var base = [devices[index].local, remote].compactMap { $0 }.max() ?? own
        if base < own, !devices[index].addsToPast { base = own }
        let date = base.adding(duration)
        devices[index].local = date
        trace { "\($0.place(of: index)) buys \(product.id) and adds it to \(base)\(isOnline ? "" : ", offline")" }
        if kind.isNotifiedFirst {
            server.receive(purchase, for: devices[index].account, at: now)
            wait(milliseconds: Int64.random(in: 1...60, using: &generator) * 1_000)
        }
        return date
    }

    /// Writes a date while there is a connection.
    private mutating func writeAtOnce(_ date: Timestamp, on index: Int) {
        wait(milliseconds: 2_000)
        write(date, on: index)
        guard kind == .retries || kind == .lostAnswers else { return }
        for _ in 0..<Int.random(in: 0...2, using: &generator) {
            wait(milliseconds: 5_000)
            write(date, on: index)
        }
        // A replay from disk, after other writes.
        if kind == .retries {
            if Bool.random(using: &generator) { devices[index].waiting.append(date) }
            if Bool.random(using: &generator) { devices[index].replays.append(date) }
        }
        // The app that got no answer writes its local date again when it starts.
        if kind == .lostAnswers { sync(index) }
    }

    /// The app's `syncExpiration`: the later date wins, in both directions.
    private mutating func sync(_ index: Int) {
        flush(index)
        let (remote, local) = (read(index), devices[index].local)
        if let remote, remote > local ?? .earliest {
            devices[index].local = remote
        } else if let local, local > remote ?? .earliest {
            write(local, on: index)
        }
    }

    /// Writes the dates that waited for a connection.
    private mutating func flush(_ index: Int) {
        for date in devices[index].waiting { write(date, on: index) }
        devices[index].waiting = []
    }

    private mutating func write(_ date: Timestamp, on index: Int) {
        let effect = server.write(
            date, to: devices[index].account, by: devices[index].installation, at: now)
        trace { "\($0.place(of: index)) writes \(date): \(effect)" }
    }

    private mutating func read(_ index: Int) -> Timestamp? {
        let account = devices[index].account
        let date = server.date(of: account, at: now)
        if let date { server.rememberServed(date, to: devices[index].installation, of: account, at: now) }
        trace { "\($0.place(of: index)) reads \($0.text(date))" }
        return date
    }

    /// A new version of the app restores the store's transactions, the oldest first.
    private mutating func restore(atMost limit: Int = .max) {
        for purchase in (sold["owl"] ?? []).prefix(limit) where restored.insert(purchase.transaction).inserted {
            server.restore(purchase, to: "owl", at: now)
            trace { _ in "the new version restores \(purchase.product) of \(purchase.date)" }
        }
    }

    private mutating func wait(milliseconds: Int64) {
        now = Timestamp(milliseconds: now.milliseconds + milliseconds)
    }

    /// Adds a line to the trace, if the history is recorded.
    private mutating func trace(_ event: (Self) -> String) {
        if isRecording { lines.append("\(now)  \(event(self))") }
    }

    private func text(_ date: Timestamp?) -> String { date.map { "\($0)" } ?? "no date" }

    private func place(of index: Int) -> String { "\(devices[index].installation) of \(devices[index].account)" }
}

/// The number of milliseconds that the end of an account may differ. Apps add months in their own calendar.
private let tolerance = 6 * dayLength
/// The milliseconds of a day.
private let dayLength: Int64 = 86_400_000
#endif
