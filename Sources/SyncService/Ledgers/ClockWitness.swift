import SyncCore
import Synchronization

/// What the servers of a store remember of the time, in `server/clock`: a clock that was set back must not decide when
/// a purchase begins. What it decided would stand, and the buyer's time would be over before it began.
///
/// The latest time is noted at the first start, and then each hour, if the clock went as long as the hour did: a clock
/// that is ahead for a moment by mistake leaves nothing behind.
final class ClockWitness: Sendable {
    private struct Record: Codable, Hashable, Sendable {
        /// Milliseconds since 1970 UTC.
        var latest: Int64
    }

    /// So much a clock may be corrected, in milliseconds. What the server itself dated later than that ahead of its
    /// clock was written while the clock was wrong, and would count for longer than it may.
    static let tolerance: Int64 = 300_000
    private static let period = Duration.seconds(3_600)

    private let records: RecordStore
    private let host: HostServices
    private let latest = Mutex(Int64(0))

    init(_ records: RecordStore, host: HostServices) { (self.records, self.host) = (records, host) }

    private static func key() throws(BackendError) -> EntryKey { try EntryKey(KeyScope.serverPrefix + "clock") }

    /// Reads what is remembered.
    ///
    /// - Parameter isRight: whether this clock is right, whatever is remembered.
    func load(isRight: Bool) async throws(BackendError) {
        let now = host.now()
        let record = try await records.update(try Self.key()) { (known: Record?) in
            guard let known, !isRight else { return Record(latest: now) }
            return known
        }
        latest.withLock { $0 = record?.latest ?? now }
    }

    /// How far the clock shows a time that is over, in milliseconds; `nil` where it can be right.
    private var lag: Int64? {
        let lag = latest.withLock { $0 } - host.now()
        return lag > Self.tolerance ? lag : nil
    }

    /// Whether the clock shows a time that is over.
    var isBehind: Bool { lag != nil }

    /// Throws where the clock is behind.
    func check() throws(BackendError) {
        guard let lag else { return }
        throw BackendError(
            .unavailable, disposition: .transient,
            message: "the server's clock is \(lag / 1_000) s behind what it was already: set it right, or "
                + "start once with --accept-clock if it is right now")
    }

    /// Notes the time each hour until the task is cancelled.
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
