package import SyncCore
import Synchronization

/// A guard against a wrong clock of this server. Decisions that a wrong clock has dated are final.
///
/// A server whose clock is wrong refuses writes; other servers continue. The first rule that applies decides:
/// - A store that reports its own time decides: the clock is wrong if it differs from the ``Answer/serverTime`` of
///   ``KeyValueBackend/latestCursor()``. PostgreSQL reports it, files and SQLite do not.
/// - The clock is wrong if it is behind the latest time in the store: it was set back.
/// - The clock is wrong if it is ahead of that of another server over the store. If two clocks differ, the server ahead
///   stops: one that was set back has stopped already.
///
/// "Differs" means by more than ``tolerance``. `server/clock` holds the latest time and what each server states as its
/// time, once a ``period`` and when another server appears. A statement counts only if this server saw it appear: its
/// author's clock then showed at most the stated time plus the time since this server looked before. So what a server
/// wrote before it stopped, or before the store was idle, is no evidence. A server whose clock is wrong states nothing.
///
/// The latest time is the time that two servers agree on. A server without others stores its time at the first start,
/// and once an hour if the clock advanced by an hour. So a clock that is ahead for a moment leaves no trace.
/// Alone, a server cannot know that its clock is ahead.
package final class ClockRollbackGuard: Sendable {
    private struct Statement: Codable, Hashable, Sendable {
        /// The server: random for each process.
        var id: String
        /// Its statements so far.
        var number: Int
        /// Milliseconds since 1970 UTC.
        var time: Int64
    }

    private struct Record: Codable, Hashable, Sendable {
        /// Milliseconds since 1970 UTC.
        var latest: Int64
        /// The statements of the servers, the newest one last.
        var servers: [Statement]?
    }

    /// Another server.
    private struct Peer {
        var last: Statement
        /// The time by this server's timer at which the statement was seen first.
        var seen: Duration
        /// The latest time that its clock can have shown at `seen`; `nil` if the statement may be older.
        var bound: Int64?

        func isLive(_ now: Duration) -> Bool { bound != nil && now - seen <= ClockRollbackGuard.silence }
    }

    /// A time, and the time by this server's timer at which it was read.
    private struct Reading {
        var time: Int64
        var read: Duration

        func time(at now: Duration) -> Int64 { time + Int64((now - read) / .milliseconds(1)) }
    }

    private struct State {
        var latest: Int64 = 0
        /// The clock of the store, if it has one.
        var store: Reading?
        /// The latest time that the clock of every other server can show.
        var others: Reading?
        var peers: [String: Peer] = [:]
        /// The time by the timer at which the statements were read last.
        var looked: Duration?
        var isDue = true
        /// The statements of this server so far.
        var number = 0
        /// This server's clock at the last hourly check.
        var hour: Reading
    }

    /// The reason why a clock is wrong, and by how many milliseconds.
    private enum Fault {
        case behindLatest(Int64)
        case aheadOfOthers(Int64)
        case differsFromStore(Int64)
    }

    /// The largest correction of a clock, in milliseconds. If one of the server's own dates is further ahead than this,
    /// the clock was wrong when it was written, and the dated item would be valid for too long.
    package static let tolerance: Int64 = 300_000
    /// The time between two statements of a server.
    static let period = Duration.seconds(60)
    /// The time without a statement after which another server has ended.
    private static let silence = period * 3
    private static let hour = Duration.seconds(3_600)
    /// The number of statements that are kept, more than any number of servers.
    private static let serverCount = 64

    private let records: RecordStore
    private let host: HostServices
    private let id: String
    private let elapsed: @Sendable () -> Duration
    private let wake = SignalHub()
    private let state: Mutex<State>

    /// - Parameter id: This server: random for each process.
    init(_ records: RecordStore, host: HostServices, id: String) {
        (self.records, self.host, self.id) = (records, host, id)
        elapsed = host.stopwatch()
        state = Mutex(State(hour: Reading(time: host.now(), read: .zero)))
    }

    private static let name = KeyScope.serverPrefix + "clock"

    private static func key() throws(BackendError) -> EntryKey { try EntryKey(name) }

    /// The latest time that the server of `store` has stored, in milliseconds since 1970 UTC; `nil` if there is none.
    package static func latest(in store: any KeyValueBackend) async throws(BackendError) -> Int64? {
        let record: RecordStore.Versioned<Record>? = try await RecordStore(backend: store).read(try key())
        return record?.value.latest
    }

    /// Loads the latest time.
    ///
    /// - Parameter isRight: True if this clock is right, even if it is behind the latest time.
    func load(isRight: Bool) async throws(BackendError) {
        try await readStoreClock()
        let now = host.now()
        let record = try await records.update(try Self.key()) { (known: Record?) in
            guard let known, !isRight else { return Record(latest: now, servers: known?.servers) }
            return known
        }
        state.withLock { $0.latest = record?.latest ?? now }
    }

    /// Checks the clock of a program that works on the store beside its server. Writes nothing.
    ///
    /// - Throws: ``SupportError`` if the clock is behind the latest time, or the store's error.
    static func check(_ now: Int64, against records: RecordStore) async throws {
        guard let latest = try await records.read(try key(), as: Record.self)?.value.latest, latest - now > tolerance
        else { return }
        throw SupportError(
            .clockIsBehind,
            "this machine's clock is \((latest - now) / 1_000) s behind the latest time in the server's store: set it "
                + "right, or start the server once with --accept-clock if it is right now")
    }

    private var fault: Fault? {
        let (now, elapsed) = (host.now(), elapsed())
        return state.withLock { Self.fault(of: now, $0, elapsed) }
    }

    private static func fault(of now: Int64, _ state: State, _ elapsed: Duration) -> Fault? {
        if let store = state.store {
            let lead = now - store.time(at: elapsed)
            return abs(lead) > tolerance ? .differsFromStore(lead) : nil
        }
        if state.latest - now > tolerance { return .behindLatest(state.latest - now) }
        guard let others = state.others, case let lead = now - others.time(at: elapsed), lead > tolerance else {
            return nil
        }
        return .aheadOfOthers(lead)
    }

    /// True if the clock is wrong.
    var isWrong: Bool { fault != nil }

    /// Throws `BackendError.Kind.unavailable` if the clock is wrong.
    func check() throws(BackendError) {
        let message: String
        switch fault {
        case nil: return
        case .behindLatest(let lag):
            message =
                "\(lag / 1_000) s behind the latest time in the store: set it right, or start once with "
                + "--accept-clock if it is right now"
        case .aheadOfOthers(let lead):
            message =
                "at least \(lead / 1_000) s ahead of another server over the store: set it right. If the other one is "
                + "wrong, stop that one; this one goes on after three minutes"
        case .differsFromStore(let lead):
            message = "\(abs(lead) / 1_000) s \(lead < 0 ? "behind" : "ahead of") the store's own clock: set it right"
        }
        throw BackendError(.unavailable, disposition: .transient, message: "the server's clock is " + message)
    }

    /// Handles a change of the store: if it is a statement of a server, ``run(onError:)`` reads it.
    func notice(_ key: EntryKey) { if key.text == Self.name { wake.signal() } }

    /// States the time once a ``period``, and reads what others state, until the task is cancelled.
    func run(onError: @escaping @Sendable (BackendError) -> Void) async {
        let signals = wake.subscribe()
        wake.signal()
        await withTaskGroup(of: Void.self) { group in
            group.addTask { [self] in
                while (try? await host.sleep(for: Self.period)) != nil { makeDue() }
            }
            for await _ in signals {
                do throws(BackendError) { try await attend() } catch {
                    if !Task.isCancelled { onError(error) }
                }
            }
            group.cancelAll()
        }
    }

    /// Makes ``run(onError:)`` state the time.
    func makeDue() {
        state.withLock { $0.isDue = true }
        wake.signal()
    }

    /// Reads the clock of the store and the statements of others. States the time if that is due.
    func attend() async throws(BackendError) {
        try await readStoreClock()
        let record = try await records.update(try Self.key()) { [self] (known: Record?) in
            let (now, elapsed) = (host.now(), elapsed())
            return state.withLock { state in
                // Not the maximum: a server that was started with `--accept-clock` may have set it back.
                state.latest = known?.latest ?? state.latest
                let servers = known?.servers ?? []
                // Without the second condition, more servers than the record has room for would state the time in
                // turns without end.
                let isNew = Self.look(at: servers, besides: id, elapsed, &state) && servers.count < Self.serverCount
                guard state.isDue || isNew, Self.fault(of: now, state, elapsed) == nil else { return nil }
                return statement(after: known, now, elapsed, &state)
            }
        }
        guard let record else { return }
        state.withLock { state in
            state.latest = record.latest
            state.isDue = false
        }
    }

    private func readStoreClock() async throws(BackendError) {
        let start = elapsed()
        let time = try await records.backend.latestCursor().serverTime
        state.withLock { $0.store = time.map { Reading(time: $0, read: start) } }
    }

    /// Remembers the statements of other servers.
    ///
    /// - Returns: `true` if there is a server that was not there before.
    private static func look(
        at statements: [Statement], besides id: String, _ now: Duration, _ state: inout State
    ) -> Bool {
        let gap = state.looked.map { Int64((now - $0) / .milliseconds(1)) }
        var isNew = false
        var peers: [String: Peer] = [:]
        for statement in statements where statement.id != id {
            let known = state.peers[statement.id]
            if let known, known.last == statement {
                peers[statement.id] = known
            } else {
                isNew = isNew || known == nil && gap != nil
                peers[statement.id] = Peer(last: statement, seen: now, bound: gap.map { statement.time + $0 })
            }
        }
        (state.peers, state.looked) = (peers, now)
        let bounds = peers.values.compactMap { peer -> Int64? in
            guard peer.isLive(now), let bound = peer.bound else { return nil }
            return Reading(time: bound, read: peer.seen).time(at: now)
        }
        state.others = bounds.min().map { Reading(time: $0, read: now) }
        return isNew
    }

    /// The record with the statement of this server, and without those of servers that have ended.
    private func statement(after known: Record?, _ now: Int64, _ elapsed: Duration, _ state: inout State) -> Record {
        var record = known ?? Record(latest: now)
        let peers = state.peers
        var servers = (record.servers ?? []).filter { server in
            server.id != id && peers[server.id].map { elapsed - $0.seen <= Self.silence } ?? true
        }
        state.number += 1
        servers.append(Statement(id: id, number: state.number, time: now))
        record.servers = servers.suffix(Self.serverCount)
        let live = peers.values.filter { $0.isLive(elapsed) }
        if !live.isEmpty {
            record.latest = max(record.latest, live.reduce(now) { min($0, $1.last.time) })
        } else if elapsed - state.hour.read >= Self.hour {
            if abs(now - state.hour.time(at: elapsed)) <= Self.tolerance { record.latest = max(record.latest, now) }
            state.hour = Reading(time: now, read: elapsed)
        }
        return record
    }
}
