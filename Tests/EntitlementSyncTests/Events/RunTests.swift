import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("A running store", .timeLimit(.minutes(15)))
struct RunTests {
    private let home: Household
    private let local = MemoryBackend()

    init() throws {
        home = try Household(at: "2026-01-10T12:00:00Z", pauses: .endWhenAdvanced)
    }

    @Test("Cancelling the task ends the run without reporting a failure")
    func cancellation() async throws {
        let store = try await home.device()
        let events = store.events
        try await whileRunning(store) {
            var pauses = home.machine.pauses.makeAsyncIterator()
            _ = await pauses.next()
        }
        try await store.record(.reported(Owls.nightOwl, transaction: "last"))
        let lines = await events.take(2).map(line)
        #expect(lines.contains("purchased last"))
        #expect(!lines.contains { $0.hasPrefix("failed") })
    }

    @Test("A running store syncs immediately, after each local record and after each remote signal")
    func syncs() async throws {
        let tablet = try await home.device()
        try await tablet.record(.reported(Owls.couchOwl, transaction: "couch"))
        try await tablet.sync()
        let phone = try await home.device(local)
        let snapshots = try await phone.snapshots()
        try await whileRunning(phone) {
            #expect(await snapshots.owns([Owls.couchOwl]))
            let changes = home.remote.signals()
            try await phone.record(.reported(Owls.nightOwl, transaction: "owl"))
            _ = await changes.take(1)
            #expect(try await tablet.restore().purchases.map(\.transaction.id) == ["owl"])
            try await tablet.record(.reported(Owls.nightOwl, transaction: "other"))
            try await tablet.record(.reported(Owls.threeMonths, transaction: "time"))
            try await tablet.sync()
            #expect(await isActive(in: snapshots))
        }
    }

    @Test("A running store notices facts recorded by another store object over a local backend that signals")
    func otherObject() async throws {
        let store = try await home.offlineDevice(local)
        let snapshots = try await store.snapshots()
        try await whileRunning(store) {
            try await home.offlineDevice(local).record(.reported(Owls.nightOwl))
            #expect(await snapshots.owns([Owls.nightOwl]))
        }
    }

    @Test("Over a local backend without signals, facts of another store object are noticed at the next poll")
    func polling() async throws {
        let store = try await home.offlineDevice(SilentBackend(local))
        let snapshots = try await store.snapshots()
        try await whileRunning(store, pollingEvery: .seconds(30)) {
            var pauses = home.machine.pauses.makeAsyncIterator()
            let pause = try #require(await pauses.next())
            #expect(pause >= .seconds(27) && pause <= .seconds(30))
            try await home.offlineDevice(local).record(.reported(Owls.nightOwl))
            home.machine.advance(by: .seconds(30))
            #expect(await snapshots.owns([Owls.nightOwl]))
        }
    }

