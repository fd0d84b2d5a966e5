public import SyncCore
import Synchronization

/// Keeps a session as long as the program runs: for programs that log in each time they start, and for tests.
public final class MemorySessionStore: SessionStore {
    private struct State {
        var session: KeptSession?
        var isTaken = false
        /// In the order in which they came.
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    private let state: Mutex<State>

    /// A store that keeps `session`.
    public init(_ session: KeptSession? = nil) { state = Mutex(State(session: session)) }

    /// What is kept; `nil` for nothing.
    public func load() async throws(BackendError) -> KeptSession? { state.withLock { $0.session } }

    /// Keeps `session` in the place of what is there.
    public func save(_ session: KeptSession) async throws(BackendError) { state.withLock { $0.session = session } }

    /// Keeps nothing any more.
    public func delete() async throws(BackendError) { state.withLock { $0.session = nil } }

    /// Runs `body` while nobody else runs his.
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

    /// Hands it on to who has waited longest.
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
