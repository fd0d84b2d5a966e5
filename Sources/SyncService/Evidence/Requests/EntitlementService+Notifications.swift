import Entitlements
import HTTPTypes
import StoreEvidence
import SyncCore
import SyncProtocol

/// The stores that send notifications.
enum NotifyingStore: String, Hashable, Sendable, CaseIterable {
    case appStore = "app-store"
    case googlePlay = "google-play"
    case stripe

    var kind: EvidenceKind {
        switch self {
        case .appStore: .appStoreNotification
        case .googlePlay: .googlePlayNotification
        case .stripe: .stripe
        }
    }
}

extension EntitlementService {
    /// The response to a store's notification. It is authenticated by its signature or by the token of its sender.
    ///
    /// The store repeats a notification until the answer is 200. Unknown types are therefore accepted, and what cannot
    /// be kept is not.
    func notification(of store: NotifyingStore, _ call: Call) async throws -> ServiceResponse {
        let request = call.request
        let now = host.now()
        try limiter.checkEvidence(of: request.peer, now: now)
        do {
            return try await withTaskExecutorPreference(LongWork.executor) {
                let kind = store.kind
                guard let evidence = try await verified(store, request, now: Timestamp(milliseconds: now)) else {
                    return Self.accepted
                }
                let outcome: EvidenceNote.Outcome
                do throws(BackendError) { outcome = try await recorder.receive(evidence) } catch {
                    // Stripe disables an endpoint that keeps failing, for the events of all purchases. An event of
                    // another app has no purchase, and one with a purchase is worth a repetition.
                    guard store == .stripe, error.cause is ParkingFull,
                        !evidence.facts.contains(where: { $0.purchase != nil })
                    else { throw error }
                    report(kind, .full, request.peer, nil, error.message + Self.resending(evidence))
                    return Self.accepted
                }
                let isUnknown = outcome == .unknownProduct
                let reason = isUnknown ? evidence.unknownProduct : recorder.warning(about: evidence)
                report(kind, outcome, request.peer, nil, reason)
                guard outcome == .recorded || outcome == .parked else { return Self.accepted }
                hub.wakeUp()
                try await acknowledge(evidence)
                return Self.accepted
            }
        } catch let error as EvidenceError {
            onEvidence(EvidenceNote(store.kind, error, from: request.peer))
            guard !error.isTransient else { throw RequestError(clockSkew: error) }
            // Refused messages of the store itself must not block its address. Google's sender is authenticated above.
            if !error.isAuthenticated, store != .googlePlay { limiter.countRefusedEvidence(of: request.peer, now: now) }
            throw RequestError(
                .badRequest, "the notification was refused: \(error.check.rawValue)", code: error.check.rawValue)
        } catch let error as BackendError where error.cause is ParkingFull || error.cause is LedgerFull {
            report(store.kind, .full, request.peer, nil, error.message)
            throw RequestError(.serviceUnavailable, "the server has no room for this now", retryAfter: 3_600)
        }
    }

    private static let accepted = ServiceResponse(HTTPResponse(status: .ok))

    /// The remedy for an event of Stripe that was answered and not kept.
    private static func resending(_ event: VerifiedEvidence) -> String {
        "; what waits for a purchase at Stripe is dropped after \(EvidenceSweeper.retention / 86_400_000) days; if "
            + "this event is about a purchase of yours, send it again when there is room: stripe events resend "
            + event.eventID.singleLine
    }

    /// The verified content of a notification; `nil` if there is nothing to do.
    private func verified(
        _ store: NotifyingStore, _ request: ServiceRequest, now: Timestamp
    ) async throws -> VerifiedEvidence? {
        switch store {
        case .appStore:
            guard let verifier = configuration.evidence.appStore else { throw notConfigured(store, request) }
            try request.head.headerFields.checkJSON()
            return try verifier.notification(request.body, now: now)
        case .stripe:
            guard let verifier = configuration.evidence.stripe else { throw notConfigured(store, request) }
            guard let name = HTTPField.Name("Stripe-Signature"),
                let signature = request.head.headerFields.value(of: name)
            else { throw EvidenceError(.header, "the header field Stripe-Signature is missing") }
            return try verifier.event(request.body, signature: signature, now: now)
        case .googlePlay:
            guard let verifier = configuration.evidence.googlePlay, let push = configuration.evidence.push else {
                throw notConfigured(store, request)
            }
            try await authenticate(request, push)
            try request.head.headerFields.checkJSON()
            return try await lookedUp(try verifier.notification(request.body, now: now), verifier, request.peer)
        }
    }

