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
    ///   - failure: Receives an error with status 503 if another attempt may succeed. The purchase is recorded all the
    ///     same, and the client sends it again.
    ///   - record: Records the purchase itself.
    func recordWithState(
        _ evidence: VerifiedEvidence, _ caller: AccountCaller, _ peer: String, failure: inout RequestError?,
        _ record: () async throws -> EvidenceResult
    ) async throws -> EvidenceResult {
        var state: VerifiedEvidence?
        do { state = try await lookedUpState(of: evidence) } catch { failure = answer(to: error, "looked up") }
        let isTest = state?.facts.contains { $0.purchase?.transaction.environment == .test } ?? false
        if let state, isTest { try await keep(state, caller, peer) }
        let result = try await record()
        guard case .facts = result, let state else { return result }
        if !isTest { try await keep(state, caller, peer) }
        guard let purchase = state.unacknowledged, let lookup = configuration.evidence.lookup else { return result }
        do { try await lookup.acknowledge(purchase) } catch { failure = answer(to: error, "acknowledged") }
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

    /// Reports an error of Google Play's API. Returns the answer to the client if another attempt may succeed. Any
    /// other error needs the operator, so it must not stop the client's sync.
    private func answer(to error: any Error, _ action: String) -> RequestError? {
        let problem = error as? any PlayLookupError
        let message = "a purchase at Google Play that a device has sent cannot be \(action)"
        guard problem?.isTransient ?? false else {
            let remedy =
                problem?.isNotFound ?? false
                ? "" : "; correct the cause, then run syncd notifications catch-up with --play-tokens"
            onError(BackendError(.other, message: message + remedy, cause: error))
            return nil
        }
        onError(BackendError(.unavailable, message: message + " now; the device sends it again", cause: error))
        return RequestError(
            .serviceUnavailable, "the purchase is recorded, but cannot be \(action) now; send it again", retryAfter: 60)
    }

    /// Records the state of a purchase, if there is room for it. The purchase itself counts without it.
    private func keep(
        _ state: VerifiedEvidence, _ caller: AccountCaller, _ peer: String
    ) async throws(BackendError) {
        do throws(BackendError) {
            let news = try await recorder.withoutKnownFacts(try await recorder.withEnds(state))
            _ = try await recorder.record(news, from: nil, isRestore: false)
        } catch {
            guard error.cause is LedgerFull || error.cause is ParkingFull else { throw error }
            report(state.kind, .full, peer, caller.name, error.message)
        }
    }
}
