#if canImport(Security)
import Foundation
import HTTPStorage
import Security
import SyncCore

/// The session of this device in the keychain, one for each server.
struct KeychainSession: SessionStore {
    let server: String
    /// Excludes the other users in this process.
    private let turns = MemorySessionStore()

    init(server: String) { self.server = server }

    private var query: [CFString: Any] {
        [
            kSecClass: kSecClassGenericPassword, kSecAttrService: "EntitlementSync", kSecAttrAccount: server,
            kSecUseDataProtectionKeychain: true,
        ]
    }

    func load() async throws(BackendError) -> KeptSession? {
        var query = query
        query[kSecReturnData] = true
        var result: CFTypeRef?
        switch SecItemCopyMatching(query as CFDictionary, &result) {
        case errSecItemNotFound: return nil
        case errSecSuccess:
            guard let data = result as? Data, let session = KeptSession(json: Array(data)) else {
                throw BackendError(
                    .damaged, operation: .read, message: "the session in the keychain cannot be read; log in again")
            }
            return session
        case let status: throw Self.error(.read, status)
        }
    }

    func save(_ session: KeptSession) async throws(BackendError) {
        let data: [CFString: Any] = [
            kSecValueData: Data(session.json), kSecAttrAccessible: kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly,
        ]
        var status = SecItemUpdate(query as CFDictionary, data as CFDictionary)
        if status == errSecItemNotFound {
            status = SecItemAdd(query.merging(data) { $1 } as CFDictionary, nil)
        }
        guard status == errSecSuccess else { throw Self.error(.write, status) }
    }

    func delete() async throws(BackendError) {
        let status = SecItemDelete(query as CFDictionary)
        guard status == errSecSuccess || status == errSecItemNotFound else { throw Self.error(.delete, status) }
    }

    func exclusively<Outcome: Sendable>(
        _ body: @Sendable () async throws(BackendError) -> Outcome
    ) async throws(BackendError) -> Outcome {
        try await turns.exclusively(body)
    }

    private static func error(_ operation: BackendError.Operation, _ status: OSStatus) -> BackendError {
        let text = SecCopyErrorMessageString(status, nil).map { "\($0)" } ?? "error \(status)"
        return BackendError(.unavailable, operation: operation, message: "the keychain: \(text)")
    }
}
#endif
