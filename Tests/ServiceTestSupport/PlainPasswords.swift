package import SyncService

/// A fast and deterministic replacement for the hashing of passwords, for tests of the code above it. It protects
/// nothing.
package struct PlainPasswords: PasswordHasher {
    /// Runs before the result of a password check is returned.
    package var afterVerifying: @Sendable () async -> Void = {}
    /// Runs before a password is hashed.
    package var beforeHashing: @Sendable () async -> Void = {}

    package init() {}

    package func hash(_ password: [UInt8], peer: String) async throws(CryptographyError) -> String {
        await beforeHashing()
        return text(of: password)
    }

    package func verify(_ password: [UInt8], _ hash: String, peer: String) async throws(CryptographyError) -> Bool {
        await afterVerifying()
        return text(of: password) == hash
    }

    private func text(of password: [UInt8]) -> String { "plain:\(password)" }
}
