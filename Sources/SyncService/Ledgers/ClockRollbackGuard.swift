import SyncCore
import Synchronization

/// A guard against a server clock that was set back. It keeps the latest time that was seen in `server/clock`.
///
/// A purchase that was dated by a clock in the past would end before it began, and such a decision stands.
///
/// The latest time is recorded at the first start, and then each hour if the clock advanced by an hour. A clock that is
/// ahead for a moment by mistake leaves no trace.
final class ClockRollbackGuard: Sendable {
    private struct Record: Codable, Hashable, Sendable {
        /// Milliseconds since 1970 UTC.
        var latest: Int64
    }

    /// The largest correction of a clock, in milliseconds. A date of the server's own that is further ahead than this
    /// was written while the clock was wrong, and would be valid for too long.
    static let tolerance: Int64 = 300_000
    private static let period = Duration.seconds(3_600)

    private let records: RecordStore
    private let host: HostServices
    private let latest = Mutex(Int64(0))

    init(_ records: RecordStore, host: HostServices) { (self.records, self.host) = (records, host) }

    private static func key() throws(BackendError) -> EntryKey { try EntryKey(KeyScope.serverPrefix + "clock") }

    /// Loads the latest time.
    ///
    /// - Parameter isRight: Whether this clock is right, even if it is behind the latest time.
    func load(isRight: Bool) async throws(BackendError) {
        let now = host.now()
        let record = try await records.update(try Self.key()) { (known: Record?) in
            guard let known, !isRight else { return Record(latest: now) }
            return known
        }
        latest.withLock { $0 = record?.latest ?? now }
    }

    /// The number of milliseconds by which the clock is behind; `nil` when it can be right.
    private var lag: Int64? {
        let lag = latest.withLock { $0 } - host.now()
        return lag > Self.tolerance ? lag : nil
    }

    /// Indicates whether the clock is behind the latest time.
    var isBehind: Bool { lag != nil }

    /// Throws `BackendError.Kind.unavailable` when the clock is behind.
    func check() throws(BackendError) {
        guard let lag else { return }
        throw BackendError(
            .unavailable, disposition: .transient,
            message: "the server's clock is \(lag / 1_000) s behind the latest time in the store: set it right, or "
                + "start once with --accept-clock if it is right now")
    }

    /// Records the time each hour until the task is cancelled.
    func run(onError: @Sendable (BackendError) -> Void) async {
        while true {
            let before = host.now()
            guard (try? await host.sleep(for: Self.period)) != nil else { return }
            let now = host.now()
            let gone = Int64(Self.period / .milliseconds(1))
            guard abs(now - before - gone) <= Self.tolerance else { continue }
            do throws(BackendError) {
                let record = try await records.update(try Self.key()) { (known: Record?) in
                    Record(latest: max(known?.latest ?? 0, now))
                }
                latest.withLock { $0 = max($0, record?.latest ?? 0) }
            } catch {
                onError(error)
            }
        }
    }
}
