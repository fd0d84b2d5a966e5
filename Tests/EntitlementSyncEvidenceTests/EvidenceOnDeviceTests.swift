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

    private static let device: [UInt8] = Array(repeating: 7, count: 16)

    /// Verifies a receipt with the purchase of an owl. `expiry` is that of a volume purchase.
    private func receipt(
        created: String = "2025-06-01T12:00:00Z", expiry: String? = nil, deviceID: [UInt8]? = nil
    ) throws -> Evidence {
        let authority = try ReceiptAuthority.valid.get()
        let receipt = MintedReceipt([MintedPurchase("1", "com.example.owl", at: "2025-05-01T00:00:00Z")]) {
            ($0.bundleID, $0.environment, $0.created) = ("com.example", "ProductionVPPSandbox", created)
            if let expiry { $0.extra = [(21, DERBytes.ascii(expiry))] }
        }
        let verifier = AppStoreVerifier(bundleIDs: ["com.example"], roots: try EvidenceRoots(pem: authority.roots))
        return try .appStoreReceipt(receipt.bytes(by: authority), verifiedBy: verifier, deviceID: deviceID)
    }

    private func expectRefusal(
        _ check: EvidenceError.Check, sourceLocation: SourceLocation = #_sourceLocation, _ body: () throws -> Evidence
    ) {
        let error = #expect(throws: EvidenceError.self, sourceLocation: sourceLocation) { _ = try body() }
        #expect(error?.check == check, sourceLocation: sourceLocation)
    }

    @Test(
        "A receipt counts at once, also that of a volume purchase before its expiry",
        arguments: [nil, "2999-01-01T00:00:00Z"])
    func receipt(_ expiry: String?) async throws {
        let store = try await store()
        try await store.record(try receipt(expiry: expiry, deviceID: Self.device))
        #expect(try await store.access(to: "owl").isGranted)
        #expect(try await store.waitingEvidenceCount() == 1)
    }

    @Test("A receipt of a volume purchase is refused after its expiry")
    func expiredReceipt() { expectRefusal(.state) { try receipt(expiry: "2025-07-01T00:00:00Z") } }

    @Test("A receipt that is ahead of the device's clock counts, unless it expired before it was created")
    func receiptAhead() async throws {
        let store = try await store()
        let created = "2034-01-01T00:00:00Z"
        try await store.record(try receipt(created: created, expiry: "2034-02-01T00:00:00Z"))
        #expect(try await store.access(to: "owl").isGranted)
        expectRefusal(.state) { try receipt(created: created, expiry: "2033-12-31T00:00:00Z") }
    }

    @Test("A receipt of another device is refused")
    func receiptOfAnotherDevice() {
        expectRefusal(.device) { try receipt(deviceID: Array(repeating: 8, count: 16)) }
    }
}
#endif
