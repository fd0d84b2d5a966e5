import SyncCore
import Synchronization

/// The store's health, judged by recent write errors. A test entry is written only after such an error.
final class StoreHealth: Sendable {
    /// The shortest time between two test writes, in milliseconds.
    static let pause: Int64 = 5_000

    private struct State {
        var failure: BackendError?
        var tried: Int64?
    }

    private let state = Mutex(State())

    /// Records an error of the store.
    func remember(_ error: BackendError) {
        guard error.operation == .write || error.operation == .delete else { return }
        switch error.kind {
        case .busy, .cancelled, .tooLarge, .invalidKey, .refused: return
        default: state.withLock { $0.failure = error }
        }
    }

    /// Throws the last write error until a test write succeeds.
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
