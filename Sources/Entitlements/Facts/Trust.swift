/// The policy of an account's server on statements that clients wrote.
public enum TrustPolicy: String, Hashable, Sendable, CaseIterable {
    /// Statements of clients count, except where the server ledger says otherwise.
    case trusted
    /// Nothing that a client wrote grants access. Purchases, set flags, assertions, renewal states and reinstatements
    /// count from the server ledger only. Revocations, cleared flags and spends of clients count.
    case verified
}

/// The policy of the account's server, as the server ledger states it.
///
/// In any other ledger it has no effect.
public struct PolicyStatement: Hashable, Sendable {
    /// The policy.
    public var policy: TrustPolicy
    /// The logical time that orders statements of the policy.
    public var logicalTime: LogicalTime

    /// Creates a statement.
    public init(_ policy: TrustPolicy, logicalTime: LogicalTime) {
        self.policy = policy
        self.logicalTime = logicalTime
    }
}

/// Evidence that this device has verified, kept until the account's server has answered it.
///
/// It stays in the device ledger. Until the server's answer the facts that it proves count on this device, whatever
/// the policy of the server.
public struct StoredEvidence: Hashable, Sendable {
    /// The kind of the evidence, as in requests to the server: `app-store-transaction`, …
    public var kind: String
    /// The subject of the evidence. Of two pieces of evidence with the same kind and subject the later one is kept.
    public var subject: String
    /// The evidence as it is sent.
    public var data: [UInt8]
    /// The facts that it proves.
    public var facts: Ledger
    /// The signature and time of the evidence.
    public var stamp: Stamp

    /// Creates a value.
    public init(kind: String, subject: String, data: [UInt8], facts: Ledger, stamp: Stamp) {
        self.kind = kind
        self.subject = subject
        self.data = data
        self.facts = facts
        self.stamp = stamp
    }
}
