/// A token of another issuer that was refused, as far as the log may show it.
///
/// The client chose all members except ``reason``.
package struct RefusedToken: Hashable, Sendable {
    /// The issuer that the token names; `nil` if it cannot be read.
    package var issuer: String?
    /// The key that the token names.
    package var key: String?
    /// The algorithm that the token names.
    package var algorithm: String?
    /// The account that the token names, if all other checks succeeded.
    package var subject: String?
    /// The reason, one line.
    package var reason = ""
}
