import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import Synchronization
import TestSupport
import Testing

@Suite("Trusted time with several processes and slow answers")
struct TimeOfOthersTests {
    @Test("A slow answer does not set the trusted time back")
    func slowAnswer() async throws {
        let home = try Household(at: "2026-01-10T00:00:00Z")
        let server = TimedRemote(at: try date("2026-01-10").milliseconds)
        let store = try await home.device(MemoryBackend(), remote: server)
        try await store.sync()
        try home.machine.set("2026-01-10T00:10:00Z")
        // The server reads its clock when the request leaves; the answer takes one second to arrive.
        server.time = try Timestamp("2026-01-10T00:10:00Z").milliseconds
        server.duringTransit {
            do { try home.machine.set("2026-01-10T00:10:01Z") } catch { Issue.record(error) }
        }
        try await store.sync()
        #expect(try store.clockStatus.now == date("2026-01-10T00:10:01Z"))
    }

    @Test("A process dates new facts by the server time that another process received")
    func dated() async throws {
        let home = try Household(at: "2026-01-01T00:00:00Z")
        let (local, server) = (MemoryBackend(), TimedRemote(at: try date("2026-01-01").milliseconds))
        let app = try await home.device(local, remote: server)
        let other = try await home.device(local, remote: server)
        try await app.sync()
        try home.machine.set("2126-01-01T00:00:00Z")
        server.time = try date("2026-01-02").milliseconds
        try await other.sync()
        try await app.record(.reported(Owls.threeMonths, transaction: "A"))
        let purchases = try await app.replay().facts.purchases
        #expect(try purchases.map(\.date) == [date("2026-01-02")])
        #expect(try await app.access(to: Owls.access).isGranted)
    }

    @Test("Access works while the time entry is unreadable or the disk is full")
    func unavailableTimeEntry() async throws {
        let home = try Household(at: "2026-01-01T00:00:00Z")
        let (local, server) = (MemoryBackend(), TimedRemote(at: try date("2026-01-01").milliseconds))
        let key = try EntryKey("device/clock")
        let failing = Mutex<FaultyBackend.Fault?>(nil)
        let disk = FaultyBackend(local) { call in call.key == key ? failing.withLock { $0 } : nil }
        let store = try await home.device(disk, remote: server)
        try await store.record(.reported(Owls.threeMonths, transaction: "A"))
        try await store.sync()
        for fault in [FaultyBackend.Fault.transient, .permanent(.full), .permanent(.damaged)] {
            failing.withLock { $0 = fault }
            try home.machine.set("2026-02-01T00:00:00Z")
            var events = store.events.makeAsyncIterator()
            for _ in 0..<3 { #expect(try await store.access(to: Owls.access).isGranted) }
            failing.withLock { $0 = nil }
            try await store.record(.reported(Owls.threeMonths))
            guard case .failed? = await events.next() else {
                Issue.record("the failure was not reported")
                return
            }
            guard case .purchased? = await events.next() else {
                Issue.record("the failure was reported more than once")
                return
            }
        }
    }
}
