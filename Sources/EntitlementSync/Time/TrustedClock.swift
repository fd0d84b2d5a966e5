import Entitlements
import SyncCore
import Synchronization

/// The time by which access is decided: the wall clock, corrected by what servers and stores said.
///
/// The marks are this device's own, in its local store, never in a ledger. They are written when a server corrects
/// them, and otherwise when they have moved on by ten minutes, so that asking for access costs no write: after a kill
/// and a set-back at most so much comes back. A copy of the local store that is put back brings its old marks back.
final class TrustedClock: Sendable {
    private struct State {
        var marks = ClockMarks()
        /// The marks that the local store holds, as far as is known.
        var kept = ClockMarks()
        /// The version of the entry that holds them.
        var keptVersion: EntryVersion?
        /// Requests are numbered as they begin; the answer to an earlier one does not replace that to a later one.
        var lastRequest: UInt64 = 0
        var answeredRequest: UInt64 = 0
        /// Whether it was told that the marks cannot be read or kept.
        var hasFailed = false
    }

    private let backend: any KeyValueBackend
    private let host: HostServices
    private let isTrusted: Bool
    private let state = Mutex(State())

    /// By how many milliseconds the marks may be ahead of those that are kept.
    static let granularity: Int64 = 600_000

    /// A clock that keeps its marks in `backend`, or one that is the host's alone.
    init(backend: any KeyValueBackend, host: HostServices, isTrusted: Bool) {
        self.backend = backend
        self.host = host
        self.isTrusted = isTrusted
    }

    private var wall: Timestamp { Timestamp(milliseconds: host.now()) }

    /// The time now.
    var now: Timestamp {
        let wall = wall
        guard isTrusted else { return wall }
        return state.withLock { state in
            let now = state.marks.now(at: wall)
            state.marks.see(now)
            return now
        }
    }

    /// What the corrected clock would show if no mark held it: where this is earlier than ``now``, time stands still
    /// until it has caught up.
    var shown: Timestamp {
        let wall = wall
        return isTrusted ? state.withLock { $0.marks.shown(at: wall) } : wall
    }

    /// What is known, for showing.
    var marks: ClockMarks { state.withLock { $0.marks } }

    /// Notes a date that a store has signed, where it is news: where it is later than what the clock shows.
    func vouch(for date: Timestamp) {
        let wall = wall
        guard isTrusted else { return }
        state.withLock { state in
            if date > state.marks.now(at: wall) { state.marks.vouch(for: date) }
        }
    }

    /// The marks were read, and kept where that was worth it.
    func didRefresh() { state.withLock { $0.hasFailed = false } }

    /// The marks could not be read or kept. Returns whether that is news.
    func didFailToRefresh() -> Bool {
        state.withLock { state in
            defer { state.hasFailed = true }
            return !state.hasFailed
        }
    }

    /// A request to the remote begins. Its number and when.
    func begin() -> (number: UInt64, at: Timestamp) {
        let wall = wall
        return state.withLock { state in
            state.lastRequest += 1
            return (state.lastRequest, wall)
        }
    }

    /// The remote answered a request with its time.
    func end(_ request: (number: UInt64, at: Timestamp), serverTime: Int64?, of remote: String) {
        guard isTrusted, let serverTime else { return }
        let wall = wall
        state.withLock { state in
            guard request.number > state.answeredRequest else { return }
            let time = Timestamp(milliseconds: serverTime)
            let number = (state.kept.contact?.number ?? 0) &+ 1
            if state.marks.meet(time, of: remote, number: number, sent: request.at, received: wall) {
                state.answeredRequest = request.number
            }
        }
    }

    /// Reads the marks that another process may have left, or this one before it ended.
    ///
    /// What cannot be understood counts as no marks: whoever can damage the entry can remove it as well, and nobody
    /// shall be locked out by a damaged hint. A store that cannot be read is an error.
    func load() async throws(EntitlementError) {
        guard isTrusted else { return }
        let known = state.withLock { $0.keptVersion }
        let outcome: ReadOutcome
        do { outcome = try await backend.read(try EntryKey(LedgerKeys.clock), unless: known).outcome } catch {
            throw EntitlementError(error)
        }
        switch outcome {
        case .unchanged: break
        case .absent: take(nil)
        case .found(let entry): take(entry)
        }
    }

    /// Takes up what the local store was found to hold.
    private func take(_ entry: Entry?) {
        let wall = wall
        state.withLock { state in
            state.kept = entry.flatMap { ClockMarks($0.value) } ?? ClockMarks()
            state.keptVersion = entry?.version
            state.marks.learn(from: state.kept, at: wall)
        }
    }

