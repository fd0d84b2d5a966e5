#if Evidence
import EntitlementSync
import EntitlementSyncEvidence
import Entitlements
import EvidenceTestSupport
import SyncCore
import Testing

@Suite("Receipts that wait for the server")
struct WaitingReceiptTests {
    private static let catalogJSON = """
        {"products": [{"id": "coins", "type": "consumable", "units": 5},
                      {"id": "owl", "type": "nonConsumable"}],
         "entitlements": [{"id": "owl", "grantedBy": ["product:owl"]}]}
        """

    private let coins = MintedPurchase("1", "coins", at: "2025-05-01T00:00:00Z")
    private let owl = MintedPurchase("2", "owl", at: "2025-06-02T00:00:00Z")

    private func evidence(_ purchases: [MintedPurchase], created: String) throws -> Evidence {
        let authority = try ReceiptAuthority.valid.get()
        let receipt = MintedReceipt(purchases) { $0.created = created }
        let verifier = AppStoreVerifier(
            bundleIDs: [receipt.bundleID],
            roots: try EvidenceRoots(pem: authority.roots))
        return try .appStoreReceipt(try receipt.bytes(by: authority), verifiedBy: verifier)
    }

    @Test("A later receipt without a finished consumable does not replace the receipt that states it")
    func finishedConsumable() async throws {
        let store = try await EntitlementStore(
            catalog: try Catalog(json: Self.catalogJSON.utf8), local: MemoryBackend(), account: Account("alice"))
        try await store.record(try evidence([coins], created: "2025-06-01T12:00:00Z"))
        try await store.record(try evidence([owl], created: "2025-06-02T12:00:00Z"))
        #expect(try await store.waitingEvidenceCount() == 2)
        // A receipt with the same purchases says nothing new.
        try await store.record(try evidence([owl], created: "2025-06-03T12:00:00Z"))
        #expect(try await store.waitingEvidenceCount() == 2)
        #expect(try await store.access(to: "owl").isGranted)
    }
}
#endif
