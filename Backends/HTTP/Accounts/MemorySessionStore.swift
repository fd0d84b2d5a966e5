public import SyncCore
import Synchronization

/// A session store in memory, for programs that log in at each start and for tests.
public final class MemorySessionStore: SessionStore {
    private let session: Mutex<KeptSession?>
    private let turns = Turns()

    /// Creates a store that contains `session`.
    public init(_ session: KeptSession? = nil) { self.session = Mutex(session) }

    /// The stored session; `nil` for none.
    public func load() async throws(BackendError) -> KeptSession? { session.withLock { $0 } }

    /// Replaces the stored session.
    public func save(_ session: KeptSession) async throws(BackendError) {
        self.session.withLock { $0 = session }
    }

    /// Deletes the stored session.
    public func delete() async throws(BackendError) { session.withLock { $0 = nil } }

    /// Runs `body` while no other caller runs its own.
    public func exclusively<Outcome: Sendable>(
        _ body: @Sendable () async throws(BackendError) -> Outcome
    ) async throws(BackendError) -> Outcome {
        try await turns.exclusively(body)
    }
}
