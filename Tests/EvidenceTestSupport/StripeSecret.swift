import Crypto
import Foundation

/// A secret of a webhook, with which Stripe signs events.
public struct StripeSecret: Sendable {
    /// The secret as Stripe shows it.
    public let text: String

    /// Creates a secret.
    public init(_ text: String = "whsec_test") { self.text = text }

    /// The header `Stripe-Signature` of a body that is sent at a time in seconds since 1970.
    public func signature(of body: String, at seconds: Int64) -> String {
        let code = HMAC<SHA256>.authenticationCode(
            for: Data("\(seconds).\(body)".utf8), using: SymmetricKey(data: Data(text.utf8)))
        return "t=\(seconds),v1=" + code.map { String(format: "%02x", $0) }.joined()
    }
}
