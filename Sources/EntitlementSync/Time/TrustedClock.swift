import Entitlements
import SyncCore
import Synchronization

/// The time that decides access: the wall clock, corrected by servers and by the signed dates of stores.
///
/// The marks are stored per device, in the local store, never in a ledger. They are written after a correction by a
/// server, and otherwise each time they have advanced by ten minutes, so that an access check costs no write. If the
/// process is killed and the clock is set back, at most ten minutes of expired access return. Restoring an old copy of
/// the local store restores its old marks.
final class TrustedClock: Sendable {
    private struct State {
        var marks = ClockMarks()
        /// The marks in the local store, as far as known.
        var kept = ClockMarks()
        /// The version of the entry that holds them.
        var keptVersion: EntryVersion?
        /// Requests are numbered in the order of their start. A late answer to an earlier request does not replace a
        /// newer one.
        var lastRequest: UInt64 = 0
        var answeredRequest: UInt64 = 0
        /// The error of the last read of the stored marks.
        var readFailure: BackendError?
        /// True after a failure to read or write the marks was reported.
        var hasFailed = false
    }

    private let backend: any KeyValueBackend
    private let key: EntryKey
    private let host: HostServices
    private let isTrusted: Bool
    private let state = Mutex(State())

    /// The time in milliseconds by which the marks may run ahead of the stored ones.
    static let granularity: Int64 = 600_000

    /// Creates a clock that stores its marks in `backend`. If `isTrusted` is `false` it is the host's clock alone.
    init(backend: any KeyValueBackend, host: HostServices, isTrusted: Bool) throws(EntitlementError) {
        self.backend = backend
        key = try ofLocalStore(EntryKey(LedgerKeys.clock))
        self.host = host
        self.isTrusted = isTrusted
    }

    private var wall: Timestamp { Timestamp(milliseconds: host.now()) }

    /// The time that decides access.
    var now: Timestamp {
        let wall = wall
        guard isTrusted else { return wall }
        return state.withLock { state in
            let now = state.marks.now(at: wall)
            state.marks.observe(now)
            return now
        }
    }

    /// The corrected clock without the marks. While it is earlier than ``now``, time stands still.
    var corrected: Timestamp {
        let wall = wall
        return isTrusted ? state.withLock { $0.marks.corrected(at: wall) } : wall
    }

    /// The current marks.
    var marks: ClockMarks { state.withLock { $0.marks } }

    /// Raises the soft mark to a date that a store has signed, if the date is later than the current time.
    func raise(toSignedDate date: Timestamp) {
        let wall = wall
        guard isTrusted else { return }
        state.withLock { state in
            if date > state.marks.now(at: wall) { state.marks.raise(toSignedDate: date) }
        }
    }

    /// Records that reading and storing the marks succeeded.
    func didKeep() { state.withLock { $0.hasFailed = false } }

    /// Records that reading or storing the marks failed. Returns `true` if this failure is the first in a row.
    func didFailToKeep() -> Bool {
        state.withLock { state in
            defer { state.hasFailed = true }
            return !state.hasFailed
        }
    }

    /// Starts a request to the remote. Returns its number and its start by the wall clock.
    func begin() -> (number: UInt64, at: Timestamp) {
        let wall = wall
        return state.withLock { state in
            state.lastRequest += 1
            return (state.lastRequest, wall)
        }
    }

    /// Finishes a request that the remote answered with its time.
    func end(_ request: (number: UInt64, at: Timestamp), serverTime: Int64?, of remote: String) {
        guard isTrusted, let serverTime else { return }
        let wall = wall
        state.withLock { state in
            guard request.number > state.answeredRequest else { return }
            let time = Timestamp(milliseconds: serverTime)
            let number = (state.kept.contact?.number ?? 0) &+ 1
            if state.marks.accept(time, of: remote, number: number, sent: request.at, received: wall) {
                state.answeredRequest = request.number
            }
        }
    }

    /// The read of the stored marks, for a batch; `nil` if the clock is not trusted.
    var readRequest: ReadRequest? {
        isTrusted ? ReadRequest(key, unless: state.withLock { $0.keptVersion }) : nil
    }

    /// Adopts the marks that another process, or an earlier run of this one, has stored.
    ///
    /// Malformed marks count as absent. Rejecting them would protect nothing, since write access to the entry suffices
    /// to remove it, and would lock users out because of a damaged hint. A failed read is thrown by the next
    /// ``keep()``.
    func take(_ result: Result<ReadOutcome, BackendError>) {
        state.withLock { $0.readFailure = nil }
        switch result {
        case .success(.unchanged): break
        case .success(.absent): take(nil)
        case .success(.found(let entry)): take(entry)
        case .failure(let error): state.withLock { $0.readFailure = error }
        }
    }

