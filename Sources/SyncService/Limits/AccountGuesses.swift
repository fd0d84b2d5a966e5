import EntitlementSync
import SyncCore
import Synchronization

/// The wrong guesses for each account at all servers over the store, in `server/guesses/NAME`.
///
/// The count makes an address wait sooner: from ``threshold`` wrong guesses in an hour on, one wrong guess of an
/// address counts like ``GuessLimiter/guessesForAccount``. It never locks an account: the first guess of an address is
/// never delayed, and neither are devices with a session.
///
/// Guesses cannot cause many writes. A server adds ``batch`` guesses at once, and none while the count is at the
/// threshold: that makes about ten writes an hour for an account that exists, and one more for each server.
final class AccountGuesses: Sendable {
    /// The number of wrong guesses from which an account is under attack.
    static let threshold = 100
    /// The number of wrong guesses that a server adds at once.
    static let batch = 10
    /// The time for which a count lasts, in milliseconds.
    static let period: Int64 = 3_600_000
    private struct Record: Codable, Hashable, Sendable {
        var wrong: Int
        /// The time of the first of them, in milliseconds since 1970 UTC.
        var since: Int64

        /// A count that begins far after the current time was written by a wrong clock.
        func isOver(_ now: Int64) -> Bool {
            since - now > ClockRollbackGuard.tolerance || now - since >= AccountGuesses.period
        }
    }

    private let records: RecordStore
    /// The wrong guesses for an account that are not in the store yet.
    private struct Pending: Expiring {
        var count = 0
        var expires: Int64 { Int64(count) }
    }

    private let pending = Mutex(BoundedTable<Pending>(capacity: 4_096))

    init(_ records: RecordStore) { self.records = records }

    static func key(of name: String) throws(BackendError) -> EntryKey {
        try EntryKey(KeyScope.serverPrefix + "guesses/" + LedgerKeys.escaped(name))
    }

    /// Returns `true` if so many guesses for the account were wrong that an address has only one.
    func isAttacked(_ name: String, now: Int64) async throws(BackendError) -> Bool {
        guard let record = try await records.read(try Self.key(of: name), as: Record.self)?.value else { return false }
        return record.wrong >= Self.threshold && !record.isOver(now)
    }

    /// Counts a wrong guess for an account that exists.
    func count(_ name: String, now: Int64) async throws(BackendError) {
        let isFull = pending.withLock { table in
            table.update(HolderID.of(name)) { pending in
                pending.count = (pending.count + 1) % Self.batch
                return pending.count == 0
            }
        }
        guard isFull else { return }
        _ = try await records.update(try Self.key(of: name)) { (known: Record?) in
            guard let known, !known.isOver(now) else { return Record(wrong: Self.batch, since: now) }
            guard known.wrong < Self.threshold else { return nil }
            return Record(wrong: known.wrong + Self.batch, since: known.since)
        }
    }
}
