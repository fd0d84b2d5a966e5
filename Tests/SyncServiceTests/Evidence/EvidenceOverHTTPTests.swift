import EntitlementSync
import Entitlements
import EvidenceTestSupport
import HTTPStorage
import ServiceTestSupport
import StoreEvidence
import SyncCore
import SyncProtocol
import Testing

@testable import SyncService

@Suite("Evidence from a device to a server, with certificates")
struct EvidenceOverHTTPTests {
    private let foundry: AppStoreFoundry
    private let verifier: AppStoreVerifier
    private let stage: EvidenceStage

    init() async throws {
        let foundry = try AppStoreFoundry.valid.get()
        let roots = try EvidenceRoots(pem: foundry.roots + ReceiptAuthority.valid.get().roots)
        let verifier = AppStoreVerifier(bundleIDs: ["com.example"], roots: roots)
        (self.foundry, self.verifier) = (foundry, verifier)
        stage = try await EvidenceStage(.verified) { $0.appStore = verifier }
    }

    private func device(of owner: LedgerAccount, as account: Account) async throws -> EntitlementStore {
        let remote = try HTTPBackend(
            server: "https://sync.example.com", transport: DirectTransport(stage.service)
        ) { (_) throws(BackendError) in owner.token }
        return try await EntitlementStore(
            catalog: try #require(stage.service.configuration.catalog), local: MemoryBackend(), remote: remote,
            server: remote, account: account, environment: .sandbox, host: stage.clock.host)
    }

    private func statement(_ id: TransactionID, by foundry: AppStoreFoundry) throws -> Evidence {
        let jws = try foundry.transaction([
            "productId": "owl", "type": "Non-Consumable", "expiresDate": nil, "transactionId": .text(id.rawValue),
            "originalTransactionId": .text(id.rawValue),
        ])
        let trusting = AppStoreVerifier(bundleIDs: ["com.example"], roots: try EvidenceRoots(pem: foundry.roots))
        let evidence = try trusting.transaction(jws, now: Timestamp(milliseconds: stage.now))
        return .verified(
            VerifiedStatement(
                kind: evidence.kind.rawValue, subject: id.rawValue,
                data: Array("{\"kind\":\"app-store-transaction\",\"jws\":\"\(jws)\"}".utf8), facts: evidence.facts,
                signedDate: try #require(evidence.signedDate)))
    }

    private func account(_ owner: LedgerAccount) throws -> Account {
        let incarnation = owner.path.split(separator: "/").last.map(String.init)
        return try Account(owner.name, incarnation: try #require(incarnation))
    }

    @Test("A purchase that a device has verified counts on every device of the account once the server has verified it")
    func purchase() async throws {
        let alice = try account(stage.alice)
        let phone = try await device(of: stage.alice, as: alice)
        try await phone.record(try statement("1", by: foundry))
        #expect(try await phone.sync().evidence.map(\.answer) == [.recorded])
        #expect(try await phone.waitingEvidenceCount() == 0)
        #expect(try await phone.access(to: "owl").isGranted)
        let tablet = try await device(of: stage.alice, as: alice)
        try await tablet.restore()
        #expect(try await tablet.access(to: "owl").isGranted)
        #expect(await stage.rights(of: stage.alice, environment: "sandbox") == ["owl"])
        #expect(await stage.rights(of: stage.alice).isEmpty)
    }

    @Test("Evidence that another root has signed is refused by the server, and stops counting on the device")
    func forged() async throws {
        let phone = try await device(of: stage.alice, as: try account(stage.alice))
        try await phone.record(try statement("1", by: AppStoreFoundry()))
        let answers = try await phone.sync().evidence.map(\.answer)
        guard case .refused(code: "evidence-refused", _)? = answers.first else {
            Issue.record("not refused: \(answers)")
            return
        }
        #expect(try await !phone.access(to: "owl").isGranted)
        #expect(await stage.rights(of: stage.alice, environment: "sandbox").isEmpty)
    }

    /// A receipt of the sandbox that a device has verified.
    private func receipt(_ purchases: [MintedPurchase]) throws -> Evidence {
        let minted = MintedReceipt(purchases) { ($0.bundleID, $0.environment) = ("com.example", "ProductionSandbox") }
        let now = Timestamp(milliseconds: stage.now)
        let item = try EvidenceItem(
            receipt: try minted.bytes(by: ReceiptAuthority.valid.get()), verifier, now: now, expiryTime: now)
        return .verified(
            VerifiedStatement(
                kind: item.evidence.kind.rawValue, subject: item.subject, data: item.json, facts: item.evidence.facts,
                signedDate: try #require(item.evidence.signedDate)))
    }

    @Test("A receipt with a purchase of another account is recorded in part, and lends nothing")
    func partOfAReceipt() async throws {
        let owner = try await device(of: stage.bob, as: try account(stage.bob))
        try await owner.record(try statement("1", by: foundry))
        try await owner.sync()
        let phone = try await device(of: stage.alice, as: try account(stage.alice))
        let month = MintedPurchase(
            "2", "month", at: "2025-05-20T00:00:00Z", expiry: "2025-06-20T00:00:00Z")
        try await phone.record(try receipt([MintedPurchase("1", "owl", at: "2025-05-01T00:00:00Z"), month]))
        let other = TransactionReference(store: .appStore, environment: .sandbox, id: "1")
        #expect(try await phone.sync().evidence.map(\.answer) == [.recordedInPart(ownedByAnother: [other])])
        #expect(try await phone.waitingEvidenceCount() == 0)
        #expect(try await !phone.access(to: "owl").isGranted)
        #expect(try await phone.snapshot().subscriptions.flatMap(\.periods).count == 1)
    }

    @Test("Evidence of a store that the server is not set up for waits on the device")
    func notConfigured() async throws {
        let phone = try await device(of: stage.alice, as: try account(stage.alice))
        let now = Timestamp(milliseconds: stage.now)
        let transaction = TransactionReference(store: .googlePlay, environment: .sandbox, id: "GPA.1/owl")
        let purchase = Purchase(
            transaction: transaction, product: "owl", terms: nil, date: now, stamp: .signed(at: now))
        try await phone.record(
            .verified(
                VerifiedStatement(
                    kind: "google-play", subject: "GPA.1/owl",
                    data: Array(#"{"kind":"google-play","data":"{}","signature":"AA=="}"#.utf8),
                    facts: [.purchase(purchase)], signedDate: now)))
        guard case .postponed(code: "not-configured", _)? = try await phone.sync().evidence.first?.answer else {
            Issue.record("not postponed")
            return
        }
        #expect(try await phone.waitingEvidenceCount() == 1)
        #expect(try await phone.access(to: "owl").isGranted)
    }

    @Test("Evidence of one account is not sent with the token of another")
    func anotherAccount() async throws {
        let confused = try await device(of: stage.bob, as: try account(stage.alice))
        try await confused.record(try statement("1", by: foundry))
        await #expect(throws: EntitlementError.self) { try await confused.sync() }
        #expect(try await confused.waitingEvidenceCount() == 1)
        #expect(await stage.rights(of: stage.bob, environment: "sandbox").isEmpty)
    }
}
