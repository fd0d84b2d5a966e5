public import SyncCore
import Synchronization

/// A cache for the access token of a session that shares one refresh between all waiting requests.
///
/// Sharing is required for correctness: a rotating refresh token may be used only once, so a second concurrent refresh
/// could end the session.
///
/// ```swift
/// let tokens = AccessTokens { refused in try await session.refresh(after: refused) }
/// ```
public final class AccessTokens: Sendable {
    /// Fetches a new token; `nil` for none.
    ///
    /// - Parameter refused: the token that the server has refused; `nil` if there is none yet.
    public typealias Refresh = @Sendable (_ refused: String?) async throws(BackendError) -> String?

    private typealias Outcome = Result<String?, BackendError>

    private struct State {
        var token: String?
        var isRefreshing = false
        var nextID: UInt64 = 0
        /// In order of arrival.
        var waiters: [(id: UInt64, continuation: CheckedContinuation<Outcome?, Never>)] = []
    }

    private enum Part {
        case use(String)
        case refresh
        case wait
    }

    private let state: Mutex<State>
    private let refresh: Refresh

    /// Creates a cache.
    ///
    /// - Parameters:
    ///   - token: the known token; `nil` to fetch one at the first request.
    ///   - refresh: fetches a new token. Never called concurrently.
    public init(_ token: String? = nil, refresh: @escaping Refresh) {
        state = Mutex(State(token: token))
        self.refresh = refresh
    }

    /// Returns the current token. Refreshes it first if it was refused or if there is none.
    ///
    /// All callers that wait for a refresh get its error, and none of them retries. If the refreshing task is
    /// cancelled, the task of another caller takes over.
    ///
    /// - Parameter refused: the token that the server has just refused; `nil` for the first attempt.
    public func token(refused: String? = nil) async throws(BackendError) -> String? {
        while true {
            switch part(refused) {
            case .use(let token): return token
            case .refresh: return try await refreshForAll(refused)
            case .wait:
                if let outcome = await outcome(refused) { return try outcome.get() }
                try BackendError.throwIfCancelled(.open)
            }
        }
    }

    private func part(_ refused: String?) -> Part {
        state.withLock { state in
            // The refused token may be old and already replaced by another request.
            if let token = state.token, token != refused { return .use(token) }
            if state.isRefreshing { return .wait }
            state.isRefreshing = true
            return .refresh
        }
    }

    private func refreshForAll(_ refused: String?) async throws(BackendError) -> String? {
        let outcome: Outcome
        do throws(BackendError) {
            outcome = .success(try await refresh(refused))
        } catch {
            outcome = .failure(error)
        }
        var shared: Outcome? = outcome
        // The cancellation of this task does not concern other callers.
        if case .failure = outcome, Task.isCancelled { shared = nil }
        let waiters = state.withLock { state in
            if case .success(let token) = outcome { state.token = token }
            state.isRefreshing = false
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.continuation.resume(returning: shared) }
        return try outcome.get()
    }

    /// Waits for the running refresh.
    ///
    /// - Returns: its outcome, or `nil` to check again because it has ended or was abandoned, or this task was
    ///   cancelled.
    private func outcome(_ refused: String?) async -> Outcome? {
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                // Cancellation is checked under the lock: `onCancel` runs either before, which is visible here, or
                // after, when it finds the waiter.
                let waits = state.withLock { state in
                    guard state.isRefreshing, !Task.isCancelled else { return false }
                    state.waiters.append((id, continuation))
                    return true
                }
                if !waits { continuation.resume(returning: nil) }
            }
        } onCancel: {
            let waiter = state.withLock { state in
                state.waiters.firstIndex { $0.id == id }.map { state.waiters.remove(at: $0) }
            }
            waiter?.continuation.resume(returning: nil)
        }
    }
}