    @Test("The end of a period yields an event and a snapshot, exact to the millisecond")
    func expiry() async throws {
        let store = try await home.offlineDevice(SilentBackend(local))
        try await store.record(.reported(Owls.threeMonths))
        let end = try date("2026-04-10T12:00:00Z")
        let events = store.events
        let snapshots = try await store.snapshots()
        let untilNotice = Duration.milliseconds(end.milliseconds - home.machine.now.milliseconds) - .seconds(60)
        try await whileRunning(store, pollingEvery: .seconds(400 * 86_400), noticeBeforeExpiry: .seconds(60)) {
            var pauses = home.machine.pauses.makeAsyncIterator()
            #expect(await pauses.next() == untilNotice)
            home.machine.advance(by: untilNotice)
            #expect(await pauses.next() == .seconds(60))
            home.machine.advance(by: .seconds(60))
            #expect(
                await events.take(2).map(line) == [
                    "expiring random 2026-04-10T12:00:00.000Z", "random-owls: granted by group:random > expired",
                ])
            for await snapshot in snapshots where snapshot[access: Owls.access] == .denied(.expired(end)) { break }
        }
    }

    @Test("Expiry and changes by other processes are noticed even while the remote is unreachable")
    func expiryOffline() async throws {
        let away = FaultyBackend(SilentBackend(home.remote)) { _ in .transient }
        let store = try await home.device(SilentBackend(local), remote: away)
        try await store.record(.reported(Owls.threeMonths))
        let events = store.events
        let snapshots = try await store.snapshots()
        try await whileRunning(store, pollingEvery: .seconds(60)) {
            var pauses = home.machine.pauses.makeAsyncIterator()
            _ = await pauses.next()
            try home.machine.set("2026-04-10T11:58:00Z")
            try await home.offlineDevice(local).record(.reported(Owls.nightOwl))
            home.machine.advance(by: .seconds(60))
            for await event in events {
                if case .expiring(Owls.random, let end) = event {
                    #expect(end == (try date("2026-04-10T12:00:00Z")))
                    break
                }
            }
            #expect(await snapshots.owns([Owls.nightOwl]))
            let pause = try #require(await pauses.next())
            #expect(pause >= .seconds(1) && pause <= .seconds(2))
            home.machine.advance(by: .seconds(60))
            for await snapshot in snapshots where snapshot[access: Owls.access] == .denied(.restoreNeeded) { break }
        }
    }

    @Test("A failed sync is reported and retried after pauses that double from 1 s to 5 s")
    func backoff() async throws {
        let isAway = Switch()
        isAway.set()
        let remote = FaultyBackend(SilentBackend(home.remote)) { _ in isAway.isSet ? .transient : nil }
        let store = try await home.device(SilentBackend(local), remote: remote)
        let events = store.events
        try await whileRunning(store, pollingEvery: .seconds(10)) {
            var pauses = home.machine.pauses.makeAsyncIterator()
            for bound in [1, 2, 4, 5, 5, 5] {
                let pause = try #require(await pauses.next())
                #expect(pause >= .seconds(bound) / 2 && pause <= .seconds(bound))
                home.machine.advance(by: pause)
            }
            #expect(await events.take(6).map(line) == Array(repeating: "failed sync", count: 6))
            isAway.set(false)
            home.machine.advance(by: try #require(await pauses.next()))
            let pause = try #require(await pauses.next())
            #expect(pause >= .seconds(9) && pause <= .seconds(10), "a success must reset the back-off")
            #expect(try await store.access(to: Owls.access) == .denied(.notPurchased))
        }
    }

    @Test("During a pause after a failure a local change starts no sync; the network does, unless asked to wait")
    func signalsDuringOutage() async throws {
        let answer = Switch()
        let remote = FaultyBackend(SilentBackend(home.remote)) { _ in
            answer.isSet ? .overloaded(retryAfter: .seconds(20)) : .transient
        }
        let store = try await home.device(local, remote: remote)
        let (network, networkSignal) = AsyncStream<Void>.makeStream()
        let (rounds, round) = AsyncStream<Bool>.makeStream()
        try await whileRunning({
            await store.run(pollingEvery: .seconds(60), wakingOn: network) { round.yield($0.hasSynced) }
        }) {
            var rounds = rounds.makeAsyncIterator()
            #expect(await rounds.next() == true)
            try await store.record(.reported(Owls.nightOwl, transaction: "owl"))
            #expect(await rounds.next() == false)
            networkSignal.yield()
            while await rounds.next() == false {}
            answer.set()
            networkSignal.yield()
            while await rounds.next() == false {}
            networkSignal.yield()
            #expect(await rounds.next() == false, "the remote has asked for 20 s")
        }
    }

    @Test("A sync that stores something does not start another one")
    func ownWrites() async throws {
        let tablet = try await home.device()
        try await tablet.record(.reported(Owls.couchOwl, transaction: "couch"))
        try await tablet.sync()
        let store = try await home.device(local, remote: SilentBackend(home.remote))
        let (rounds, round) = AsyncStream<Bool>.makeStream()
        try await whileRunning({
            await store.run(pollingEvery: .seconds(60)) { round.yield($0.hasSynced) }
        }) {
            var rounds = rounds.makeAsyncIterator()
            #expect(await rounds.next() == true)
            #expect(await rounds.next() == false, "the store's own write wakes the run, which finds nothing to send")
            try await store.record(.reported(Owls.nightOwl, transaction: "owl"))
            while await rounds.next() == false {}
        }
    }

    @Test("Without an account the store only watches, and makes no request to the remote")
    func anonymous() async throws {
        let remote = CountingBackend(SilentBackend(home.remote))
        let store = try await home.anonymousDevice(SilentBackend(local), remote: remote)
        try await whileRunning(store) {
            var pauses = home.machine.pauses.makeAsyncIterator()
            _ = await pauses.next()
        }
        #expect(remote.counts.total == 0)
    }
}

/// Waits for a snapshot with an active subscription; `false` if the stream ends first.
private func isActive(in snapshots: AsyncStream<Snapshot>) async -> Bool {
    for await snapshot in snapshots where snapshot[group: Owls.random]?.isActive == true { return true }
    return false
}
