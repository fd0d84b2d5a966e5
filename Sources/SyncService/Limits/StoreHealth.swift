import SyncCore
import Synchronization

/// Whether the store can be written, as far as is known: what went wrong lately says so, and only then something is
/// written to try it.
final class StoreHealth: Sendable {
    /// How often it is tried, in milliseconds.
    static let pause: Int64 = 5_000

    private struct State {
        var failure: BackendError?
        var tried: Int64?
    }

    private let state = Mutex(State())

    /// Hears of each error of the store.
    func note(_ error: BackendError) {
        guard error.operation == .write || error.operation == .delete else { return }
        switch error.kind {
        case .busy, .cancelled, .tooLarge, .invalidKey, .refused: return
        default: state.withLock { $0.failure = error }
        }
    }

    /// Throws where writing failed, until it is seen to work again.
    func check(_ store: any KeyValueBackend, now: Int64) async throws(BackendError) {
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
