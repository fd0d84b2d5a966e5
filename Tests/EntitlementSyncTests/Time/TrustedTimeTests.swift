import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import Testing

@Suite("Access is decided by a time that a server corrects and a set-back does not revive")
struct TrustedTimeTests {
    /// Three months from 1 January: over on 1 April.
    private final class Phone {
        let home: Household
        let server: TimedRemote
        let local = MemoryBackend()
        var store: EntitlementStore

        init(at start: String = "2026-01-01T00:00:00Z", serverTime: String? = "2026-01-01T00:00:00Z") async throws {
            home = try Household(at: start)
            server = TimedRemote(at: try serverTime.map { try Timestamp($0).milliseconds })
            store = try await home.device(local, remote: server)
        }

        func buy() async throws {
            try await store.record(.reported(Owls.threeMonths, transaction: "A", date: date("2026-01-01")))
        }

        /// The wall clock shows this now, and the server's, where one is given.
        func set(_ wall: String, server time: String? = nil) throws {
            try home.machine.set(wall)
            if let time { server.time = try Timestamp(time).milliseconds }
        }

        func restart() async throws { store = try await home.device(local, remote: server) }

        var isActive: Bool { get async throws { try await store.access(to: Owls.access).isGranted } }
    }

    @Test("A clock set back a year revives nothing, before and after a restart")
    func setBackAYear() async throws {
        let phone = try await Phone()
        try await phone.buy()
        try await phone.store.sync()
        try phone.set("2026-04-02T00:00:00Z")
        #expect(try await !phone.isActive)
        try phone.set("2025-04-02T00:00:00Z")
        #expect(try await !phone.isActive)
        try await phone.restart()
        #expect(try await !phone.isActive)
        #expect(try phone.store.clockStatus.now == date("2026-04-02"))
    }

    @Test("A clock set back every day does not stretch three months beyond the next contact")
    func setBackDaily() async throws {
        let phone = try await Phone()
        try await phone.buy()
        try await phone.store.sync()
        for day in 1...28 {
            try phone.set("2026-01-\(day < 10 ? "0" : "")\(day)T23:00:00Z")
            #expect(try await phone.isActive)
            try phone.set("2026-01-01T00:00:00Z")
            #expect(try await phone.isActive)
        }
        // What was seen counts: it is 28 January by the soft mark.
        #expect(try phone.store.clockStatus.now == date("2026-01-28T23:00:00Z"))
        try phone.set("2026-01-01T00:00:00Z", server: "2026-04-01T00:00:00Z")
        try await phone.store.sync()
        #expect(try await !phone.isActive)
        #expect(phone.store.clockStatus.isDeviceClockWrong)
    }

    @Test("A clock 100 years ahead locks nobody out after the next contact, and the time is the server's")
    func ahead() async throws {
        let phone = try await Phone()
        try await phone.buy()
        try await phone.store.sync()
        try phone.set("2126-01-10T00:00:00Z")
        #expect(try await !phone.isActive)
        try await phone.restart()
        try phone.set("2126-01-10T00:00:00Z", server: "2026-01-10T00:00:00Z")
        try await phone.store.sync()
        #expect(try await phone.isActive)
        #expect(try phone.store.clockStatus.now == date("2026-01-10"))
        // The correction survives the process; so does a clock that is put right again.
        try await phone.restart()
        #expect(try await phone.isActive)
        try phone.set("2026-01-11T00:00:00Z", server: "2026-01-11T00:00:00Z")
        try await phone.store.sync()
        #expect(try phone.store.clockStatus.now == date("2026-01-11"))
        #expect(!phone.store.clockStatus.isDeviceClockWrong)
    }

    @Test("A server that is wrong for a minute, ahead or behind, is forgotten with its next right answer")
    func serverWrong() async throws {
        for wrong in ["2036-01-10T00:00:00Z", "2016-01-10T00:00:00Z"] {
            let phone = try await Phone()
            try await phone.buy()
            try phone.set("2026-01-10T00:00:00Z", server: wrong)
            try await phone.store.sync()
            #expect(try await !phone.isActive)
            try await phone.restart()
            try phone.set("2026-01-10T00:01:00Z", server: "2026-01-10T00:01:00Z")
            try await phone.store.sync()
            #expect(try await phone.isActive)
            #expect(try phone.store.clockStatus.now == date("2026-01-10T00:01:00Z"))
            try await phone.restart()
            #expect(try await phone.isActive)
        }
    }

