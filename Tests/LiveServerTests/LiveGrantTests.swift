import CurlTransport
import EntitlementSync
import Entitlements
import Foundation
import HTTPStorage
import StoreEvidence
import SyncCore
import TestSupport
import Testing

/// Devices that trust only what a `syncd serve --root-key` process has signed.
@Suite("Grants of a server process", .timeLimit(.minutes(15)))
struct LiveGrantTests {
    private static let catalog = """
        {"products":[{"id":"owl","type":"nonConsumable"},
                     {"id":"m3","type":"nonRenewing","group":"nest","duration":"P3M"}],
         "entitlements":[{"id":"owl","grantedBy":["product:owl"]},{"id":"nest","grantedBy":["group:nest"]}]}
        """
    private let folder: TemporaryFolder
    private let server: ServerProcess
    private let transport: CurlClient
    private let client: AccountClient
    private let root: String

    init() throws {
        folder = try TemporaryFolder()
        let (catalog, key) = (folder.path(of: "catalog.json"), folder.path(of: "root.pem"))
        try Data(Self.catalog.utf8).write(to: URL(filePath: catalog))
        root = try ProcessEnd.run(BuiltProgram.path(of: "syncd"), "keys", "root", key, "--create")
        server = try ServerProcess(
            store: "sqlite:\(folder.path(of: "server.sqlite"))",
            options: ["--catalog", catalog, "--root-key", key, "--grant-days", "1"])
        transport = try CurlClient()
        client = try AccountClient(server: server.url, transport: transport)
    }

    private func session() async throws -> ServerSession {
        try await client.signUp("alice", password: "a password for the test").session
    }

    private func device(
        _ session: ServerSession, local: any KeyValueBackend = MemoryBackend(), root: String? = nil,
        isOnline: Bool = true
    ) async throws -> EntitlementStore {
        let remote = try HTTPBackend(server: server.url, transport: transport) { _ throws(BackendError) in
            session.accessToken
        }
        return try await EntitlementStore(
            catalog: try Catalog(json: Array(Self.catalog.utf8)), local: local, remote: isOnline ? remote : nil,
            server: isOnline ? remote : nil, account: try Account(session.account, incarnation: session.incarnation),
            trust: .signed(by: try GrantRoots([root ?? self.root])))
    }

    @Test("A purchase counts after the sync, also after a restart without a connection")
    func confirmed() async throws {
        let (session, local) = (try await session(), MemoryBackend())
        let device = try await device(session, local: local)
        try await device.record(.reported("m3", transaction: "t1"))
        #expect(try await device.access(to: "nest") == .denied(.unverified))
        try await device.sync()
        #expect(try await device.access(to: "nest").isGranted)
        #expect(try await device.access(to: "owl") == .denied(.notPurchased))
        let restarted = try await self.device(session, local: local, isOnline: false)
        #expect(try await restarted.access(to: "nest").isGranted)
        // The app has another root: the same bytes prove nothing.
        let other = try ProcessEnd.run(
            BuiltProgram.path(of: "syncd"), "keys", "root", folder.path(of: "other.pem"), "--create")
        let foreign = try await self.device(session, local: local, root: other)
        #expect(try await foreign.access(to: "nest") == .denied(.unverified))
        let error = await #expect(throws: EntitlementError.self) { try await foreign.sync() }
        #expect(error?.message.contains("refused: root:") == true, "\(error?.message ?? "")")
    }

    @Test("A rotation leaves no gap: old grants count, and new ones are signed by the new key")
    func rotation() async throws {
        let (session, local) = (try await session(), MemoryBackend())
        let device = try await device(session, local: local)
        try await device.record(.reported("owl", transaction: "t1"))
        try await device.sync()
        let before = try await keyID(in: local)
        let shown = try ProcessEnd.run(
            BuiltProgram.path(of: "syncd"), "keys", "rotate", "--store", "sqlite:\(folder.path(of: "server.sqlite"))")
        #expect(shown.split(separator: "\n").count == 2)
        #expect(try await device.access(to: "owl").isGranted)
        // Another purchase makes the device fetch a grant. The server notices the new key within two seconds.
        var number = 1
        var after = before
        let end = ContinuousClock.now + Patience.limit
        while after == before, ContinuousClock.now < end {
            number += 1
            try await device.record(.reported("m3", transaction: TransactionID("t\(number)")))
            try await device.sync()
            after = try await keyID(in: local)
            #expect(try await device.access(to: "owl").isGranted)
        }
        #expect(after != before)
        #expect(shown.contains("\(after)  created"))
        #expect(try await self.device(session, local: local, isOnline: false).access(to: "owl").isGranted)
    }

    @Test("After a theft the former keys are removed, and a session goes on with new tokens")
    func theft() async throws {
        let session = try await session()
        _ = try ProcessEnd.run(
            BuiltProgram.path(of: "syncd"),
            "keys", "rotate", "--store", "sqlite:\(folder.path(of: "server.sqlite"))", "--remove-former")
        var isRefused = false
        let end = ContinuousClock.now + Patience.limit
        while !isRefused, ContinuousClock.now < end {
            let device = try await device(session)
            do throws(EntitlementError) { try await device.sync() } catch {
                #expect(error.message.contains("access token is invalid"), "\(error)")
                isRefused = true
            }
        }
        #expect(isRefused)
        let renewed = try await client.logIn("alice", password: "a password for the test")
        try await device(renewed).sync()
    }

    @Test("A server without a root signs no grants, and says so")
    func unsupported() async throws {
        let plain = try ServerProcess(
            store: "memory:", options: ["--catalog", folder.path(of: "catalog.json")])
        let client = try AccountClient(server: plain.url, transport: transport)
        let session = try await client.signUp("alice", password: "a password for the test").session
        let remote = try HTTPBackend(server: plain.url, transport: transport) { _ throws(BackendError) in
            session.accessToken
        }
        let error = await #expect(throws: BackendError.self) {
            try await remote.grant(device: "0a", environment: "production")
        }
        #expect(error?.kind == .unsupported)
        let wrong = try HTTPBackend(server: server.url, transport: transport) { _ throws(BackendError) in
            try await self.token()
        }
        let refused = await #expect(throws: BackendError.self) {
            try await wrong.grant(device: "0 a", environment: "production")
        }
        #expect(refused?.message.contains("device must be 1 to 64") == true, "\(refused?.message ?? "")")
    }

    private func token() async throws(BackendError) -> String {
        do { return try await session().accessToken } catch {
            throw BackendError(.permissionDenied, message: "\(error)")
        }
    }

    /// The name of the server's key in the grant of a device.
    private func keyID(in local: any KeyValueBackend) async throws -> String {
        let key = try EntryKey("device/accounts/alice/\(try await incarnation(in: local))/grants/production")
        guard case .found(let entry) = try await local.read(key).outcome else {
            throw BackendError(.missing, message: "there is no grant")
        }
        let header = String(decoding: entry.value, as: UTF8.self).prefix { $0 != "." }
        let padded =
            String(header).replacing("-", with: "+").replacing("_", with: "/")
            + String(repeating: "=", count: (4 - header.utf8.count % 4) % 4)
        let data = try #require(Data(base64Encoded: padded))
        let object = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
        return try #require(object["kid"] as? String)
    }

    private func incarnation(in local: any KeyValueBackend) async throws -> Substring {
        let items = try await local.list(prefix: "device/accounts/alice/", after: nil, limit: 10).outcome.items
        return try #require(items.first).key.text.split(separator: "/")[3]
    }
}
