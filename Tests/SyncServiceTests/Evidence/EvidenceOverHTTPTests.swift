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
        let verifier = AppStoreVerifier(bundleIDs: ["com.example"], roots: try EvidenceRoots(pem: foundry.roots))
        (self.foundry, self.verifier) = (foundry, verifier)
        stage = try await EvidenceStage(.verified) { $0.appStore = verifier }
    }

    private func device(of owner: LedgerAccount, as account: Account) async throws -> EntitlementStore {
        let remote = try HTTPBackend(
            server: "https://sync.example.com", transport: DirectTransport(stage.service)
        ) { (_) throws(BackendError) in owner.token }
        return try await EntitlementStore(
            catalog: try #require(stage.service.configuration.catalog), local: MemoryBackend(), remote: remote,
            account: account, environment: .sandbox, host: stage.clock.host)
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

    @Test("Evidence of one account is not sent with the token of another")
    func anotherAccount() async throws {
        let confused = try await device(of: stage.bob, as: try account(stage.alice))
        try await confused.record(try statement("1", by: foundry))
        await #expect(throws: EntitlementError.self) { try await confused.sync() }
        #expect(try await confused.waitingEvidenceCount() == 1)
        #expect(await stage.rights(of: stage.bob, environment: "sandbox").isEmpty)
    }
}