    private func notConfigured(_ store: NotifyingStore, _ request: ServiceRequest) -> RequestError {
        report(store.kind, .notConfigured, request.peer)
        return RequestError(.notFound, "this server does not accept notifications of this store")
    }

    private func authenticate(_ request: ServiceRequest, _ push: any PushAuthentication) async throws(RequestError) {
        let field = request.head.headerFields.value(of: .authorization) ?? ""
        do throws(TokenRefusal) {
            guard field.lowercased().hasPrefix("bearer ") else { throw TokenRefusal("it is missing") }
            try await push.verify(String(field.dropFirst("bearer ".count)), now: host.now())
        } catch {
            limiter.countRefusedEvidence(of: request.peer, now: host.now())
            report(
                .googlePlayNotification, .unauthenticated, request.peer, nil, "the token of the sender: \(error.reason)"
            )
            throw RequestError(.unauthorized, "the token of the sender is not accepted")
        }
    }

    /// Acknowledges a purchase that is recorded. If that fails, Google sends the notification again.
    func acknowledge(_ evidence: VerifiedEvidence) async throws {
        guard let purchase = evidence.unacknowledged, let lookup = configuration.evidence.lookup else { return }
        do { try await lookup.acknowledge(purchase) } catch {
            guard isUnknownPurchase(error, .write, "a purchase at Google Play is recorded, but cannot be acknowledged")
            else {
                throw RequestError(
                    .serviceUnavailable, "the purchase is recorded, but cannot be acknowledged now", retryAfter: 60)
            }
        }
    }

    /// Reports an error of Google Play's API, and returns `true` if it says that the purchase is unknown.
    func isUnknownPurchase(_ error: any Error, _ operation: BackendError.Operation, _ message: String) -> Bool {
        let isUnknown = (error as? any PlayLookupError)?.isNotFound ?? false
        onError(
            BackendError(isUnknown ? .other : .unavailable, operation: operation, message: message, cause: error))
        return isUnknown
    }

    /// The evidence of a notification of Google Play. Most notifications state only that something has changed.
    private func lookedUp(
        _ notification: PlayNotification, _ verifier: any GooglePlayVerification, _ peer: String
    ) async throws -> VerifiedEvidence? {
        guard let subject = notification.lookup, let token = notification.purchaseToken else {
            return notification.evidence
        }
        let purchase = subject == .subscription ? "subscription" : "one-time product"
        guard let lookup = configuration.evidence.lookup else {
            report(
                .googlePlayNotification, .notConfigured, peer, nil,
                "the server has no access to Google Play's API, so it cannot look up the \(purchase)")
            return nil
        }
        do {
            return try await lookup.state(
                of: subject, packageName: notification.packageName, purchaseToken: token, verifier,
                statedAt: notification.date)
        } catch let error as EvidenceError {
            throw error
        } catch {
            guard isUnknownPurchase(error, .read, "a \(purchase) at Google Play cannot be looked up") else {
                throw RequestError(.serviceUnavailable, "the \(purchase) cannot be looked up now", retryAfter: 60)
            }
            report(.googlePlayNotification, .ignored, peer, nil, "Google Play does not know the \(purchase)")
            return nil
        }
    }
}

extension RequestError {
    /// The refusal of evidence only because the clocks of the store and the server differ too much.
    init(clockSkew error: EvidenceError) {
        self.init(.serviceUnavailable, "\(error.reason); try again later", code: "clock-skew", retryAfter: 60)
    }
}
