import HTTPStorage
import SyncCore

/// The session of this device in a store of its own. A store in a folder can be read by its owner only.
struct StoredSession: SessionStore {
    private let backend: any KeyValueBackend
    /// Excludes the other users in this process.
    private let turns = MemorySessionStore()

    init(_ backend: any KeyValueBackend) { self.backend = backend }

    private func key() throws(BackendError) -> EntryKey { try EntryKey("session") }

    func load() async throws(BackendError) -> KeptSession? {
        guard case .found(let entry) = try await backend.read(try key()).outcome else { return nil }
        guard let session = KeptSession(json: entry.value) else {
            throw BackendError(
                .damaged, operation: .read, message: "the stored session cannot be read; log in again")
        }
        return session
    }

    func save(_ session: KeptSession) async throws(BackendError) {
        _ = try await backend.write(session.json, to: try key(), if: .any)
    }

    func delete() async throws(BackendError) { _ = try await backend.delete(try key(), if: .any) }

    func exclusively<Outcome: Sendable>(
        _ body: @Sendable () async throws(BackendError) -> Outcome
    ) async throws(BackendError) -> Outcome {
        try await turns.exclusively(body)
    }
}
