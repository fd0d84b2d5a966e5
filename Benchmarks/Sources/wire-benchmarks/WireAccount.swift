import BenchmarkSupport
import CurlTransport
import EntitlementSync
import Entitlements
import HTTPStorage
import HTTPTypes
import SyncCore
import SyncProtocol
import Synchronization

/// An account with ten years of purchases on a server, and its devices.
struct WireAccount {
    static let purchaseCount = 120
    static let catalog = """
        {"products":[{"id":"com.example.month","type":"nonRenewing","group":"owls","duration":"P1M"}],
         "entitlements":[{"id":"owls","grantedBy":["group:owls"]}]}
        """

    let server: String
    let name: String
    let session: ServerSession
    let ledger: EntryKey
    private let catalog: Catalog

    /// Signs up, records a purchase for each month of ten years on one device, and syncs with `server`.
    ///
    /// - Parameter isDecided: `true` to date the last purchase in the future, so that the server decides about it.
    init(_ name: String, server: String, transport: any HTTPTransport, isDecided: Bool = false) async throws {
        (self.name, self.server) = (name, server)
        catalog = try Catalog(json: Array(Self.catalog.utf8))
        session = try await AccountClient(server: server, transport: transport)
            .signUp(name, password: "correct horse").session
        ledger = try EntryKey("accounts/\(name)/\(session.incarnation)/ledger")
        let phone = try await store(on: try backend(transport))
        for month in 0..<Self.purchaseCount {
            let isLast = month == Self.purchaseCount - 1
            let start: Int64 = isDecided && isLast ? 4_000_000_000_000 : 1_460_000_000_000
            let date = Timestamp(milliseconds: start + Int64(month) * 2_629_746_000)
            let transaction = TransactionID("\(name) \(month)")
            try await phone.record(.reported("com.example.month", transaction: transaction, date: date))
        }
        try await phone.logIn(name, adoptAnonymous: true)
        try await phone.sync()
        // The server counts a purchase in the future as of now. All other months have passed.
        expect(try await phone.access(to: "owls").isGranted == isDecided, "the server decides about the last purchase")
    }

    /// The server as a backend.
    func backend(_ transport: any HTTPTransport) throws -> HTTPBackend {
        let token = session.accessToken
        return try HTTPBackend(server: server, transport: transport) { _ throws(BackendError) in token }
    }

    /// A device without local data.
    func store(on remote: HTTPBackend) async throws -> EntitlementStore {
        try await EntitlementStore(catalog: catalog, local: MemoryBackend(), remote: remote)
    }

    /// A device that has a session and syncs all facts.
    func newDevice(_ remote: HTTPBackend) async throws -> EntitlementStore {
        let store = try await store(on: remote)
        try await store.logIn(name)
        let count = try await store.restore().purchases.count
        expect(count == Self.purchaseCount, "a new device gets all purchases")
        return store
    }
}

/// Counts the requests of a transport.
final class CountingTransport: HTTPTransport {
    private let wrapped: CurlClient
    private let count = Mutex(0)

    init(_ wrapped: CurlClient) { self.wrapped = wrapped }

    /// Returns the number of requests since the last call.
    func take() -> Int {
        count.withLock { count in
            defer { count = 0 }
            return count
        }
    }

    func send(
        _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int
    ) async throws(TransportError) -> TransportAnswer {
        count.withLock { $0 += 1 }
        return try await wrapped.send(request, body: body, timeout: timeout, maximumByteCount: maximumByteCount)
    }
}
