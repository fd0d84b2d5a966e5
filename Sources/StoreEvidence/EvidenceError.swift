#if Evidence
/// The refusal of a piece of evidence. It names the check that failed.
public struct EvidenceError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The checks that evidence must pass.
    ///
    /// An error names the first check that failed. The size is checked first. The order of the others depends on the
    /// kind of evidence, but only the date of a signature is read from the content before the signature is verified.
    public enum Check: String, Hashable, Sendable, CaseIterable {
        /// The evidence is longer than its limit.
        case size
        /// The encoding: base64, the number of segments, DER, JSON, repeated members.
        case format
        /// The header of a signature: algorithm, critical parameters, the number of certificates.
        case header
        /// The date of the signature: missing, out of range, or later than the clock.
        case signedDate = "signed-date"
        /// The chain of certificates to a pinned root.
        case certificates
        /// The signature itself.
        case signature
        /// The kind: for example, a renewal info that was sent as a transaction.
        case kind
        /// The app: bundle identifier, package name, or Apple's id of the app.
        case app
        /// The store's environment.
        case environment
        /// The device identifier of a receipt.
        case device
        /// The state of the purchase, for example pending.
        case state
        /// The content: a required field is missing or out of range.
        case content
    }

    /// The check that failed.
    public var check: Check
    /// The reason, as a clause without a final period.
    public var reason: String
    /// True if the same evidence may pass later, for example because this machine's clock is behind.
    public var isTransient: Bool
    /// True if the store's signature was valid: the store itself sent the refused message.
    public var isAuthenticated = false

    /// Creates a refusal.
    package init(_ check: Check, _ reason: String, isTransient: Bool = false) {
        self.check = check
        self.reason = reason
        self.isTransient = isTransient
    }

    /// Marks the errors of `body`, which reads a message whose signature is valid.
    static func authenticated<Value>(_ body: () throws(EvidenceError) -> Value) throws(EvidenceError) -> Value {
        do throws(EvidenceError) { return try body() } catch {
            var error = error
            error.isAuthenticated = true
            throw error
        }
    }

    /// The check and the reason, on one line.
    public var description: String { "\(check.rawValue): \(reason)" }
}

/// The largest sizes of evidence, in bytes.
package enum EvidenceLimits {
    /// A transaction or renewal info.
    package static let transaction = 16 << 10
    /// A notification or event.
    package static let notification = 64 << 10
    /// A receipt, without base64.
    package static let receipt = 1 << 20
    /// The amount by which a signature's date may be ahead of the clock, in milliseconds.
    package static let clockTolerance: Int64 = 300_000
}
#endif
