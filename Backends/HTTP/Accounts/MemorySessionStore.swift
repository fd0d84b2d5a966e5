public import SyncCore
import Synchronization

/// A session store in memory, for programs that log in at each start and for tests.
public final class MemorySessionStore: SessionStore {
    private struct State {
        var session: KeptSession?
        var isTaken = false
        /// In order of arrival.
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    private let state: Mutex<State>

    /// Creates a store that contains `session`.
    public init(_ session: KeptSession? = nil) { state = Mutex(State(session: session)) }

    /// The stored session; `nil` for none.
    public func load() async throws(BackendError) -> KeptSession? { state.withLock { $0.session } }

    /// Replaces the stored session.
    public func save(_ session: KeptSession) async throws(BackendError) { state.withLock { $0.session = session } }

    /// Deletes the stored session.
    public func delete() async throws(BackendError) { state.withLock { $0.session = nil } }

    /// Runs `body` while no other caller runs its own.
    public func exclusively<Outcome: Sendable>(
        _ body: @Sendable () async throws(BackendError) -> Outcome
    ) async throws(BackendError) -> Outcome {
        await take()
        defer { release() }
        return try await body()
    }

    private func take() async {
        await withCheckedContinuation { continuation in
            let isMine = state.withLock { state in
                guard state.isTaken else {
                    state.isTaken = true
                    return true
                }
                state.waiters.append(continuation)
                return false
            }
            if isMine { continuation.resume() }
        }
    }

    /// Passes exclusive access to the caller that has waited longest.
    private func release() {
        let next: CheckedContinuation<Void, Never>? = state.withLock { state in
            guard !state.waiters.isEmpty else {
                state.isTaken = false
                return nil
            }
            return state.waiters.removeFirst()
        }
        next?.resume()
    }
}
