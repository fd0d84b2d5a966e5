import Entitlements
import ParseFacade
import SyncCoreTesting
import SyncService

/// A kind of history of an account with old apps.
enum HistoryRow: String, CaseIterable, Sendable {
    case twoOldDevices, concurrentPurchases, sharedPhone, retries, lostAnswers, wrongClocks, newVersion, storeKitFirst
}

/// The outcome of a history: the difference between the account's end and the end that its purchases give.
struct HistoryOutcome {
    var isLoss = false
    var isGain = false
}

/// One random history of a row, run against any server with the same choices for the same seed.
struct ExpiryHistory<Server: DateServer> {
    private static var day: Int64 { 86_400_000 }

    let row: HistoryRow
    let catalog: Catalog
    var server: Server
    private var generator: SeededGenerator
    private var now = Timestamp(milliseconds: 1_700_000_000_000)
    private var devices: [OldDevice]
    /// The true purchases of each account.
    private var sold: [String: [Purchase]] = [:]
    private var restored: Set<TransactionReference> = []

    init(_ row: HistoryRow, seed: UInt64, catalog: Catalog, server: Server) {
        (self.row, self.catalog, self.server) = (row, catalog, server)
        generator = SeededGenerator(seed: seed)
        devices = [OldDevice(installation: "i0"), OldDevice(installation: "i1")]
        if row == .sharedPhone { devices = [OldDevice(installation: "i0")] }
        if row == .wrongClocks { devices[0].clockOffset = Int64.random(in: -400...400, using: &generator) * Self.day }
        for index in devices.indices where Int.random(in: 0..<3, using: &generator) == 0 {
            devices[index].addsToPast = true
        }
    }

    /// Runs the history.
    mutating func run(steps: Int = 8) -> HistoryOutcome {
        for _ in 0..<steps { step() }
        now = Timestamp(milliseconds: now.milliseconds + 2 * 3_600_000)
        for index in devices.indices { devices[index].sync(&server, at: now) }
        if row == .newVersion { restore() }
        var outcome = HistoryOutcome()
        for account in Set(devices.map(\.account)).union(sold.keys) {
            let ledger = Ledger((sold[account] ?? []).map { Fact.purchase($0).record })
            let right = Replay(Facts(account: ledger), catalog: catalog).snapshot(at: now)[group: "random"]?
                .periods.map(\.end).max()
            let end = server.read(account, by: "none", at: now)
            // An end in the past gives nothing to gain or to lose.
            let difference = max(end ?? now, now).milliseconds - max(right ?? now, now).milliseconds
            if difference < -6 * Self.day { outcome.isLoss = true }
            if difference > 6 * Self.day { outcome.isGain = true }
        }
        return outcome
    }

    private mutating func step() {
        let pause = Int64.random(in: 2...90, using: &generator) * Self.day / 2
        now = Timestamp(milliseconds: now.milliseconds + pause)
        let index = Int.random(in: 0..<devices.count, using: &generator)
        let choice = Int.random(in: 0..<10, using: &generator)
        if row == .sharedPhone, choice < 4 { devices[index].account = devices[index].account == "owl" ? "bat" : "owl" }
        if choice < 4 { return devices[index].sync(&server, at: now) }
        if row == .newVersion, choice < 6 { return restore() }
        let isOnline = row == .newVersion || row == .storeKitFirst || choice < 8
        if row == .concurrentPurchases {
            for index in devices.indices { devices[index].sync(&server, at: now) }
            let dates = devices.indices.map { buy(on: $0, isOnline: true) }
            for (index, date) in dates.enumerated() { write(date, on: index) }
            return
        }
        let date = buy(on: index, isOnline: isOnline)
        if isOnline { return write(date, on: index) }
        devices[index].waiting.append(date)
        // A store needs a connection, so only the app's own server is out of reach, for some hours. Others buy then.
        for other in devices.indices where other != index && Bool.random(using: &generator) {
            let isOnline = Bool.random(using: &generator)
            let date = buy(on: other, isOnline: isOnline)
            if isOnline { write(date, on: other) } else { devices[other].waiting.append(date) }
        }
        now = Timestamp(milliseconds: now.milliseconds + Int64.random(in: 1...24, using: &generator) * 3_600_000)
        for index in devices.indices.shuffled(using: &generator) { devices[index].sync(&server, at: now) }
    }

    private mutating func buy(on index: Int, isOnline: Bool) -> Timestamp {
        let product = catalog.products.filter { $0.kind.group == "random" }.randomElement(using: &generator)
        guard let product, case .nonRenewing(_, let duration) = product.kind else { return now }
        let account = devices[index].account
        let purchase = Purchase(
            transaction: TransactionReference(
                store: "appstore", id: TransactionID("\(account) \(sold[account]?.count ?? 0)")),
            product: product.id, terms: catalog.terms(of: product.id), date: now,
            stamp: Stamp(logicalTime: LogicalTime.zero.next(at: now)))
        sold[account, default: []].append(purchase)
        let date = devices[index].buy(duration, &server, isOnline: isOnline, at: now)
        if row == .storeKitFirst {
            if server is RuleServer { server.state(purchase, of: account, at: now) }
            now = Timestamp(milliseconds: now.milliseconds + Int64.random(in: 1...60, using: &generator) * 1_000)
        }
        return date
    }

    private mutating func write(_ date: Timestamp, on index: Int) {
        let (account, installation) = (devices[index].account, devices[index].installation)
        now = Timestamp(milliseconds: now.milliseconds + 2_000)
        server.write(date, to: account, by: installation, at: now)
        guard row == .retries || row == .lostAnswers else { return }
        for _ in 0..<Int.random(in: 0...2, using: &generator) {
            now = Timestamp(milliseconds: now.milliseconds + 5_000)
            server.write(date, to: account, by: installation, at: now)
        }
        // A replay from disk, after other writes.
        if row == .retries, Bool.random(using: &generator) { devices[index].waiting.append(date) }
        // The app that got no answer writes its local date again when it starts.
        if row == .lostAnswers { devices[index].sync(&server, at: now) }
    }

    /// A new version of the app restores all transactions of the store.
    private mutating func restore() {
        for purchase in sold["owl"] ?? [] where restored.insert(purchase.transaction).inserted {
            server.state(purchase, of: "owl", at: now)
        }
    }
}