    @Test("A device that never meets a clock believes its own: nothing is lost when it is put right")
    func noServer() async throws {
        let phone = try await Phone(serverTime: nil)
        try await phone.buy()
        try await phone.store.sync()
        try phone.set("2126-01-10T00:00:00Z")
        #expect(try await !phone.isActive)
        try phone.set("2026-01-10T00:00:00Z")
        #expect(try await phone.isActive)
        #expect(phone.store.clockStatus.offset == nil)
    }

    @Test("A store's signature vouches for its date: the clock is not before it")
    func vouched() async throws {
        let phone = try await Phone(at: "2020-01-01T00:00:00Z", serverTime: nil)
        try await phone.store.record(
            .reported(
                Owls.threeMonths, transaction: "A", date: date("2026-01-01"), store: .appStore,
                signedAt: date("2026-01-02")))
        #expect(try phone.store.clockStatus.now == date("2026-01-02"))
        #expect(try await phone.isActive)
    }

    @Test("An answer on whose way the clock was moved is not believed, nor is one that took too long")
    func movedMeanwhile() async throws {
        for moved in ["2026-01-09T00:00:00Z", "2026-01-10T00:03:00Z"] {
            let phone = try await Phone()
            let machine = phone.home.machine
            try phone.set("2026-01-10T00:00:00Z", server: "2030-01-01T00:00:00Z")
            phone.server.onTheWay { do { try machine.set(moved) } catch { Issue.record(error) } }
            try await phone.store.sync()
            #expect(phone.store.clockStatus.lastContact == nil)
        }
    }

    @Test("Asking for access writes nothing for ten minutes, and a kill forgets no more than that")
    func granularity() async throws {
        let home = try Household(at: "2026-01-10T00:00:00Z")
        let counting = CountingBackend(MemoryBackend())
        let server = TimedRemote(at: try date("2026-01-10").milliseconds)
        let store = try await home.device(counting, remote: server)
        try await store.sync()
        _ = counting.takeCounts()
        for minute in 1...9 {
            try home.machine.set("2026-01-10T00:0\(minute):00Z")
            _ = try await store.access(to: Owls.access)
        }
        #expect(counting.takeCounts().writes == 0)
        try home.machine.set("2026-01-10T00:10:00Z")
        _ = try await store.access(to: Owls.access)
        #expect(counting.takeCounts().writes == 1)
        try home.machine.set("2026-01-10T00:19:00Z")
        _ = try await store.access(to: Owls.access)
        try home.machine.set("2026-01-01T00:00:00Z")
        let restarted = try await home.device(counting, remote: server)
        #expect(try restarted.clockStatus.now == date("2026-01-10T00:10:00Z"))
    }

    @Test("Marks that cannot be understood count as none; a store that cannot be read is an error")
    func damaged() async throws {
        let phone = try await Phone()
        try await phone.buy()
        try await phone.store.sync()
        let key = try EntryKey("device/clock")
        for bytes in [[], [0xFF], Array("entitlementsync clock 1\nsoft x\nend\n".utf8)] as [[UInt8]] {
            _ = try await phone.local.write(bytes, to: key, if: .any)
            try await phone.restart()
            #expect(try await phone.isActive)
            #expect(phone.store.clockStatus.offset == nil)
        }
        let away = FaultyBackend(phone.local) { call in call.key == key ? .transient : nil }
        await #expect(throws: EntitlementError.self) { _ = try await phone.home.device(away, remote: phone.server) }
    }

    @Test("Two stores over one local store: the later contact counts for both")
    func twoStores() async throws {
        let phone = try await Phone()
        let other = try await phone.home.device(phone.local, remote: phone.server)
        try phone.set("2026-01-10T00:00:00Z", server: "2036-01-10T00:00:00Z")
        try await phone.store.sync()
        try phone.set("2026-01-10T00:01:00Z", server: "2026-01-10T00:01:00Z")
        try await other.sync()
        try await phone.restart()
        #expect(try phone.store.clockStatus.now == date("2026-01-10T00:01:00Z"))
    }

    @Test("An explicit clock is asked alone")
    func explicit() async throws {
        let phone = try await Phone()
        try await phone.buy()
        try await phone.store.sync()
        try phone.set("2026-05-01T00:00:00Z")
        #expect(try await !phone.isActive)
        try phone.set("2026-02-01T00:00:00Z")
        let support = try await EntitlementStore(
            catalog: phone.home.catalog, local: phone.local, remote: phone.server, account: phone.home.alice,
            clock: .host, host: phone.home.machine.host)
        #expect(try await support.access(to: Owls.access).isGranted)
        #expect(try await !phone.isActive)
    }
}
