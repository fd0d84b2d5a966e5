import SyncCore
import Synchronization

/// The store's health, judged by recent write errors, and by writes without an answer. A test entry is written only
/// after such an error.
final class StoreHealth: Sendable {
    /// The shortest time between two test writes, in milliseconds.
    static let pause: Int64 = 5_000

    /// The longest time without an answer to a write.
    static let longestWrite = FeedFreshness.readiness

    private struct State {
        var failure: BackendError?
        var tried: Int64?
        /// The starts of the writes under way.
        var starts: [Int: Duration] = [:]
        var latest = 0
    }

    private let state = Mutex(State())
    private let elapsed: @Sendable () -> Duration

    init(_ host: HostServices) { elapsed = host.stopwatch() }

    /// Performs a write, whose duration and error count for ``check(_:now:)``.
    func timing<Outcome>(_ write: () async throws(BackendError) -> Outcome) async throws(BackendError) -> Outcome {
        let start = elapsed()
        let number = state.withLock { state in
            state.latest += 1
            state.starts[state.latest] = start
            return state.latest
        }
        defer { state.withLock { state in state.starts[number] = nil } }
        do throws(BackendError) { return try await write() } catch {
            remember(error)
            throw error
        }
    }

    /// Records an error of the store. One of opening it may be that of a write, so it counts as well.
    func remember(_ error: BackendError) {
        guard [.write, .delete, .open].contains(error.operation) else { return }
        switch error.kind {
        case .busy, .cancelled, .tooLarge, .invalidKey, .refused: return
        default: state.withLock { $0.failure = error }
        }
    }

    /// Throws the last write error until a test write succeeds, and an error while a write waits too long.
    func check(_ store: any KeyValueBackend, now: Int64) async throws(BackendError) {
        if let oldest = state.withLock({ $0.starts.values.min() }), elapsed() - oldest > Self.longestWrite {
            throw BackendError(
                .unavailable, operation: .write, disposition: .transient,
                message: "a write has had no answer for \((elapsed() - oldest).components.seconds) s")
        }
        let (failure, isDue) = state.withLock { state in
            guard state.failure != nil else { return (BackendError?.none, false) }
            let isDue = state.tried.map { now < $0 || now - $0 >= Self.pause } ?? true
            if isDue { state.tried = now }
            return (state.failure, isDue)
        }
        guard let failure else { return }
        guard isDue else { throw failure }
        do throws(BackendError) {
            let value = Array("\(now)".utf8)
            _ = try await store.write(value, to: try EntryKey(KeyScope.serverPrefix + "readiness"), if: .any)
        } catch {
            state.withLock { $0.failure = error }
            throw error
        }
        state.withLock { ($0.failure, $0.tried) = (nil, nil) }
    }
}

/// A store whose writes are observed by a ``StoreHealth``.
struct TimedStore: ForwardingBackend, SynchronousReading {
    let base: any KeyValueBackend
    let health: StoreHealth

    var requiringExisting: any KeyValueBackend { TimedStore(base: base.requiringExisting, health: health) }

    func forward<Outcome: Sendable>(
        _ operation: BackendError.Operation, _ key: EntryKey?,
        _ call: (any KeyValueBackend) async throws(BackendError) -> Answer<Outcome>
    ) async throws(BackendError) -> Answer<Outcome> {
        guard operation == .write || operation == .delete else { return try await call(base) }
        return try await health.timing { () async throws(BackendError) in try await call(base) }
    }

    func read(_ requests: [ReadRequest]) async throws(BackendError) -> BatchAnswer<ReadOutcome> {
        try await base.read(requests)
    }

    func write(_ requests: [WriteRequest]) async throws(BackendError) -> BatchAnswer<WriteOutcome> {
        let answer = try await health.timing { () async throws(BackendError) in try await base.write(requests) }
        for case .failure(let error) in answer.outcome { health.remember(error) }
        return answer
    }
}
