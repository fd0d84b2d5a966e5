import CurlTransport
import EvidenceTestSupport
import Foundation
import HTTPStorage
import HTTPTypes
import SQLiteStorage
import SyncCore
import SyncProtocol
import Synchronization
import TestSupport
import Testing

@Suite("A server that is killed while it records evidence")
struct EvidenceKillTests {
    private static let rounds = Soak.serverRounds
    private static let senders = 4
    private static let catalog = """
        {"products":[{"id":"owl","type":"nonConsumable"}],
         "entitlements":[{"id":"owl","grantedBy":["product:owl"]}]}
        """

    /// The transactions that were answered with 200, and the signal for the senders to stop.
    private final class Progress: Sendable {
        private let state = Mutex<(acknowledged: Set<String>, isOver: Bool)>(([], false))

        var acknowledged: Set<String> { state.withLock { $0.acknowledged } }
        var isOver: Bool { state.withLock { $0.isOver } }

        func note(_ id: String) { state.withLock { _ = $0.acknowledged.insert(id) } }
        func end() { state.withLock { $0.isOver = true } }
    }

    /// A client of the server that sends evidence and repeats it until it is answered.
    private struct Sender: Sendable {
        let foundry: AppStoreFoundry
        let transport: CurlClient
        let port: Int
        let session: ServerSession
        let accountToken: String

        /// Sends the transaction `id` as a device, or as a notification of its store.
        func send(_ id: String, asDevice: Bool) async throws -> Int {
            let fields: SignedFields = [
                "productId": "owl", "type": "Non-Consumable", "expiresDate": nil, "transactionId": .text(id),
                "originalTransactionId": .text(id), "appAccountToken": asDevice ? nil : .text(accountToken),
            ]
            guard asDevice else {
                let payload = try foundry.notification("ONE_TIME_CHARGE", transaction: fields)
                return try await post("/v1/notifications/app-store", AppStoreFoundry.body(of: payload))
            }
            let jws = try foundry.transaction(fields)
            return try await post(
                "/v1/transactions",
                Array(#"{"evidence":[{"kind":"app-store-transaction","jws":"\#(jws)"}]}"#.utf8))
        }

        private func post(_ path: String, _ body: [UInt8]) async throws -> Int {
            try await exchange(.post, path, body).status
        }

        func exchange(
            _ method: HTTPRequest.Method, _ path: String, _ body: [UInt8] = []
        ) async throws -> (status: Int, body: [UInt8]) {
            var request = HTTPRequest(method: method, scheme: "http", authority: "127.0.0.1:\(port)", path: path)
            request.headerFields[.authorization] = "Bearer \(session.accessToken)"
            if !body.isEmpty { request.headerFields[.contentType] = "application/json" }
            let answer = try await transport.exchange(
                request, body: body, timeout: Patience.limit, maximumByteCount: 1 << 22, id: 1)
            return (answer.response.status.code, answer.body)
        }
    }

    @Test(
        "A server killed again and again has each transaction once after the device or the store has repeated it",
        .timeLimit(.minutes(15)))
    func killing() async throws {
        let folder = try TemporaryFolder()
        let foundry = try AppStoreFoundry.valid.get()
        let (roots, catalog) = (folder.path(of: "roots.pem"), folder.path(of: "catalog.json"))
        try Data(foundry.roots).write(to: URL(filePath: roots))
        try Data(Self.catalog.utf8).write(to: URL(filePath: catalog))
        // Without a name, the server would be called after its port, and tokens would end with the first process.
        let options = [
            "--name", "http://127.0.0.1", "--catalog", catalog, "--policy", "verified", "--app-store-bundle",
            "com.example", "--evidence-root", roots,
        ]
        let store = folder.path(of: "server.sqlite")
        var server = try ServerProcess(store: "sqlite:\(store)", options: options)
        let port = server.port
        let transport = try CurlClient()
        let client = try AccountClient(server: server.url, transport: transport)
        let session = try await client.signUp("alice", password: "a password for the test").session
        let token = try await client.accountToken { _ throws(BackendError) in session.accessToken }
        let sender = Sender(
            foundry: foundry, transport: transport, port: port, session: session, accountToken: token)
        let (acknowledgements, acknowledge) = AsyncStream.makeStream(of: Void.self)
        let progress = Progress()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<Self.senders {
                group.addTask {
                    // Also after an error, so that the killing ends.
                    defer { acknowledge.finish() }
                    var count = 0
                    while !progress.isOver {
                        let id = "\(number * 10_000 + count)"
                        guard try await Self.deliver(id, sender, asDevice: number.isMultiple(of: 2), progress) else {
                            return
                        }
                        acknowledge.yield()
                        count += 1
                    }
                }
            }
            var iterator = acknowledgements.makeAsyncIterator()
            killing: for _ in 0..<Self.rounds {
                for _ in 0..<7 {
                    guard await iterator.next() != nil else { break killing }
                }
                #expect(server.kill() == -SIGKILL)
                server = try ServerProcess(
                    store: "sqlite:\(store)", options: options + ["--listen", "127.0.0.1:\(port)"])
            }
            progress.end()
            try await group.waitForAll()
        }
        let export = try await sender.exchange(.get, "/v1/accounts/self/export")
        #expect(export.status == 200)
        let object = try #require(try JSONSerialization.jsonObject(with: Data(export.body)) as? [String: Any])
        let facts = object["serverLedger"] as? [[String: Any]] ?? []
        let purchases = facts.filter { $0["kind"] as? String == "purchase" }
            .compactMap { $0["transactionID"] as? String }
        #expect(Set(purchases).count == purchases.count)
        #expect(Set(purchases) == progress.acknowledged)
        #expect((object["lines"] as? [Any])?.count == purchases.count)
        #expect(server.stop() == 0)
        let parked = try await SQLiteBackend(path: store).list(prefix: "server/parked/", after: nil, limit: 10)
        #expect(parked.outcome.items.isEmpty)
    }

    /// Sends until the answer is 200, as a device and a store do.
    private static func deliver(
        _ id: String, _ sender: Sender, asDevice: Bool, _ progress: Progress
    ) async throws -> Bool {
        while true {
            // A transaction that was sent once is sent to the end, since the server may have recorded it.
            do {
                let status = try await sender.send(id, asDevice: asDevice)
                if status == 200 {
                    progress.note(id)
                    return !progress.isOver
                }
                // A server that has just started may ask to repeat; any other answer would not change.
                try #require(status == 503, "transaction \(id)")
            } catch is TransportError {
                await Task.yield()
            }
        }
    }
}
