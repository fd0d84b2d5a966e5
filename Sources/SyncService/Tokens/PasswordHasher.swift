/// The hashing of passwords. A test replaces it, because it is slow by design.
package protocol PasswordHasher: Sendable {
    /// A salted hash of `password` that is slow to guess (scrypt, RFC 7914), as one line of text with its parameters.
    /// Does not block the threads of other tasks.
    ///
    /// - Parameter peer: The address of the client, so that addresses share the work fairly.
    /// - Throws: ``CryptographyError``, also if too many hashes of the address, or of all addresses, are waiting.
    func hash(_ password: [UInt8], peer: String) async throws(CryptographyError) -> String

    /// Returns `true` if `hash` is a hash of `password`, by scrypt or an imported one by bcrypt. Takes the same time
    /// for a wrong password.
    ///
    /// - Parameter peer: As for ``hash(_:peer:)``.
    func verify(_ password: [UInt8], _ hash: String, peer: String) async throws(CryptographyError) -> Bool
}

/// The error of a failed computation: a stored hash is malformed, memory is short, or too many hashes are waiting.
package struct CryptographyError: Error, Hashable, Sendable {
    /// One line for the log, without secrets.
    package var reason: String
    /// True if the same computation fails again, so that a client has no reason to try again.
    package var isPermanent: Bool

    /// An error for `reason`.
    package init(_ reason: String, isPermanent: Bool = false) {
        (self.reason, self.isPermanent) = (reason, isPermanent)
    }
}
