/// A server that signs the access of an account.
///
/// The bytes of a grant are opaque here; a verifier reads them.
public protocol GrantIssuer: Sendable {
    /// Asks for a grant of the account that is logged in.
    ///
    /// - Parameters:
    ///   - device: The id of the device that the grant is for: 1 to 64 ASCII letters, digits, `-` and `_`.
    ///   - environment: The environment of the purchases that count, for example `production`.
    /// - Returns: The grant, a JSON Web Signature in compact form.
    /// - Throws: `BackendError.Kind.unsupported` if the server signs no grants.
    func grant(device: String, environment: String) async throws(BackendError) -> [UInt8]
}
