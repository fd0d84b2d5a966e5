public import SyncCore
import Synchronization

/// Caches the access token of a session and shares one refresh among all waiting requests.
///
/// Sharing is required for correctness: a rotating refresh token may be used only once, so a second concurrent refresh
/// could end the session.
///
/// ```swift
/// let tokens = AccessTokens { refused in try await session.refresh(after: refused) }
/// ```
public final class AccessTokens: Sendable {
    /// Fetches a new token, or returns `nil` if requests need none.
    ///
    /// - Parameter refused: the token that the server has refused; `nil` if there was no token.
    public typealias Refresh = @Sendable (_ refused: String?) async throws(BackendError) -> String?

    private typealias Outcome = Result<String?, BackendError>

    private struct State {
        var token: String?
        var isRefreshing = false
        var nextID: UInt64 = 0
        /// In order of arrival.
        var waiters: [(id: UInt64, continuation: CheckedContinuation<Outcome?, Never>)] = []
    }

    /// The next step of a caller that needs a token.
    private enum Step {
        case use(String)
        case refresh
        case waitForRefresh
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
            switch nextStep(refused) {
            case .use(let token): return token
            case .refresh: return try await refreshForAll(refused)
            case .waitForRefresh:
                if let outcome = await runningRefresh() { return try outcome.get() }
                try BackendError.throwIfCancelled(.open)
            }
        }
    }

    private func nextStep(_ refused: String?) -> Step {
        state.withLock { state in
            // Another request may already have replaced the refused token.
            if let token = state.token, token != refused { return .use(token) }
            if state.isRefreshing { return .waitForRefresh }
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
        // Other callers are not cancelled with this task, so one of them refreshes again.
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
    /// - Returns: its outcome. `nil` if the refresh had already ended, if its task was cancelled, or if this task was
    ///   cancelled; the caller then checks again.
    private func runningRefresh() async -> Outcome? {
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                // The check is under the lock that `onCancel` takes. A cancellation is therefore either visible here,
                // or its handler runs later and finds the waiter.
                let isWaiting = state.withLock { state in
                    guard state.isRefreshing, !Task.isCancelled else { return false }
                    state.waiters.append((id, continuation))
                    return true
                }
                if !isWaiting { continuation.resume(returning: nil) }
            }
        } onCancel: {
            let waiter = state.withLock { state in
                state.waiters.firstIndex { $0.id == id }.map { state.waiters.remove(at: $0) }
            }
            waiter?.continuation.resume(returning: nil)
        }
    }
}