    /// Writes the marks if they are worth it: after a correction, or when they moved on.
    func keep() async throws(EntitlementError) {
        guard isTrusted else { return }
        _ = now  // What is seen now is what is kept.
        for _ in 0..<LedgerEntries.maximumAttempts {
            let (marks, kept, version) = state.withLock { ($0.marks, $0.kept, $0.keptVersion) }
            guard marks.isWorthKeeping(instead: kept) else { return }
            do {
                let outcome = try await backend.write(
                    marks.bytes, to: try EntryKey(LedgerKeys.clock), if: version.map(Precondition.matches) ?? .absent
                ).outcome
                switch outcome {
                case .written(let version):
                    state.withLock { ($0.kept, $0.keptVersion) = (marks, version) }
                    return
                // Another process was here.
                case .conflict(let current): take(current)
                case .deleted: preconditionFailure("a write does not delete")
                }
            } catch {
                guard error.disposition == .outcomeUnknown else { throw EntitlementError(error) }
                try await load()
            }
        }
    }
}

extension ClockMarks {
    /// Takes over what another process knows better: the later contact, and of one contact the later mark.
    fileprivate mutating func learn(from other: ClockMarks, at wall: Timestamp) {
        if other.contact == contact {
            softMark = max(softMark, other.softMark)
        } else if other.isLater(than: self) {
            let before = now(at: wall)
            self = other
            keep(before, ifAheadByAtMost: Self.longestRoundTrip, at: wall)
        }
    }

    /// Whether its contact came after another's. A contact that changed little is not kept at once, and none is where
    /// the store fails, so that two processes may count different ones alike; of these the server's own time tells.
    private func isLater(than other: ClockMarks) -> Bool {
        guard let theirs = other.contact else { return contact != nil }
        guard let contact else { return false }
        return (contact.number, contact.serverTime) > (theirs.number, theirs.serverTime)
    }

    /// Whether a restart with `kept` would be wrong by more than the granularity, in either direction.
    fileprivate func isWorthKeeping(instead kept: ClockMarks) -> Bool {
        if self == kept { return false }
        guard (contact == nil) == (kept.contact == nil) else { return true }
        let (correction, overflow) = offset.subtractingReportingOverflow(kept.offset)
        if overflow || abs(correction) > 5_000 { return true }
        // A mark that went back must be kept, or it would lock somebody out after a restart.
        return softMark < kept.softMark
            || softMark.milliseconds - kept.softMark.milliseconds >= TrustedClock.granularity
    }
}

/// Passes everything on to the remote, tells the clock what time its answers say it is, and notes what else they tell.
struct TimekeepingBackend: KeyValueBackend {
    let wrapped: any KeyValueBackend
    let clock: TrustedClock
    let relatedVersions: RelatedVersions

    var capabilities: Capabilities { wrapped.capabilities }
    var label: String { wrapped.label }
    var requiringExisting: any KeyValueBackend {
        TimekeepingBackend(wrapped: wrapped.requiringExisting, clock: clock, relatedVersions: relatedVersions)
    }

    private func timed<Outcome: Sendable>(
        about key: EntryKey? = nil, _ request: () async throws(BackendError) -> Answer<Outcome>
    ) async throws(BackendError) -> Answer<Outcome> {
        let begun = clock.begin()
        let answer = try await request()
        clock.end(begun, serverTime: answer.serverTime, of: label)
        if let key { relatedVersions.note(answer.relatedVersion, of: key) }
        return answer
    }

    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        try await timed(about: key) { () throws(BackendError) in try await wrapped.read(key, unless: knownVersion) }
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await timed(about: key) { () throws(BackendError) in
            try await wrapped.write(value, to: key, if: precondition)
        }
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        try await timed { () throws(BackendError) in try await wrapped.delete(key, if: precondition) }
    }

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        try await timed { () throws(BackendError) in
            try await wrapped.list(prefix: prefix, after: cursor, limit: limit)
        }
    }

    func read(_ requests: [ReadRequest]) async throws(BackendError) -> Answer<[Result<ReadOutcome, BackendError>]> {
        try await timed { () throws(BackendError) in try await wrapped.read(requests) }
    }

    func write(_ requests: [WriteRequest]) async throws(BackendError) -> Answer<[Result<WriteOutcome, BackendError>]> {
        try await timed { () throws(BackendError) in try await wrapped.write(requests) }
    }

    func changes(since cursor: ChangeCursor?, limit: Int) async throws(BackendError) -> Answer<ChangePage> {
        try await timed { () throws(BackendError) in try await wrapped.changes(since: cursor, limit: limit) }
    }

    func signals() -> AsyncStream<Void> { wrapped.signals() }
}
