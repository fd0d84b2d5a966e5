import Entitlements
import EvidenceTestSupport
import Foundation
import Testing

@testable import StoreEvidence

/// Verifies what the test foundry signs, five minutes after the default purchase.
enum AppStoreStage {
    /// The time of all verifications, in milliseconds.
    static let now = AppStoreFoundry.purchaseDate + 300_000

    /// A verifier with the root of a foundry, by default the valid one.
    static func verifier(
        _ foundry: AppStoreFoundry? = nil, environments: Set<EnvironmentID> = [.production, .sandbox],
        appAppleID: Int64? = 1234
    ) throws -> AppStoreVerifier {
        let foundry = try foundry ?? AppStoreFoundry.valid.get()
        return AppStoreVerifier(
            bundleIDs: ["com.example"], appAppleID: appAppleID, environments: environments,
            roots: try EvidenceRoots(pem: try foundry.roots))
    }

    static func transaction(_ jws: String, now: Int64 = now) throws -> VerifiedEvidence {
        try verifier().transaction(jws, now: Timestamp(milliseconds: now))
    }

    static func renewal(_ jws: String) throws -> VerifiedEvidence {
        try verifier().renewal(jws, now: Timestamp(milliseconds: now))
    }

    static func notification(_ signedPayload: String, now: Int64 = now) throws -> VerifiedEvidence {
        try verifier().notification(AppStoreFoundry.body(of: signedPayload), now: Timestamp(milliseconds: now))
    }

    /// Expects that `body` is refused by `check`, with a reason that contains `text`.
    static func expectRefusal(
        _ check: EvidenceError.Check, _ text: String, isTransient: Bool = false,
        sourceLocation: SourceLocation = #_sourceLocation, _ body: () throws -> VerifiedEvidence
    ) {
        ReceiptStage.expectRefusal(check, text, isTransient: isTransient, sourceLocation: sourceLocation, body)
    }

    /// Expects that a transaction is refused that is signed after a change.
    static func expectRefusal(
        _ check: EvidenceError.Check, _ text: String, fields: SignedFields = [:], isTransient: Bool = false,
        sourceLocation: SourceLocation = #_sourceLocation, changing change: (inout SignedText) -> Void
    ) throws {
        let jws = try AppStoreFoundry.valid.get().transaction(fields, change)
        expectRefusal(check, text, isTransient: isTransient, sourceLocation: sourceLocation) { try transaction(jws) }
    }
}

extension Timestamp {
    /// The instant some minutes after the default purchase.
    static func minute(_ minute: Int64) -> Timestamp {
        Timestamp(milliseconds: AppStoreFoundry.purchaseDate + minute * 60_000)
    }
}

extension SignedField {
    /// The date some minutes after the default purchase.
    static func minute(_ minute: Int64) -> SignedField { .date(.minute(minute)) }
}
