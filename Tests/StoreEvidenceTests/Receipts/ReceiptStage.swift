import Entitlements
import EvidenceTestSupport
import Testing
import X509

@testable import StoreEvidence

/// Verifies receipts against the root of the test authority.
enum ReceiptStage {
    static let now = "2026-01-01T00:00:00Z"

    static func verify(
        _ bytes: [UInt8], now: String = now, expiryTime: String? = nil, deviceID: [UInt8]? = nil,
        roots: [Certificate]? = nil, environments: Set<EnvironmentID> = [.production, .sandbox]
    ) throws -> VerifiedEvidence {
        let verifier = AppStoreVerifier(
            bundleIDs: ["com.example.owl"], environments: environments,
            roots: EvidenceRoots(certificates: try roots ?? [ReceiptAuthority.valid.get().root]))
        return try verifier.receipt(
            bytes, now: try Timestamp(now), expiryTime: try Timestamp(expiryTime ?? now), deviceID: deviceID)
    }

    static func verify(
        _ receipt: MintedReceipt, by authority: ReceiptAuthority? = nil, now: String = now, deviceID: [UInt8]? = nil
    ) throws -> VerifiedEvidence {
        let bytes = try receipt.bytes(by: try authority ?? ReceiptAuthority.valid.get())
        return try verify(bytes, now: now, deviceID: deviceID)
    }

    /// Expects that `body` is refused by `check`, with a reason that contains `text`.
    static func expectRefusal(
        _ check: EvidenceError.Check, _ text: String, isTransient: Bool = false,
        sourceLocation: SourceLocation = #_sourceLocation, _ body: () throws -> VerifiedEvidence
    ) {
        let error = #expect(throws: EvidenceError.self, sourceLocation: sourceLocation) { _ = try body() }
        guard let error else { return }
        #expect(error.check == check, "\(error)", sourceLocation: sourceLocation)
        #expect(error.reason.contains(text), "\(error)", sourceLocation: sourceLocation)
        #expect(error.isTransient == isTransient, "\(error)", sourceLocation: sourceLocation)
    }

    static func purchases(_ evidence: VerifiedEvidence) -> [Purchase] {
        evidence.facts.compactMap { fact in
            if case .purchase(let purchase) = fact { purchase } else { nil }
        }
    }

    static func revocations(_ evidence: VerifiedEvidence) -> [Revocation] {
        evidence.facts.compactMap { fact in
            if case .revocation(let revocation) = fact { revocation } else { nil }
        }
    }
}
