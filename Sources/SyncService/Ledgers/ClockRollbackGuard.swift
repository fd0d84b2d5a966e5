package import SyncCore
import Synchronization

/// A guard against a server clock that was set back. It stores the latest time that was seen, in `server/clock`.
///
/// A purchase that a clock in the past has dated would end before it began, and such a decision is final.
///
/// The latest time is stored at the first start, and after that once an hour if the clock advanced by an hour. A clock
/// that is ahead for a moment by mistake therefore leaves no trace.
package final class ClockRollbackGuard: Sendable {
    private struct Record: Codable, Hashable, Sendable {
        /// Milliseconds since 1970 UTC.
        var latest: Int64
    }

    /// The largest correction of a clock, in milliseconds. If one of the server's own dates is further ahead than this,
    /// the clock was wrong when it was written, and the dated item would be valid for too long.
    package static let tolerance: Int64 = 300_000
    private static let period = Duration.seconds(3_600)

    private let records: RecordStore
    private let host: HostServices
    private let latest = Mutex(Int64(0))

    init(_ records: RecordStore, host: HostServices) { (self.records, self.host) = (records, host) }

    private static func key() throws(BackendError) -> EntryKey { try EntryKey(KeyScope.serverPrefix + "clock") }

    /// The latest time that the server of `store` has stored, in milliseconds since 1970 UTC; `nil` if there is none.
    package static func latest(in store: any KeyValueBackend) async throws(BackendError) -> Int64? {
        let record: RecordStore.Versioned<Record>? = try await RecordStore(backend: store).read(try key())
        return record?.value.latest
    }

    /// Loads the latest time.
    ///
    /// - Parameter isRight: True if this clock is right, even if it is behind the latest time.
    func load(isRight: Bool) async throws(BackendError) {
        let now = host.now()
        let record = try await records.update(try Self.key()) { (known: Record?) in
            guard let known, !isRight else { return Record(latest: now) }
            return known
        }
        latest.withLock { $0 = record?.latest ?? now }
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

    /// The number of milliseconds by which the clock is behind the latest time; `nil` if it is plausible.
    private var lag: Int64? {
        let lag = latest.withLock { $0 } - host.now()
        return lag > Self.tolerance ? lag : nil
    }

    /// True if the clock is behind the latest time.
    var isBehind: Bool { lag != nil }

    /// Throws `BackendError.Kind.unavailable` if the clock is behind the latest time.
    func check() throws(BackendError) {
        guard let lag else { return }
        throw BackendError(
            .unavailable, disposition: .transient,
            message: "the server's clock is \(lag / 1_000) s behind the latest time in the store: set it right, or "
                + "start once with --accept-clock if it is right now")
    }

    /// Stores the time once an hour until the task is cancelled.
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
