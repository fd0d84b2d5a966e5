/// A server that verifies what stores have signed, and answers each piece of evidence.
///
/// The bytes of evidence are opaque here; the receiver and its callers agree on them.
public protocol EvidenceReceiver: Sendable {
    /// Sends evidence of one account.
    ///
    /// Sending the same evidence again is harmless.
    ///
    /// - Parameters:
    ///   - evidence: The pieces of evidence, each a JSON object as in `POST /v1/transactions`.
    ///   - account: The name and the incarnation of the account. The receiver refuses the request if the session
    ///     belongs to another account.
    ///   - isRestore: True if the user asked explicitly to restore purchases.
    /// - Returns: One answer for each piece, in the same order.
    /// - Throws: `BackendError.Kind.unsupported` if the server does not verify evidence.
    func submit(
        _ evidence: [[UInt8]], account: (name: String, incarnation: String), isRestore: Bool
    ) async throws(BackendError) -> [EvidenceAnswer]
}

/// The answer of a server to one piece of evidence.
public enum EvidenceAnswer: Hashable, Sendable {
    /// A purchase, named by its store.
    public struct Transaction: Hashable, Sendable, Codable {
        /// The store.
        public var store: String
        /// The environment.
        public var environment: String
        /// The store's ID of the transaction.
        public var transactionID: String

        /// Creates a value.
        public init(store: String, environment: String, transactionID: String) {
            (self.store, self.environment, self.transactionID) = (store, environment, transactionID)
        }
    }

    /// The evidence was verified, and its facts are in the server ledger of the account.
    case recorded
    /// The evidence was verified. Its facts are in the server ledger of the account, except for purchases that belong
    /// to other accounts.
    ///
    /// - Parameter ownedByAnother: These purchases, or the first transactions of their subscriptions.
    case recordedInPart(ownedByAnother: [Transaction])
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
