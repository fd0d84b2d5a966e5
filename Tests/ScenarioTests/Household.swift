import EntitlementSync
import Entitlements
import Foundation
import SyncCore
import SyncCoreTesting
import Synchronization

/// A day that tests set, for the clock of every device.
final class Calendar: Sendable {
    private let day: Mutex<Timestamp>

    init(_ day: String) throws { self.day = Mutex(try Timestamp(day)) }

    var now: Timestamp { day.withLock { $0 } }

    func set(_ day: String) throws {
        let instant = try Timestamp(day)
        self.day.withLock { $0 = instant }
    }
}

/// The tutorial app's buyer: devices with stores of their own, and one remote whose requests are counted.
struct Household {
    static let threeMonths: ProductID = "com.back40.InsomniOwl.3monthsOfRandom"
    static let sixMonths: ProductID = "com.back40.InsomniOwl.6monthsOfRandom"
    static let nightOwl: ProductID = "com.back40.InsomniOwl.NightOwl"
    static let units: ProductID = "com.back40.InsomniOwl.RandomOwls"
    static let randomOwls: EntitlementID = "random-owls"

    let calendar: Calendar
    let remote = CountingBackend(MemoryBackend())
    let catalog: Catalog

    init(on day: String, rules: ConflictRules = ConflictRules()) throws {
        calendar = try Calendar(day)
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let example = try Catalog.json(at: root.appending(path: "Examples/insomniowl.json"))
        catalog = try Catalog(
            products: example.products, entitlements: example.entitlements, policy: Policy(rules: rules))
    }

    /// A device of alice's; `local` is what it kept from before, if anything.
    func device(_ seed: UInt64, local: any KeyValueBackend = MemoryBackend(), catalog: Catalog? = nil) async throws
        -> EntitlementStore
    {
        let generator = Mutex(SeededGenerator(seed: seed))
        let host = HostServices(
            now: { [calendar] in calendar.now.milliseconds }, timer: ContinuousClock(),
            randomBits: { generator.withLock { $0.next() } })
        return try await EntitlementStore(
            catalog: catalog ?? self.catalog, local: local, remote: remote, account: try Account("alice"), host: host)
    }
}

extension EntitlementStore {
    /// The end of the random owls, as a date or nothing.
    func end() async throws -> String? {
        try await snapshot()[group: "random"]?.expires.map { String("\($0)".prefix(10)) }
    }
}

/// Everything a store holds, to see whether anything was changed.
func contents(of backend: any KeyValueBackend) async throws -> [EntryKey: Entry] {
    var entries: [EntryKey: Entry] = [:]
    for item in try await backend.list(prefix: "", after: nil, limit: 1_000).outcome.items {
        if case .found(let entry) = try await backend.read(item.key).outcome { entries[item.key] = entry }
    }
    return entries
}
