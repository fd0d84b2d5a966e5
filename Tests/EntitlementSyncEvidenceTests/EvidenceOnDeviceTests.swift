#if Evidence
import EntitlementSync
import EntitlementSyncEvidence
import Entitlements
import EvidenceTestSupport
import SyncCore
import Testing

@Suite("Evidence that a device verifies")
struct EvidenceOnDeviceTests {
    private static let catalogJSON = """
        {"products": [{"id": "com.example.owl", "type": "nonConsumable"}],
         "entitlements": [{"id": "owl", "grantedBy": ["product:com.example.owl"]}]}
        """

    private func store() async throws -> EntitlementStore {
        try await EntitlementStore(
            catalog: try Catalog(json: Self.catalogJSON.utf8), local: MemoryBackend(), account: Account("alice"),
            environment: .sandbox)
    }

    private func verifier(_ foundry: AppStoreFoundry) throws -> AppStoreVerifier {
        AppStoreVerifier(bundleIDs: ["com.example"], roots: try EvidenceRoots(pem: foundry.roots))
    }

    @Test("A verified transaction counts at once, and the evidence is kept for the server")
    func transaction() async throws {
        let foundry = try AppStoreFoundry.valid.get()
        let store = try await store()
        let jws = try foundry.transaction(["productId": "com.example.owl", "type": "Non-Consumable"])
        try await store.record(try .storeKit(jws: jws, verifiedBy: verifier(foundry)))
        #expect(try await store.access(to: "owl").isGranted)
        #expect(try await store.waitingEvidenceCount() == 1)
    }

    @Test("A forged transaction is refused before anything is recorded")
    func forged() async throws {
        let foundry = try AppStoreFoundry.valid.get()
        let jws = try foundry.transaction(["productId": "com.example.owl", "type": "Non-Consumable"])
        let pinned = AppStoreVerifier(bundleIDs: ["com.example"])
        let error = #expect(throws: EvidenceError.self) { try Evidence.storeKit(jws: jws, verifiedBy: pinned) }
        #expect(error?.check == .certificates)
    }
}
#endif
