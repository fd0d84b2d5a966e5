import SyncCore
import Synchronization

/// The time since this process last followed the store's changes to their end.
///
/// Everything that the process remembers about accounts, sessions and keys is dropped when a change of it is read. A
/// memory is therefore believed only while the changes are followed: it may lack the changes of the last ``trust``, and
/// none before. Otherwise the record is read again.
final class FeedFreshness: Sendable {
    /// The longest time since the changes were followed for which caches are believed.
    static let trust = Duration.seconds(2)
    /// The longest time since the changes were followed for which the server is ready.
    static let readiness = Duration.seconds(10)

    private let elapsed: @Sendable () -> Duration
    /// The start of the last read that reached the end of the changes, in nanoseconds since this object was created;
    /// negative if there was none.
    private let followed = Atomic<Int64>(-1)

    /// - Parameter host: Its timer measures the time, because the wall clock may jump.
    init(_ host: HostServices) { elapsed = host.stopwatch() }

    /// The time since this object was created.
    var now: Duration { elapsed() }

    /// Records that a read of the changes which began at `start` reached their end.
    func remember(start: Duration) {
        followed.store(max(0, Int64(start / .nanoseconds(1))), ordering: .releasing)
    }

    /// The time since the changes were followed; the time since the start if they never were.
    var age: Duration { elapsed() - .nanoseconds(max(0, followed.load(ordering: .acquiring))) }

    /// True if the changes were followed within ``trust``.
    var isFresh: Bool {
        let followed = followed.load(ordering: .acquiring)
        return followed >= 0 && elapsed() - .nanoseconds(followed) <= Self.trust
    }
}
