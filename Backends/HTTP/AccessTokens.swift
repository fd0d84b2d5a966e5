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
    }

    /// The next step of a caller that needs a token.
    private enum Step {
        case use(String)
        case refresh
        case waitForRefresh(Waiting.Waiter)
    }

    /// The value is the outcome of the refresh; `nil` if the caller must check again.
    private typealias Waiting = WaitList<Void, Outcome?>

    private let state: Mutex<State>
    private let waiting = Waiting()
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
            case .waitForRefresh(let waiter):
                if let outcome = await waiter.value(ifCancelled: .some(nil)) { return try outcome.get() }
                try BackendError.throwIfCancelled(.open)
            }
        }
    }

    private func nextStep(_ refused: String?) -> Step {
        state.withLock { state in
            // Another request may already have replaced the refused token.
            if let token = state.token, token != refused { return .use(token) }
            if state.isRefreshing { return .waitForRefresh(waiting.add()) }
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
        var shared = Outcome?.some(outcome)
        // Other callers are not cancelled with this task, so one of them refreshes again.
        if case .failure = outcome, Task.isCancelled { shared = nil }
        state.withLock { state in
            if case .success(let token) = outcome { state.token = token }
            state.isRefreshing = false
            waiting.resumeAll(returning: shared)
        }
        return try outcome.get()
    }
}
