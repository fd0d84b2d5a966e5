#if Evidence
public import Entitlements

/// Verifies what the App Store has signed: transactions, renewal infos, server notifications and app receipts.
///
/// The verifier is pure: the caller passes the time. It keeps chains of certificates that passed in a small cache, so
/// create one and share it.
///
/// ```swift
/// let verifier = AppStoreVerifier(bundleIDs: ["com.example.app"], appAppleID: 1_234_567_890)
/// let evidence = try verifier.transaction(jws, now: now)
/// ```
public struct AppStoreVerifier: Sendable {
    /// The bundle identifiers of the apps, one of which evidence must name.
    public let bundleIDs: Set<String>
    /// Apple's id of the apps that ``appAppleIDs`` does not name. Notifications of production are refused without it.
    public let appAppleID: Int64?
    /// Apple's ids of the apps, by bundle identifier.
    public let appAppleIDs: [String: Int64]
    /// The accepted environments.
    public let environments: Set<EnvironmentID>
    let chains: AppleChains

    /// Creates a verifier.
    ///
    /// - Parameters:
    ///   - bundleIDs: The bundle identifiers of the apps.
    ///   - appAppleID: Apple's id of the app, which App Store Connect shows under "Apple ID".
    ///   - appAppleIDs: Apple's ids of several apps, by bundle identifier. They take precedence over `appAppleID`.
    ///   - environments: The accepted environments. Add `xcode` only in tests that sign with `roots` of their own. The
    ///     signatures of Xcode's StoreKit testing are refused in any case: their single certificate proves nothing.
    ///   - roots: The root certificates.
    public init(
        bundleIDs: Set<String>, appAppleID: Int64? = nil, appAppleIDs: [String: Int64] = [:],
        environments: Set<EnvironmentID> = [.production, .sandbox], roots: EvidenceRoots = .pinned
    ) {
        self.bundleIDs = bundleIDs
        self.appAppleID = appAppleID
        self.appAppleIDs = appAppleIDs
        self.environments = environments
        chains = AppleChains(roots)
    }

    /// Verifies a transaction of StoreKit 2, which states a purchase and its status.
    ///
    /// A transaction with a `revocationDate` states a revocation. One without states that the purchase was not revoked
    /// when it was signed. It reinstates a purchase whose revocation is older.
    ///
    /// - Throws: ``EvidenceError`` with the failed check. It is transient if the clock at `now` is behind.
    public func transaction(_ jws: String, now: Timestamp) throws(EvidenceError) -> VerifiedEvidence {
        let transaction = try signedTransaction(jws, now: now)
        try check(bundleID: transaction.bundleID, "the transaction")
        try check(transaction.environment, "the transaction")
        return VerifiedEvidence(
            kind: .appStoreTransaction, facts: transaction.facts, signedDate: transaction.stamp.signedDate,
            accountToken: transaction.accountToken, line: transaction.purchase.line)
    }

    /// Verifies a renewal info of StoreKit 2.
    ///
    /// A renewal info names no app. Accept it only if a purchase of its line was verified for this app.
    ///
    /// - Throws: ``EvidenceError`` with the failed check.
    public func renewal(_ jws: String, now: Timestamp) throws(EvidenceError) -> VerifiedEvidence {
        let renewal = try signedRenewal(jws, now: now)
        try check(renewal.environment, "the renewal info")
        return VerifiedEvidence(
            kind: .appStoreRenewal, facts: [.renewalState(renewal.state)], signedDate: renewal.state.stamp.signedDate,
            line: renewal.state.line)
    }

    /// Verifies the body of a server notification, version 2: `{"signedPayload":"…"}`.
    ///
    /// - Throws: ``EvidenceError`` with the failed check.
    package func notification(_ body: [UInt8], now: Timestamp) throws(EvidenceError) -> VerifiedEvidence {
        try checkSize(body.count, limit: EvidenceLimits.notification, "the notification")
        guard let payload = try StoreObject(parsing: body).string("signedPayload") else {
            throw EvidenceError(.format, "the notification has no signedPayload; version 2 is required")
        }
        return try notification(signedPayload: payload, now: now)
    }

