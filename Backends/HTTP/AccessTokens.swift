public import SyncCore
import Synchronization

/// The access token of a session, and the one way to a new one: however many requests find at once that theirs counts
/// no longer, one asks for another and all take it.
///
/// That matters beyond the cost. A refresh token that rotates may be used once; a second refresh beside the first could
/// end the session.
///
/// ```swift
/// let tokens = AccessTokens { refused in try await session.refresh(after: refused) }
/// ```
public final class AccessTokens: Sendable {
    /// Gets a new token; `nil` for none.
    ///
    /// - Parameter refused: the token that a server has refused; `nil` when there is none yet.
    public typealias Refresh = @Sendable (_ refused: String?) async throws(BackendError) -> String?

    private typealias Outcome = Result<String?, BackendError>

    private struct State {
        var token: String?
        var isRefreshing = false
        var nextID: UInt64 = 0
        /// In the order in which they came.
        var waiters: [(id: UInt64, continuation: CheckedContinuation<Outcome?, Never>)] = []
    }

    private enum Part {
        case use(String)
        case refresh
        case wait
    }

    private let state: Mutex<State>
    private let refresh: Refresh

    /// The tokens of a session.
    ///
    /// - Parameters:
    ///   - token: the one that is known already; `nil` asks for one at the first request.
    ///   - refresh: gets a new one. Never called twice at the same time.
    public init(_ token: String? = nil, refresh: @escaping Refresh) {
        state = Mutex(State(token: token))
        self.refresh = refresh
    }

    /// The current token, after a refresh where it is the one that was refused or where there is none.
    ///
    /// An error of a refresh is thrown to all who waited for it; none of them tries again by itself. Where the task
    /// that refreshes is cancelled, another one takes its place.
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
            // Refused may be one of long ago, which another request has replaced by now.
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
        // It says nothing about the others that this task was cancelled.
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

    /// What the refresh under way comes to; `nil` to look again: it is over or was given up, or this task is cancelled.
    private func outcome(_ refused: String?) async -> Outcome? {
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                // Cancellation is looked at under the lock: `onCancel` runs before, and is seen here, or after, and
                // finds the waiter.
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
