import Entitlements
import Foundation
import Testing

@testable import StoreEvidence

@Suite("Signed data that Apple publishes", .enabled(if: AppStoreVectors.exist))
struct AppStoreVectorTests {
    private let roots: EvidenceRoots
    private let now = Timestamp.minute(0)

    init() throws { roots = try EvidenceRoots(pem: AppStoreVectors.bytes("certs/testCA.der")) }

    private func verifier(_ environments: Set<EnvironmentID> = [.production, .sandbox]) -> AppStoreVerifier {
        AppStoreVerifier(bundleIDs: ["com.example"], appAppleID: 1234, environments: environments, roots: roots)
    }

    @Test("The signatures of a transaction and a renewal info are accepted with Apple's test root")
    func signatures() throws {
        for name in ["transactionInfo", "renewalInfo"] {
            let message = try SignedMessage(
                AppStoreVectors.text("mock_signed_data/\(name)"), limit: EvidenceLimits.transaction, name: name,
                chains: AppleChains(roots), now: now)
            #expect(message.signedDate == Timestamp(milliseconds: 1_672_956_154_000))
            #expect(try message.body.string("environment") == "Sandbox")
        }
    }

    @Test("They state nothing, so they are refused as a transaction and as a renewal info")
    func kinds() throws {
        let transaction = try AppStoreVectors.text("mock_signed_data/transactionInfo")
        AppStoreStage.expectRefusal(.kind, "no transactionId") { try verifier().transaction(transaction, now: now) }
        let renewal = try AppStoreVectors.text("mock_signed_data/renewalInfo")
        AppStoreStage.expectRefusal(.kind, "not a renewal info") { try verifier().renewal(renewal, now: now) }
    }

    @Test("With the pinned roots, Apple's test chain is refused")
    func pinned() throws {
        let payload = try AppStoreVectors.text("mock_signed_data/testNotification")
        AppStoreStage.expectRefusal(.certificates, "pinned root") {
            try AppStoreVerifier(bundleIDs: ["com.example"]).notification(signedPayload: payload, now: now)
        }
    }

    @Test("A test notification is accepted, except in production and before it was signed")
    func testNotification() throws {
        let payload = try AppStoreVectors.text("mock_signed_data/testNotification")
        let evidence = try verifier().notification(signedPayload: payload, now: now)
        #expect(evidence.event == "TEST")
        #expect(evidence.eventID == "9ad56bd2-0bc6-42e0-af24-fd996d87a1e6")
        #expect(evidence.signedDate == Timestamp(milliseconds: 1_681_314_324_000))
        #expect(evidence.facts == [])
        #expect(evidence.line == nil)
        AppStoreStage.expectRefusal(.environment, "sandbox") {
            try verifier([.production]).notification(signedPayload: payload, now: now)
        }
        AppStoreStage.expectRefusal(.signedDate, "after", isTransient: true) {
            try verifier().notification(signedPayload: payload, now: try Timestamp("2023-01-01T00:00:00Z"))
        }
    }

    @Test("A notification of another app, which has no date either")
    func wrongApp() throws {
        let payload = try AppStoreVectors.text("mock_signed_data/wrongBundleId")
        AppStoreStage.expectRefusal(.signedDate, "no signedDate") {
            try verifier().notification(signedPayload: payload, now: now)
        }
    }

    @Test("A header without x5c")
    func missingChain() throws {
        let payload = try AppStoreVectors.text("mock_signed_data/missingX5CHeaderClaim")
        AppStoreStage.expectRefusal(.header, "3 certificates (x5c), not 0") {
            try verifier().notification(signedPayload: payload, now: now)
        }
    }

    @Test("A transaction receipt of iOS 6 is refused as a transaction and as an app receipt")
    func legacy() throws {
        let text = try AppStoreVectors.text("mock_signed_data/legacyTransaction")
        AppStoreStage.expectRefusal(.format, "3 segments") { try verifier().transaction(text, now: now) }
        AppStoreStage.expectRefusal(.format, "") { try verifier().receipt(Array(text.utf8), now: now) }
    }

    @Test("What Xcode signs is refused, because it has one certificate that proves nothing")
    func xcode() throws {
        let transaction = try AppStoreVectors.text("xcode/xcode-signed-transaction")
        let renewal = try AppStoreVectors.text("xcode/xcode-signed-renewal-info")
        for verifier in [verifier(), AppStoreVerifier(bundleIDs: ["com.example.naturelab.backyardbirds.example"])] {
            AppStoreStage.expectRefusal(.header, "not 1") { try verifier.transaction(transaction, now: now) }
            AppStoreStage.expectRefusal(.header, "not 1") { try verifier.renewal(renewal, now: now) }
        }
    }

    @Test("Apple's real chain is accepted with the pinned root while its certificates are valid")
    func realChain() throws {
        let leaf = try AppStoreVectors.bytes("certs/AppleProdECC-leaf.der")
        let intermediate = try AppStoreVectors.bytes("certs/AppleWWDRCAG6.der")
        let chains = AppleChains(.pinned)
        func check(_ date: String) throws {
            _ = try chains.publicKey(leaf: leaf, intermediate: intermediate, at: Timestamp(date))
        }
        for date in ["2025-12-01T00:00:00Z", "2025-09-20T00:00:00Z", "2027-10-12T00:00:00Z"] { try check(date) }
        for date in ["2025-09-18T00:00:00Z", "2027-10-14T00:00:00Z", "2040-01-01T00:00:00Z"] {
            let error = #expect(throws: EvidenceError.self) { try check(date) }
            #expect(error?.check == .certificates)
        }
        let other = #expect(throws: EvidenceError.self) {
            _ = try AppleChains(roots).publicKey(
                leaf: leaf, intermediate: intermediate, at: Timestamp("2025-12-01T00:00:00Z"))
        }
        #expect(other?.reason.contains("pinned root") == true)
    }
}

/// Files that Apple published with its own library.
enum AppStoreVectors {
    private static let folder = URL(filePath: "/work/shared/vectors/app-store")

    static let exist = FileManager.default.fileExists(atPath: folder.path())

    static func bytes(_ name: String) throws -> [UInt8] { Array(try Data(contentsOf: folder.appending(path: name))) }

    static func text(_ name: String) throws -> String {
        String(decoding: try bytes(name), as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
    }
}