    /// Adopts the marks found in the local store.
    private func take(_ entry: Entry?) {
        let wall = wall
        state.withLock { state in
            state.kept = entry.flatMap { ClockMarks($0.value) } ?? ClockMarks()
            state.keptVersion = entry?.version
            state.marks.learn(from: state.kept, at: wall)
        }
    }

    /// Reads the stored marks alone. A failed read is thrown by ``checkRead()``.
    func load() async {
        guard let request = readRequest else { return }
        do throws(BackendError) {
            take(.success(try await backend.read(request.key, unless: request.knownVersion).outcome))
        } catch {
            take(.failure(error))
        }
    }

    /// Throws the error of the last read of the stored marks, if it failed.
    func checkRead() throws(EntitlementError) {
        if let failure = state.withLock({ $0.readFailure }) { throw EntitlementError(failure) }
    }

    /// Writes the marks if a correction or their advance makes it worthwhile.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged` if the stored marks could not be read, or if these
    ///   cannot be written.
    func keep() async throws(EntitlementError) {
        guard isTrusted else { return }
        try checkRead()
        _ = now  // Raises the soft mark to the present.
        guard state.withLock({ $0.marks.isWorthKeeping(instead: $0.kept) }) else { return }
        let stored = try await backend.update(key) { (entry) throws(EntitlementError) in
            take(entry)
            return state.withLock { $0.marks.isWorthKeeping(instead: $0.kept) ? $0.marks.bytes : nil }
        }
        take(stored)
    }
}

extension ClockMarks {
    /// Adopts the more recent contact. If both have the same contact, adopts the later mark.
    fileprivate mutating func learn(from other: ClockMarks, at wall: Timestamp) {
        if other.contact == contact {
            softMark = max(softMark, other.softMark)
        } else if other.isLater(than: self) {
            let before = now(at: wall)
            self = other
            keep(before, ifAheadByAtMost: Self.longestRoundTrip, at: wall)
        }
    }

    /// True if its contact is more recent. Two processes may give different contacts the same number, because a contact
    /// with a small correction is not stored at once, nor is any while the store fails. Between these the server's time
    /// decides.
    private func isLater(than other: ClockMarks) -> Bool {
        guard let theirs = other.contact else { return contact != nil }
        guard let contact else { return false }
        return (contact.number, contact.serverTime) > (theirs.number, theirs.serverTime)
    }

    /// True if a restart with `kept` would be wrong by more than the granularity, in either direction.
    fileprivate func isWorthKeeping(instead kept: ClockMarks) -> Bool {
        if self == kept { return false }
        guard (contact == nil) == (kept.contact == nil) else { return true }
        let (correction, overflow) = offset.subtractingReportingOverflow(kept.offset)
        if overflow || abs(correction) > 5_000 { return true }
        // Store a mark that went back. Otherwise the old mark would deny access after a restart.
        return softMark < kept.softMark
            || softMark.milliseconds - kept.softMark.milliseconds >= TrustedClock.granularity
    }
}

/// A backend that reports the times of the remote's answers to the clock, and notes related versions.
struct TimekeepingBackend: ForwardingBackend {
    let base: any KeyValueBackend
    let clock: TrustedClock
    let relatedVersions: RelatedVersions

    var requiringExisting: any KeyValueBackend {
        TimekeepingBackend(base: base.requiringExisting, clock: clock, relatedVersions: relatedVersions)
    }

    func forward<Outcome: Sendable>(
        _ operation: BackendError.Operation, _ key: EntryKey?,
        _ call: (any KeyValueBackend) async throws(BackendError) -> Answer<Outcome>
    ) async throws(BackendError) -> Answer<Outcome> {
        let begun = clock.begin()
        let answer = try await call(base)
        clock.end(begun, serverTime: answer.serverTime, of: label)
        if let key, operation != .delete { relatedVersions.remember(answer.relatedVersion, of: key) }
        return answer
    }

    func read(_ requests: [ReadRequest]) async throws(BackendError) -> BatchAnswer<ReadOutcome> {
        try await forward(.read, nil) { (base) throws(BackendError) in try await base.read(requests) }
    }

    func write(_ requests: [WriteRequest]) async throws(BackendError) -> BatchAnswer<WriteOutcome> {
        try await forward(.write, nil) { (base) throws(BackendError) in try await base.write(requests) }
    }
}