    /// Verifies the signed payload of a server notification, version 2.
    ///
    /// Each transaction and renewal info in it is verified by itself and has the date of its own signature, so
    /// notifications that are repeated or arrive out of order are harmless. Types without a transaction give no facts,
    /// and neither does an unknown type without the members that state its app.
    ///
    /// - Throws: ``EvidenceError`` with the failed check.
    package func notification(signedPayload: String, now: Timestamp) throws(EvidenceError) -> VerifiedEvidence {
        let message = try signedMessage(signedPayload, .notification, EvidenceLimits.notification, now: now)
        return try EvidenceError.authenticated { () throws(EvidenceError) in try evidence(in: message, now: now) }
    }

    private func evidence(in message: SignedMessage, now: Timestamp) throws(EvidenceError) -> VerifiedEvidence {
        let notification = try SignedNotification(message)
        var evidence = VerifiedEvidence(
            kind: .appStoreNotification, facts: [], signedDate: message.signedDate, event: notification.event,
            eventID: notification.id)
        if let content = notification.content { try read(content, into: &evidence, now: now) }
        return evidence
    }

    private func read(
        _ content: SignedNotification.Content, into evidence: inout VerifiedEvidence, now: Timestamp
    ) throws(EvidenceError) {
        try check(content)
        if let jws = content.signedTransaction {
            let transaction = try signedTransaction(jws, now: now)
            guard transaction.bundleID == content.bundleID else {
                throw EvidenceError(.app, "the transaction in the notification is of another app")
            }
            guard transaction.environment == content.environment else {
                throw EvidenceError(.environment, "the transaction in the notification is of another environment")
            }
            evidence.facts += transaction.facts
            (evidence.line, evidence.accountToken) = (transaction.purchase.line, transaction.accountToken)
        }
        if let jws = content.signedRenewal {
            let renewal = try signedRenewal(jws, now: now)
            guard renewal.environment == content.environment else {
                throw EvidenceError(.environment, "the renewal info in the notification is of another environment")
            }
            guard evidence.line == nil || evidence.line == renewal.state.line else {
                throw EvidenceError(.content, "the renewal info in the notification is of another subscription")
            }
            evidence.facts.append(.renewalState(renewal.state))
            evidence.line = renewal.state.line
        }
    }

    private func signedTransaction(_ jws: String, now: Timestamp) throws(EvidenceError) -> SignedTransaction {
        try SignedTransaction(try signedMessage(jws, .transaction, EvidenceLimits.transaction, now: now))
    }

    private func signedRenewal(_ jws: String, now: Timestamp) throws(EvidenceError) -> SignedRenewal {
        try SignedRenewal(try signedMessage(jws, .renewal, EvidenceLimits.transaction, now: now))
    }

    /// Verifies a signed message. A refusal says what the message is if it is not of the expected form.
    private func signedMessage(
        _ text: String, _ form: EvidenceForm, _ limit: Int, now: Timestamp
    ) throws(EvidenceError) -> SignedMessage {
        do {
            return try SignedMessage(text, limit: limit, name: form.expectation, chains: chains, now: now)
        } catch {
            throw error.naming(Array(text.utf8), insteadOf: form)
        }
    }

    private func check(_ notification: SignedNotification.Content) throws(EvidenceError) {
        try check(bundleID: notification.bundleID, "the notification")
        try check(notification.environment, "the notification")
        guard notification.environment == .production else { return }
        let bundleID = notification.bundleID
        guard let expected = appAppleIDs[bundleID] ?? appAppleID else {
            throw EvidenceError(
                .app, "Apple's id of the app \(bundleID.singleLine) must be configured for notifications of production")
        }
        guard notification.appAppleID == expected else {
            let id = notification.appAppleID.map { "\($0)" } ?? "none"
            throw EvidenceError(
                .app, "the notification of \(bundleID.singleLine) is for Apple's app id \(id), not \(expected)")
        }
    }

    func check(bundleID: String, _ name: String) throws(EvidenceError) {
        guard bundleIDs.contains(bundleID) else {
            throw EvidenceError(
                .app, "\(name) is for the app \"\(bundleID.singleLine)\", which is not one of the configured ones")
        }
    }

    private func check(_ environment: EnvironmentID, _ name: String) throws(EvidenceError) {
        guard environments.contains(environment) else {
            throw EvidenceError(
                .environment, "\(name) is of the environment \(environment), which is not accepted here")
        }
    }
}
#endif
