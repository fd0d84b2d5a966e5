public import Entitlements
public import SyncCore

/// A server that verifies what stores have signed, and signs the access of an account. `HTTPBackend` is one.
///
/// Pass it to an ``EntitlementStore`` as its `server`, beside the remote with the same store.
public protocol EntitlementServer: Sendable {
    /// Sends evidence of one account.
    ///
    /// Sending the same evidence again is harmless.
    ///
    /// - Parameters:
    ///   - evidence: The pieces of evidence, each a JSON object as in `POST /v1/transactions`.
    ///   - account: The account. The server refuses the request if the session belongs to another one.
    ///   - isRestore: True if the user asked explicitly to restore purchases.
    /// - Returns: One answer for each piece, in the same order.
    /// - Throws: `BackendError.Kind.unsupported` if the server does not verify evidence.
    func submit(
        _ evidence: [[UInt8]], account: Account, isRestore: Bool
    ) async throws(BackendError) -> [EvidenceAnswer]

    /// Asks for a grant of the account that is logged in.
    ///
    /// - Parameters:
    ///   - device: The id of the device that the grant is for: 1 to 64 ASCII letters, digits, `-` and `_`.
    ///   - environment: The environment of the purchases that count.
    /// - Returns: The grant, a JSON Web Signature in compact form, for a `GrantVerifier`.
    /// - Throws: `BackendError.Kind.unsupported` if the server signs no grants.
    func grant(device: String, environment: EnvironmentID) async throws(BackendError) -> [UInt8]
}

/// The answer of a server to one piece of evidence.
public enum EvidenceAnswer: Hashable, Sendable {
    /// The evidence was verified, and its facts are in the server ledger of the account.
    case recorded
    /// The evidence was verified. Its facts are in the server ledger of the account, except for purchases that belong
    /// to other accounts.
    ///
    /// - Parameter ownedByAnother: These purchases, or the first transactions of their subscriptions.
    case recordedInPart(ownedByAnother: [TransactionReference])
    /// The server cannot record the evidence now, for example because its operator has not set it up for this store.
    /// Send the evidence again later.
    ///
    /// - Parameters:
    ///   - code: The problem, for example `not-configured` or `ledger-full`.
    ///   - detail: The reason, on one line.
    case postponed(code: String, detail: String)
    /// The evidence is refused and need not be sent again.
    ///
    /// - Parameters:
    ///   - code: The problem, for example `evidence-refused` or `owned-by-another`.
    ///   - detail: The reason, on one line.
    case refused(code: String, detail: String)
}
