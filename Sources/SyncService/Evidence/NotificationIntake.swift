package import Entitlements
import StoreEvidence
package import SyncCore

extension EvidenceRecorder {
    /// Records verified evidence from a store.
    ///
    /// - Returns: ``EvidenceNote/Outcome/recorded``, ``EvidenceNote/Outcome/parked`` or
    ///   ``EvidenceNote/Outcome/ignored``.
    func receive(_ evidence: VerifiedEvidence) async throws(BackendError) -> EvidenceNote.Outcome {
        if !evidence.unknownProduct.isEmpty, try await !isKnown(evidence) { return .unknownProduct }
        // A line without a fact only tells the account of the token.
        let hasOwner = evidence.line != nil && evidence.accountToken != nil
        guard !evidence.facts.isEmpty || hasOwner || !evidence.aliases.isEmpty else { return .ignored }
        let outcome = try await record(evidence, from: nil, isRestore: false)
        return outcome.unowned.isEmpty ? .recorded : .parked
    }

    /// The warnings of the evidence, unless it sells only products of which one unit counts.
    func warning(about evidence: VerifiedEvidence) -> String {
        let hasUnits = evidence.facts.compactMap(\.purchase).contains { purchase in
            writer.catalog?[product: purchase.product]?.kind != .nonConsumable
        }
        return hasUnits ? evidence.warnings.joined(separator: "; ") : ""
    }

    /// Returns `true` if the evidence states facts about a line with purchases, whose product was known once.
    private func isKnown(_ evidence: VerifiedEvidence) async throws(BackendError) -> Bool {
        guard let line = evidence.line, !evidence.facts.isEmpty else { return false }
        return try await knownFacts(ofLine: line).contains { $0.contains { $0.purchase != nil } }
    }

    /// Returns `evidence` without the facts that are known already and differ in their dates only.
    ///
    /// An answer of Google is dated with the time of the question, so each answer would change the ledger.
    func withoutKnownFacts(_ evidence: VerifiedEvidence) async throws(BackendError) -> VerifiedEvidence {
        var evidence = evidence
        var known: Set<Fact> = []
        for line in Set(evidence.facts.compactMap(\.statedLine)) {
            let facts = try await knownFacts(ofLine: line).map { Set($0.map(\.withoutStamp)) }
            known.formUnion(facts[0])
            // Facts that one of several owners lacks are written again.
            if let first = facts.dropFirst().first {
                known.formUnion(facts.dropFirst().reduce(first) { $0.intersection($1) })
            }
        }
        evidence.facts.removeAll { known.contains($0.withoutStamp) }
        return evidence
    }
}

extension Fact {
    fileprivate var statedLine: TransactionReference? {
        switch self {
        case .purchase(let purchase): purchase.line
        case .renewalState(let state): state.line
        default: nil
        }
    }

    /// The statement without its date, and without terms, which the server adds.
    fileprivate var withoutStamp: Fact {
        switch self {
        case .purchase(var purchase):
            (purchase.stamp, purchase.terms) = (Stamp(logicalTime: .zero), nil)
            return .purchase(purchase)
        case .renewalState(var state):
            state.stamp = Stamp(logicalTime: .zero)
            return .renewalState(state)
        case .revocation(var revocation) where revocation.revokedAt != nil:
            // The answer does not state the date of a refund.
            (revocation.stamp, revocation.revokedAt, revocation.reason) = (Stamp(logicalTime: .zero), .latest, "")
            return .revocation(revocation)
        default: return self
        }
    }
}

/// Records what stores have stated outside of requests to the server, over the same store and by the same rules.
///
/// It works beside running servers. It leaves the trust policy of each account as the server has stated it.
package struct NotificationIntake: Sendable {
    private let recorder: EvidenceRecorder
    private let evidence: EvidenceConfiguration
    private let host: HostServices

    /// Opens the store of a server.
    ///
    /// - Parameters:
    ///   - store: The store. It must support compare-and-swap.
    ///   - configuration: The verifiers, the catalogue and the ownership rule. Its policy is not used.
    ///   - host: The clock.
    ///   - onError: Receives errors about single accounts.
    /// - Throws: ``SupportError`` if the store is not that of a server or the clock was set back, or `BackendError`.
    package init(
        _ store: any KeyValueBackend, _ configuration: ServiceConfiguration, host: HostServices,
        onError: (BackendError) -> Void
    ) async throws {
        let records = RecordStore(backend: store)
        try await records.checkServer()
        try await OwnersMigration(records: records) { _ in }.check()
        try await ClockRollbackGuard.check(host.now(), against: records)
        recorder = EvidenceRecorder(besideServer: records, configuration, host)
        (evidence, self.host) = (configuration.evidence, host)
        try await recorder.start(onError: onError)
    }

    /// Verifies and records the `signedPayload` of a notification of the App Store.
    ///
    /// - Returns: The outcome; ``EvidenceNote/Outcome/full`` if the ledger of the account, or the room for facts
    ///   without an owner, is full.
    /// - Throws: `EvidenceError` if a check fails, `BackendError` if nothing could be kept.
    package func receive(signedPayload: String) async throws -> EvidenceNote.Outcome {
        guard let verifier = evidence.appStore else { return .notConfigured }
        let body = JSON.object([("signedPayload", .string(signedPayload))]).text()
        return try await record(try verifier.notification(Array(body.utf8), now: now))
    }

    /// Verifies and records a signed transaction of the App Store.
    ///
    /// - Returns: As ``receive(signedPayload:)``.
    /// - Throws: As ``receive(signedPayload:)``.
    package func receive(signedTransaction: String) async throws -> EvidenceNote.Outcome {
        guard let verifier = evidence.appStore else { return .notConfigured }
        return try await record(try verifier.transaction(signedTransaction, now: now))
    }

    /// Records an entry of Google Play's list of voided purchases.
    ///
    /// - Returns: As ``receive(signedPayload:)``.
    /// - Throws: As ``receive(signedPayload:)``.
    package func receive(
        voidedOrder order: String?, purchaseToken: String, at voidedAt: Timestamp
    ) async throws -> EvidenceNote.Outcome {
        try await record(.playRefund(order: order, purchaseToken: purchaseToken, voidedAt: voidedAt, now: now))
    }

    /// Looks up a purchase at Google Play, records its state and acknowledges it. A state that is known changes
    /// nothing.
    ///
    /// - Returns: As ``receive(signedPayload:)``.
    /// - Throws: As ``receive(signedPayload:)``, the error of the look-up, or ``AcknowledgementFailure``.
    package func lookUp(packageName: String, purchaseToken: String) async throws -> EvidenceNote.Outcome {
        guard let verifier = evidence.googlePlay, let lookup = evidence.lookup else { return .notConfigured }
        // The state is at least as new as the question.
        let stated = try await lookup.state(
            packageName: packageName, purchaseToken: purchaseToken, verifier, statedAt: now)
        let outcome = try await record(try await recorder.withoutKnownFacts(try await recorder.withEnds(stated)))
        if outcome == .recorded || outcome == .parked, let purchase = stated.unacknowledged {
            do { try await lookup.acknowledge(purchase) } catch {
                throw AcknowledgementFailure(outcome: outcome, cause: error)
            }
        }
        return outcome
    }

    private var now: Timestamp { Timestamp(milliseconds: host.now()) }

    private func record(_ evidence: VerifiedEvidence) async throws(BackendError) -> EvidenceNote.Outcome {
        do throws(BackendError) {
            return try await recorder.receive(evidence)
        } catch {
            guard error.cause is LedgerFull || error.cause is ParkingFull else { throw error }
            return .full
        }
    }
}
