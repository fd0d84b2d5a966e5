import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import Synchronization
import Testing

@Suite("Events")
struct EventTests {
    private let home: Household
    private let local = MemoryBackend()

    init() throws {
        home = try Household()
    }

    @Test("A purchase is reported before the access that it grants")
    func purchase() async throws {
        let store = try await home.offlineDevice()
        let events = store.events
        try await store.record([
            .reported(Owls.threeMonths, transaction: "a"), .reported(Owls.nightOwl, transaction: "b"),
        ])
        #expect(
            await events.take(2).map(line) == [
                "purchased a b",
                "night-owl: notPurchased > granted by product:com.back40.InsomniOwl.NightOwl, "
                    + "random-owls: notPurchased > granted by group:random",
            ])
    }

    @Test("A purchase by another device is reported as restored, its refund as revoked")
    func restoredAndRevoked() async throws {
        let phone = try await home.device()
        let tablet = try await home.device()
        try await tablet.sync()
        let events = tablet.events
        try await phone.record(.reported(Owls.nightOwl, transaction: "owl"))
        try await phone.sync()
        try await tablet.sync()
        try await phone.refund(TransactionReference(id: "owl"))
        try await phone.sync()
        try await tablet.sync()
        #expect(
            await events.take(4).map(line) == [
                "restored owl", "night-owl: notPurchased > granted by product:com.back40.InsomniOwl.NightOwl",
                "revoked owl", "night-owl: granted by product:com.back40.InsomniOwl.NightOwl > revoked",
            ])
    }

    @Test("A restored copy is no new purchase, and a refund of one transaction is reported once")
    func restoredCopy() async throws {
        let store = try await home.offlineDevice()
        let events = store.events
        func reported(_ id: TransactionID, _ date: String, signed: String) throws -> Evidence {
            .reported(
                Owls.nightOwl, transaction: id, date: try Timestamp(date), original: "100", store: .appStore,
                signedAt: try Timestamp(signed))
        }
        try await store.record(reported("100", "2026-01-01", signed: "2026-01-01"))
        try await store.record(reported("177", "2026-01-05", signed: "2026-01-05"))
        let first = TransactionReference(store: .appStore, id: "100")
        try await store.record(.refunded(first, at: Timestamp("2026-01-06"), signedAt: Timestamp("2026-01-06")))
        // The refund is known before this copy is.
        try await store.record(reported("188", "2026-01-07", signed: "2026-01-07"))
        try await store.record(.reinstated(first, signedAt: Timestamp("2026-01-08")))
        try await store.record(.reported(Owls.couchOwl, transaction: "last"))
        let lines = await events.lines(upTo: "purchased last")
        #expect(lines == ["purchased 100", "revoked 177", "reinstated 188", "purchased last"])
    }

    @Test("Recording a purchase again or an idle sync reports nothing again")
    func once() async throws {
        let store = try await home.device()
        try await store.sync()
        let events = store.events
        for _ in 0..<3 {
            try await store.record(.reported(Owls.couchOwl, transaction: "couch"))
            try await store.sync()
        }
        try await store.record(.reported(Owls.nightOwl, transaction: "last"))
        let lines = await events.take(3).map(line)
        #expect(lines[0] == "purchased couch")
        #expect(lines[2] == "purchased last")
    }

    @Test("A purchase recorded during a sync is reported once, as purchased on this device")
    func boughtDuringSync() async throws {
        let action = OneTimeAction()
        let store = try await home.device(remote: action.duringRead(in: home.remote))
        let events = store.events
        action.arm { _ = try await store.record(.reported(Owls.nightOwl, transaction: "owl")) }
        try await store.sync()
        try await store.record(.reported(Owls.couchOwl, transaction: "last"))
        let lines = await events.lines(upTo: "purchased last")
        #expect(lines == ["purchased owl", "purchased last"])
    }

    @Test("Facts that a failed sync had already saved are reported")
    func failedSync() async throws {
        let phone = try await home.device()
        try await phone.record(.reported(Owls.nightOwl, transaction: "owl"))
        try await phone.sync()
        let readOnly = FaultyBackend(home.remote) { $0.operation == .write ? .permanent(.permissionDenied) : nil }
        let tablet = try await home.device(remote: readOnly)
        try await tablet.record(.reported(Owls.couchOwl))
        let events = tablet.events
        await #expect(throws: EntitlementError.self) { try await tablet.sync() }
        #expect(await events.take(1).map(line) == ["restored owl"])
    }

    @Test("Every subscriber gets every event, in one order")
    func subscribers() async throws {
        let store = try await home.offlineDevice()
        let streams = (0..<3).map { _ in store.events }
        for id in ["a", "b", "c"] {
            try await store.record(.reported(Owls.nightOwl, transaction: TransactionID(id)))
        }
        for stream in streams {
            let lines = await stream.take(4).map(line).filter { $0.hasPrefix("purchased") }
            #expect(lines == ["purchased a", "purchased b", "purchased c"])
        }
    }

    @Test("Event and snapshot streams end when the store is released")
    func end() async throws {
        var store: EntitlementStore? = try await home.offlineDevice()
        let events = try #require(store?.events)
        let snapshots = try #require(try await store?.snapshots())
        store = nil
        for await event in events { Issue.record("\(line(event))") }
        #expect(await snapshots.take(2).count == 1)
    }

    @Test("Two stores that record at the same time report each purchase once")
    func concurrent() async throws {
        let store = try await home.offlineDevice(local)
        let other = try await home.offlineDevice(local)
        let events = store.events
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<40 {
                let (own, theirs) = (TransactionID("own \(number)"), TransactionID("other \(number)"))
                group.addTask { try await store.record(.reported(Owls.nightOwl, transaction: own)) }
                group.addTask { try await other.record(.reported(Owls.nightOwl, transaction: theirs)) }
                group.addTask { _ = try await store.snapshots() }
            }
            try await group.waitForAll()
        }
        // Events of one change name own purchases first, so the last of the others must be a change of its own.
        _ = try await store.snapshots()
        try await store.record(.reported(Owls.couchOwl, transaction: "last"))
        var (purchased, restored): ([String], [String]) = ([], [])
        for await event in events {
            if case .purchased(let transactions) = event { purchased += transactions.map(\.id.rawValue) }
            if case .restored(let transactions) = event { restored += transactions.map(\.id.rawValue) }
            if purchased.contains("last") { break }
        }
        #expect(purchased.sorted() == ((0..<40).map { "own \($0)" } + ["last"]).sorted())
        #expect(restored.sorted() == (0..<40).map { "other \($0)" }.sorted())
    }

    @Test("A purchase whose recording failed is reported as restored when it arrives from elsewhere")
    func failedRecording() async throws {
        let store = try await home.device(local)
        try await store.sync()
        let events = store.events
        let transaction = TransactionReference(id: "t")
        await #expect(throws: EntitlementError.self) {
            try await store.record([
                .reported(Owls.couchOwl, transaction: "t"), .renewal(of: transaction, willRenew: true),
            ])
        }
        let tablet = try await home.device()
        try await tablet.record(.reported(Owls.couchOwl, transaction: "t"))
        try await tablet.sync()
        try await store.sync()
        #expect(await events.take(1).map(line) == ["restored t"])
    }

    @Test("A period that ends during a sync is reported, although another state was published meanwhile")
    func expiryDuringSync() async throws {
        let action = OneTimeAction()
        let store = try await home.device(local, remote: action.duringRead(in: home.remote))
        try await store.record(.reported(Owls.threeMonths, transaction: "t"))
        try await store.sync()
        let events = store.events
        action.arm { [home] in
            // Published while the sync waits for its answer.
            _ = try await store.snapshots()
            try home.machine.set("2026-04-10T12:00:00Z")
        }
        try await store.sync()
        #expect(
            await events.take(1).map(line)
                == ["random-owls: granted by group:random > expired"])
    }
}
