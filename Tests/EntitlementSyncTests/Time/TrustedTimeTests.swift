import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Trusted time: corrected by the server, never set back by the device's clock")
struct TrustedTimeTests {
    /// A phone that can buy three months, from 1 January to 1 April.
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

        /// Sets the wall clock, and the server's clock if `time` is given.
        func set(_ wall: String, server time: String? = nil) throws {
            try home.machine.set(wall)
            if let time { server.time = try Timestamp(time).milliseconds }
        }

        func restart() async throws { store = try await home.device(local, remote: server) }

        var isActive: Bool { get async throws { try await store.access(to: Owls.access).isGranted } }
    }

    @Test("Setting the clock back a year revives nothing, before or after a restart")
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

    @Test("Setting the clock back every day does not extend a subscription beyond the next contact")
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
        // The latest time read counts: the soft mark is at 28 January.
        #expect(try phone.store.clockStatus.now == date("2026-01-28T23:00:00Z"))
        try phone.set("2026-01-01T00:00:00Z", server: "2026-04-01T00:00:00Z")
        try await phone.store.sync()
        #expect(try await !phone.isActive)
        #expect(phone.store.clockStatus.isDeviceClockWrong)
    }

    @Test("After the next contact a clock 100 years ahead denies no access, and the server's time counts")
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
        // The correction survives a restart, and a device clock that is set right again stays right.
        try await phone.restart()
        #expect(try await phone.isActive)
        try phone.set("2026-01-11T00:00:00Z", server: "2026-01-11T00:00:00Z")
        try await phone.store.sync()
        #expect(try phone.store.clockStatus.now == date("2026-01-11"))
        #expect(!phone.store.clockStatus.isDeviceClockWrong)
    }

    @Test("A wrong server time, ahead or behind, is replaced by the next correct one")
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

    @Test("Without a server time the device's clock counts, and correcting it restores access")
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

    @Test("The trusted time is never before the date of a store's signature")
    func vouched() async throws {
        let phone = try await Phone(at: "2020-01-01T00:00:00Z", serverTime: nil)
        try await phone.store.record(
            .reported(
                Owls.threeMonths, transaction: "A", date: date("2026-01-01"), store: .appStore,
                signedAt: date("2026-01-02")))
        #expect(try phone.store.clockStatus.now == date("2026-01-02"))
        #expect(try await phone.isActive)
    }

    @Test("An answer is ignored if the clock was set during the request or the request took too long")
    func movedMeanwhile() async throws {
        for moved in ["2026-01-09T00:00:00Z", "2026-01-10T00:03:00Z"] {
            let phone = try await Phone()
            let machine = phone.home.machine
            try phone.set("2026-01-10T00:00:00Z", server: "2030-01-01T00:00:00Z")
            phone.server.duringTransit { do { try machine.set(moved) } catch { Issue.record(error) } }
            try await phone.store.sync()
            #expect(phone.store.clockStatus.lastContact == nil)
        }
    }

    @Test("Access checks save the time at most every ten minutes, and a kill loses no more than that")
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

    @Test("A malformed time entry counts as missing, but a failed read is an error")
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

    @Test("Of two store objects over one local backend, the later contact counts for both")
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

    @Test("With the host clock, access follows the wall clock alone")
    func explicit() async throws {
        let phone = try await Phone()
        try await phone.buy()
        try await phone.store.sync()
        try phone.set("2026-05-01T00:00:00Z")
        #expect(try await !phone.isActive)
        try phone.set("2026-02-01T00:00:00Z")
        let support = try await phone.home.store(
            phone.local, remote: phone.server, account: phone.home.alice, clock: .host)
        #expect(try await support.access(to: Owls.access).isGranted)
        #expect(try await !phone.isActive)
    }
}
