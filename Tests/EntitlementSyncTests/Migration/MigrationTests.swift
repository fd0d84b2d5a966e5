import EntitlementSync
import Entitlements
import Foundation
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Migration from apps that stored only an expiry date and flags")
struct MigrationTests {
    private static func old(until: String, owned: [ProductID] = [], statedAt: String? = nil) throws -> Migration {
        Migration(
            source: "userdefaults", expiries: [try date(until)], owned: owned, statedAt: try statedAt.map(date))
    }

    private func refusal(_ body: () async throws -> Void) async -> String? {
        do { try await body() } catch { return (error as? EntitlementError).map { "\($0.kind): \($0.message)" } }
        return nil
    }

    @Test("An expiry and flags are imported once, on any device, in one write")
    func once() async throws {
        let home = try Household(at: "2026-01-10T00:00:00Z")
        let local = CountingBackend(MemoryBackend(host: home.machine.host))
        let phone = try await home.device(local)
        let old = try Self.old(until: "2026-03-10T18:30:00Z", owned: [Owls.nightOwl, Owls.couchOwl])
        let report = try await phone.migrate(old)
        #expect(report.newExpiries == [try date("2026-03-10T18:30:00Z")])
        #expect(report.newlyOwned == [Owls.couchOwl, Owls.nightOwl])
        #expect(report.knownCount == 0)
        // One write for the replica's id, one for the ledger.
        #expect(local.takeCounts().writes == 2)
        try await phone.sync()
        let tablet = try await home.device()
        try await tablet.restore()
        #expect(try await tablet.end() == date("2026-03-10T18:30:00Z"))
        #expect(try await tablet.access(to: Owls.nightOwlAccess).isGranted)
        try home.machine.set("2026-01-20T00:00:00Z")
        for store in [phone, tablet] {
            let ledger = try await store.localLedgers().account
            let again = try await store.migrate(old)
            #expect(again.newFacts.isEmpty)
            #expect(again.knownCount == 3)
            #expect(try await store.localLedgers().account == ledger)
        }
    }

