import CurlTransport
import EntitlementSync
import Entitlements
import EvidenceTestSupport
import Foundation
import HTTPStorage
import HTTPTypes
import StoreEvidence
import SyncCore
import SyncProtocol
import TestSupport
import Testing

/// Devices of a `syncd serve --policy verified` process that trusts minted certificates.
@Suite("Evidence at a server process", .timeLimit(.minutes(15)))
struct LiveEvidenceTests {
    private static let catalog = """
        {"products":[{"id":"owl","type":"nonConsumable"},{"id":"nest","type":"nonConsumable"}],
         "entitlements":[{"id":"owl","grantedBy":["product:owl"]},{"id":"nest","grantedBy":["product:nest"]}]}
        """
    private static let password = "a password for the test"

    private let folder: TemporaryFolder
    private let foundry: AppStoreFoundry
    private let server: ServerProcess
    private let client: AccountClient
    private let transport: CurlClient

    init() throws {
        folder = try TemporaryFolder()
        foundry = try AppStoreFoundry.valid.get()
        let (roots, catalog) = (folder.path(of: "roots.pem"), folder.path(of: "catalog.json"))
        try Data(foundry.roots).write(to: URL(filePath: roots))
        try Data(Self.catalog.utf8).write(to: URL(filePath: catalog))
        server = try ServerProcess(
            store: "sqlite:\(folder.path(of: "server.sqlite"))",
            options: [
                "--catalog", catalog, "--policy", "verified", "--app-store-bundle", "com.example", "--evidence-root",
                roots,
            ])
        transport = try CurlClient()
        client = try AccountClient(server: server.url, transport: transport)
    }

    private func device(_ session: ServerSession) async throws -> EntitlementStore {
        let remote = try HTTPBackend(server: server.url, transport: transport) { _ throws(BackendError) in
            session.accessToken
        }
        return try await EntitlementStore(
            catalog: try Catalog(json: Array(Self.catalog.utf8)), local: MemoryBackend(), remote: remote,
            server: remote, account: try Account(session.account, incarnation: session.incarnation),
            environment: .sandbox)
    }

    private func jws(_ id: String) throws -> String {
        try foundry.transaction(Self.fields(id))
    }

    private static func fields(_ id: String, of product: String = "owl", token: String? = nil) -> SignedFields {
        [
            "productId": .text(product), "type": "Non-Consumable", "expiresDate": nil, "transactionId": .text(id),
            "originalTransactionId": .text(id), "appAccountToken": token.map { .text($0) },
        ]
    }

    private func verified(_ jws: String) throws -> Evidence {
        let verifier = AppStoreVerifier(bundleIDs: ["com.example"], roots: try EvidenceRoots(pem: foundry.roots))
        let evidence = try verifier.transaction(jws, now: .latest)
        return .verified(
            VerifiedStatement(
                kind: evidence.kind.rawValue, subject: "sandbox/1",
                data: Array("{\"kind\":\"app-store-transaction\",\"jws\":\"\(jws)\"}".utf8), facts: evidence.facts,
                signedDate: try #require(evidence.signedDate)))
    }

    private func notify(_ payload: String) async throws -> Int {
        var request = HTTPRequest(
            method: .post, scheme: "http", authority: "127.0.0.1:\(server.port)", path: "/v1/notifications/app-store")
        request.headerFields[.contentType] = "application/json"
        return try await transport.exchange(
            request, body: AppStoreFoundry.body(of: payload), timeout: Patience.limit, maximumByteCount: 1 << 20, id: 1
        ).response.status.code
    }

    @Test("A purchase that only the App Store reports reaches a watching device of the account that its token names")
    func notification() async throws {
        let session = try await client.signUp("alice", password: Self.password).session
        let token = try await client.accountToken { _ throws(BackendError) in session.accessToken }
        let device = try await device(session)
        let running = Task { await device.run(pollingEvery: .seconds(3_600)) }
        defer { running.cancel() }
        // After the first purchase has arrived, only a signal of the server can bring the second.
        for (number, product) in ["owl", "nest"].enumerated() {
            #expect(try await !device.access(to: EntitlementID(product)).isGranted)
            let payload = try foundry.notification(
                "ONE_TIME_CHARGE", transaction: Self.fields("\(number)", of: product, token: token))
            #expect(try await notify(payload) == 200)
            for await snapshot in try await device.snapshots() where snapshot.owned.contains(ProductID(product)) {
                break
            }
            #expect(try await device.access(to: EntitlementID(product)).isGranted)
        }
    }

    @Test("A device sends its evidence to the server process, and another device of the account has the purchase")
    func submission() async throws {
        let session = try await client.signUp("alice", password: Self.password).session
        let (phone, tablet) = (try await device(session), try await device(session))
        try await phone.record(try verified(try jws("1")))
        #expect(try await phone.access(to: "owl").isGranted)
        #expect(try await phone.sync().evidence.map(\.answer) == [.recorded])
        #expect(try await phone.waitingEvidenceCount() == 0)
        try await tablet.restore()
        #expect(try await tablet.access(to: "owl").isGranted)
    }

    @Test("A token that names one account cannot be registered for another")
    func tokens() async throws {
        let alice = try await client.signUp("alice", password: Self.password).session
        let bob = try await client.signUp("bob", password: Self.password).session
        let token = try await client.accountToken { _ throws(BackendError) in alice.accessToken }
        #expect(UUID(uuidString: token) != nil)
        #expect(try await client.accountToken { _ throws(BackendError) in alice.accessToken } == token)
        let error = await #expect(throws: AccountError.self) {
            try await client.register(accountToken: token) { _ throws(BackendError) in bob.accessToken }
        }
        #expect(error?.kind == .nameTaken)
        let own = UUID().uuidString
        try await client.register(accountToken: own) { _ throws(BackendError) in bob.accessToken }
        let payload = try foundry.notification("ONE_TIME_CHARGE", transaction: Self.fields("2", token: own))
        #expect(try await notify(payload) == 200)
        let device = try await device(bob)
        try await device.restore()
        #expect(try await device.access(to: "owl").isGranted)
        let refused = await #expect(throws: AccountError.self) {
            try await client.register(accountToken: "no UUID") { _ throws(BackendError) in bob.accessToken }
        }
        #expect(refused?.kind == .invalid)
    }
}
