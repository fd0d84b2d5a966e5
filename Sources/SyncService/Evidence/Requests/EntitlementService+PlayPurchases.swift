import Entitlements
import HTTPTypes
import StoreEvidence
import SyncCore

// Purchases of Google Play that a device sends. Without a notification, only a look-up tells their state.
extension EntitlementService {
    /// Returns `true` if the state of a purchase that a device has sent is to be looked up: at first, and until it is
    /// acknowledged.
    func needsLookUp(_ evidence: VerifiedEvidence) async throws(BackendError) -> Bool {
        guard let purchase = evidence.playPurchase, configuration.evidence.lookup != nil else { return false }
        guard purchase.isAcknowledged else { return true }
        return try await recorder.hasNewPurchase(evidence)
    }

    /// Records a purchase that a device has sent, and its state at Google Play, and acknowledges it.
    ///
    /// Only the state tells a purchase of a licence tester from others, so it is recorded first then. Otherwise the
    /// purchase comes first, so that its line has an owner.
    ///
    /// - Parameters:
    ///   - failure: Receives an error with status 503 if Google Play fails. The purchase is recorded all the same, and
    ///     the client sends it again.
    ///   - record: Records the purchase itself.
    func recordWithState(
        _ evidence: VerifiedEvidence, failure: inout RequestError?, _ record: () async throws -> EvidenceResult
    ) async throws -> EvidenceResult {
        var (state, problem): (VerifiedEvidence?, RequestError?) = (nil, nil)
        do { state = try await lookedUpState(of: evidence) } catch { problem = lookUpFailure(error) }
        let isTest = state?.facts.contains { $0.purchase?.transaction.environment == .test } ?? false
        if let state, isTest { try await keep(state) }
        let result = try await record()
        guard case .facts = result else { return result }
        failure = problem ?? failure
        guard let state else { return result }
        if !isTest { try await keep(state) }
        do { try await acknowledge(state) } catch let error as RequestError { failure = error }
        return result
    }

    private func lookedUpState(of evidence: VerifiedEvidence) async throws -> VerifiedEvidence? {
        guard let purchase = evidence.playPurchase, let lookup = configuration.evidence.lookup,
            let verifier = configuration.evidence.googlePlay
        else { return nil }
        // The state is at least as new as the question.
        return try await lookup.state(
            packageName: purchase.packageName, purchaseToken: purchase.purchaseToken, verifier,
            statedAt: Timestamp(milliseconds: host.now()))
    }

    /// Reports the error of a look-up. Returns `nil` if another attempt does not help.
    private func lookUpFailure(_ error: any Error) -> RequestError? {
        let isUnknown = isUnknownPurchase(error, .read, "a purchase at Google Play cannot be looked up")
        let isRejected = (error as? any PlayLookupError)?.isRejected ?? (error is EvidenceError)
        guard !isUnknown, !isRejected else { return nil }
        return RequestError(
            .serviceUnavailable, "the purchase is recorded, but cannot be looked up now; send it again", retryAfter: 60)
    }

    private func keep(_ state: VerifiedEvidence) async throws(BackendError) {
        let news = try await recorder.withoutKnownFacts(try await recorder.withEnds(state))
        _ = try await recorder.record(news, from: nil, isRestore: false)
    }
}