    @Test("An app's own values make the same migration, and a date that no calendar has is brought into range")
    func values() throws {
        let until = try date("2026-03-10T18:30:00Z")
        #expect(
            Migration(expiry: Date(timeIntervalSince1970: 1_773_167_400), owned: [Owls.nightOwl])
                == Migration(source: "userdefaults", expiries: [until], owned: [Owls.nightOwl]))
        #expect(Migration(expiry: nil, owned: []).expiries.isEmpty)
        for (seconds, expected) in [
            (Double.nan, Timestamp.earliest), (-.infinity, .earliest), (1e300, .latest),
        ] {
            #expect(Migration(expiry: Date(timeIntervalSince1970: seconds), owned: []).expiries == [expected])
        }
    }

    @Test("A later purchase is appended in full, even on a device that did not know the old expiry")
    func bought() async throws {
        let home = try Household(at: "2026-01-10T00:00:00Z")
        let (phone, tablet) = (try await home.device(), try await home.device())
        try await phone.migrate(Self.old(until: "2026-03-10T18:30:00Z"))
        try home.machine.set("2026-01-12T00:00:00Z")
        try await tablet.record(.reported(Owls.threeMonths, transaction: "t1"))
        #expect(try await tablet.end() == date("2026-04-12"))
        for store in [phone, tablet, phone] { try await store.sync() }
        for store in [phone, tablet] { #expect(try await store.end() == date("2026-06-10T18:30:00Z")) }
        try await phone.record(.reported(Owls.sixMonths, transaction: "t2"))
        #expect(try await phone.end() == date("2026-12-10T18:30:00Z"))
    }

    @Test("Several expiry dates do not add up, and a date already past when stated is only reported")
    func severalDates() async throws {
        let store = try await Household(at: "2026-01-10T00:00:00Z").offlineDevice()
        var migration = try Self.old(until: "2026-05-01")
        migration.expiries += [try date("2026-02-01"), try date("2025-06-01"), try date("2026-02-01")]
        let report = try await store.migrate(migration)
        #expect(report.newExpiries == [try date("2026-02-01"), try date("2026-05-01")])
        #expect(report.lapsed == [try date("2025-06-01")])
        #expect(report.knownCount == 0)
        #expect(try await store.end() == date("2026-05-01"))
        let stated = try Self.old(until: "2025-06-01", statedAt: "2025-01-01")
        #expect(try await store.migrate(stated).newExpiries == [try date("2025-06-01")])
        #expect(try await store.migrate(stated).knownCount == 1)
        #expect(
            try await store.replay().timelines[Owls.random]?.chain(at: date("2025-03-01"))?.end == date("2025-06-01"))
    }

    @Test("A server that keeps echoing the derived expiry adds nothing, and every purchase is appended in full")
    func echo() async throws {
        var random = SeededGenerator(seed: printedSeed("echo"))
        for _ in 0..<40 {
            let home = try Household(at: "2026-01-10T00:00:00Z")
            let store = try await home.offlineDevice()
            let echoless = try await home.offlineDevice()
            try await store.migrate(Self.old(until: "2026-03-10T18:30:00Z"))
            try await echoless.migrate(Self.old(until: "2026-03-10T18:30:00Z"))
            var lastChange = home.machine.now
            for round in 0..<50 {
                home.machine.advance(by: .seconds(Int64.random(in: 0...40 * 86_400, using: &random)))
                if Int.random(in: 0...9, using: &random) == 0 {
                    lastChange = home.machine.now
                    let product = Bool.random(using: &random) ? Owls.threeMonths : Owls.sixMonths
                    for copy in [store, echoless] {
                        try await copy.record(.reported(product, transaction: TransactionID("t\(round)")))
                    }
                }
                let end = try #require(try await store.end())
                // The old server stores whole seconds and may have stated the date at any time since the last change.
                let whole = Timestamp(milliseconds: end.milliseconds / 1_000 * 1_000)
                let range = lastChange.milliseconds...home.machine.now.milliseconds
                let statedAt = Timestamp(milliseconds: .random(in: range, using: &random))
                let server = Migration(
                    source: "server", expiries: [whole], statedAt: Bool.random(using: &random) ? statedAt : nil)
                #expect(try await store.migrate(server).newFacts.isEmpty)
                #expect(try await store.end() == echoless.end())
            }
            let assertions = try await store.replay().facts.assertions
            #expect(assertions.map(\.reference.source) == ["userdefaults"])
        }
    }

    @Test("An echoed expiry that arrives before its purchase grants that date, and not twice the time")
    func earlyEcho() async throws {
        let home = try Household(at: "2026-01-10T00:00:00Z")
        let (phone, tablet) = (try await home.device(), try await home.device())
        try await phone.record(.reported(Owls.threeMonths, transaction: "t1"))
        let end = try #require(try await phone.end())
        try home.machine.set("2026-01-11T00:00:00Z")
        try await tablet.migrate(Migration(source: "server", expiries: [end]))
        #expect(try await tablet.end() == end)
        for store in [phone, tablet, phone] { try await store.sync() }
        for store in [phone, tablet] { #expect(try await store.end() == end) }
        try await tablet.record(.reported(Owls.threeMonths, transaction: "t2"))
        #expect(try await tablet.end() == date("2026-07-10"))
    }

    @Test("A migrated flag does not override the refund of a purchase and does not return once cleared")
    func flags() async throws {
        let store = try await Household().offlineDevice()
        try await store.record(.reported(Owls.nightOwl, transaction: "t1"))
        let old = Migration(source: "userdefaults", owned: [Owls.nightOwl, Owls.couchOwl])
        #expect(try await store.migrate(old).newlyOwned == [Owls.couchOwl])
        try await store.refund(TransactionReference(id: "t1"))
        try await store.flag(Owls.couchOwl, isSet: false)
        let again = try await store.migrate(old)
        #expect(again.newFacts.isEmpty)
        #expect(again.knownCount == 2)
        #expect(try await !store.access(to: Owls.nightOwlAccess).isGranted)
    }

    @Test("Unknown products, unknown groups and products without a flag are rejected, and nothing is written")
    func refused() async throws {
        let home = try Household()
        let local = MemoryBackend(host: home.machine.host)
        let store = try await home.offlineDevice(local)
        var old = try Self.old(until: "2026-03-10", owned: [Owls.nightOwl, "nothing"])
        #expect(
            await refusal { try await store.migrate(old) } == #"unknownProduct: the catalogue has no product "nothing""#
        )
        old.owned = [Owls.nightOwl, Owls.randomOwls]
        #expect(
            await refusal { try await store.migrate(old) }
                == "invalid: \"\(Owls.randomOwls)\" is consumable; only a nonConsumable has a flag")
        old.owned = []
        #expect(
            await refusal { try await store.migrate(old, group: "nothing") }
                == #"unknownProduct: the catalogue has no group "nothing""#)
        old.source = ""
        #expect(await refusal { try await store.migrate(old) } == "invalid: source: an id must not be empty")
        #expect(try await contents(of: local).isEmpty)
    }

    @Test("The group of an expiry is required unless the catalogue has exactly one non-renewing group")
    func groups() async throws {
        func store(_ groups: [GroupID]) async throws -> EntitlementStore {
            let month = CalendarDuration(months: 1)
            let renewing = Product(
                id: "r", kind: .autoRenewable(group: "r", level: 1, duration: month, introductory: nil))
            let products = groups.map {
                Product(id: ProductID($0.rawValue), kind: .nonRenewing(group: $0, duration: month))
            }
            return try await Household(catalog: Catalog(products: products + [renewing])).offlineDevice()
        }
        let old = try Self.old(until: "2026-03-10")
        let reason = "invalid: the group of the expiry must be given: "
        #expect(
            await refusal { try await store(["b", "a"]).migrate(old) } == reason + #"choose one of "a", "b""#)
        #expect(
            await refusal { try await store([]).migrate(old) }
                == reason + "the catalogue has no non-renewing group")
        #expect(try await store(["a"]).migrate(old).newExpiries.count == 1)
        let several = try await store(["a", "b"])
        try await several.migrate(old, group: "b")
        #expect(try await several.end(of: "b") == date("2026-03-10"))
        #expect(try await several.end(of: "a") == nil)
        #expect(try await several.migrate(Migration(source: "s")).newFacts.isEmpty)
    }

    @Test("A migration is all or nothing: a failed write imports nothing, and a retry imports everything")
    func fails() async throws {
        let home = try Household(at: "2026-01-10T00:00:00Z")
        let memory = MemoryBackend(host: home.machine.host)
        try await home.offlineDevice(memory).record(.reported(Owls.couchOwl, transaction: "t0"))
        let isFull = Switch()
        let faulty = FaultyBackend(memory) { call in
            call.operation == .write && isFull.isSet ? .permanent(.full) : nil
        }
        let store = try await home.offlineDevice(faulty)
        let before = try await contents(of: memory)
        let old = try Self.old(until: "2026-03-10", owned: [Owls.nightOwl])
        isFull.set()
        #expect(await refusal { try await store.migrate(old) }?.hasPrefix("storage: ") == true)
        #expect(try await contents(of: memory) == before)
        isFull.set(false)
        #expect(try await store.migrate(old).newFacts.count == 2)
    }
}
