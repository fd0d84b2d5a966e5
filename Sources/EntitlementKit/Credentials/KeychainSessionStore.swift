#if canImport(Security)
import Foundation
import HTTPStorage
import Security
import SyncCore

/// The session of this device in the keychain, one for each server and name of the shop's folder.
///
/// A program that is not signed with a keychain entitlement, such as one that `swift build` has built, keeps its
/// session in a file instead.
struct KeychainSessionStore: SessionStore {
    /// The kind of the session: `session`, or `guest` for the password of a guest.
    let name: String
    let server: String
    /// The name of the shop's folder.
    let folder: String
    /// The file for a program without a keychain. Its lock excludes other processes, such as an extension of the app.
    let file: SessionFile

    private var query: [CFString: Any] {
        [
            kSecClass: kSecClassGenericPassword,
            kSecAttrService: "EntitlementSync \(folder)" + (name == "session" ? "" : " \(name)"),
            kSecAttrAccount: server, kSecUseDataProtectionKeychain: true,
        ]
    }

    func load() async throws(BackendError) -> KeptSession? {
        var query = query
        query[kSecReturnData] = true
        var result: CFTypeRef?
        switch SecItemCopyMatching(query as CFDictionary, &result) {
        case errSecItemNotFound: return nil
        case errSecMissingEntitlement: return try await file.load()
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
        switch status {
        case errSecSuccess: return
        case errSecMissingEntitlement: try await file.save(session)
        default: throw Self.error(.write, status)
        }
    }

    func delete() async throws(BackendError) {
        switch SecItemDelete(query as CFDictionary) {
        case errSecSuccess, errSecItemNotFound: return
        case errSecMissingEntitlement: try await file.delete()
        case let status: throw Self.error(.delete, status)
        }
    }

    func exclusively<Outcome: Sendable>(
        _ body: @Sendable () async throws(BackendError) -> Outcome
    ) async throws(BackendError) -> Outcome {
        try await file.exclusively(body)
    }

    private static func error(_ operation: BackendError.Operation, _ status: OSStatus) -> BackendError {
        let text = SecCopyErrorMessageString(status, nil).map { "\($0)" } ?? "error \(status)"
        return BackendError(.unavailable, operation: operation, message: "the keychain: \(text)")
    }
}
#endif
