import Entitlements
import EntitlementSync
import Foundation
import HTTPTypes
import ParseFacade
import ServiceTestSupport
import SyncCore
import SyncServer
import SyncService
import Synchronization

/// Counts the hashes of a server, and runs code before they are made.
final class CountedPasswords: PasswordHasher {
    private let base = PasswordHashing(cost: .init(logarithm: 6))
    private let counts = Mutex((hashed: 0, verified: 0))
    let beforeHashing = Mutex<(@Sendable () async -> Void)?>(nil)

    /// The numbers of hashes since the last call.
    func take() -> (hashed: Int, verified: Int) {
        counts.withLock { counts in
            defer { counts = (0, 0) }
            return counts
        }
    }

    func hash(_ password: [UInt8], peer: String) async throws(CryptographyError) -> String {
        counts.withLock { $0.hashed += 1 }
        let body = beforeHashing.withLock { body in
            defer { body = nil }
            return body
        }
        await body?()
        return try await base.hash(password, peer: peer)
    }

    func verify(_ password: [UInt8], _ hash: String, peer: String) async throws(CryptographyError) -> Bool {
        counts.withLock { $0.verified += 1 }
        return try await base.verify(password, hash, peer: peer)
    }
}

extension ParseStage {
    /// The server with an import beside it.
    static func importing(shape: String = "date") async throws -> (stage: ParseStage, passwords: CountedPasswords) {
        let passwords = CountedPasswords()
        return (try await ParseStage(shape: shape, passwords: passwords), passwords)
    }

    private func objects(_ text: String) throws -> [JSON] {
        var rest = Array(text.utf8)
        var reader = ExportReader {
            defer { rest = [] }
            return rest
        }
        var values: [JSON] = []
        while let object = try reader.next() { values.append(object.value) }
        return values
    }

    /// Imports into a store, as the command does.
    func importer(into store: (any KeyValueBackend)? = nil, shape: String = "date") async throws -> ParseImport {
        let store = store ?? self.store
        let catalog = try tutorialCatalog()
        let service = try await EntitlementService.open(
            store, clock: clock, passwords: CountedPasswords(),
            configure: { ($0.catalog, $0.facade) = (catalog, .derivedPurchases(catalog)) })
        var configuration = try ParseConfiguration(applicationID: "import")
        try configuration.addField("ExpirationDate=\(shape):random", catalog: catalog)
        // Two imports into two stores have one secret, so that their entries are equal.
        var host = HostServices.system
        host.randomBits = { 7 }
        return ParseImport(configuration, service, try await AccountImport(store, host: host))
    }

    func users(_ text: String) throws -> [ExportedUser] {
        var configuration = try ParseConfiguration(applicationID: "import")
        try configuration.addField("ExpirationDate=date:random", catalog: try tutorialCatalog())
        return try objects(text).map { try ExportedUser($0, configuration, now: Timestamp(milliseconds: clock.now)) }
    }

    func sessions(_ text: String) throws -> [ExportedSession] {
        try objects(text).map { try ExportedSession($0, now: Timestamp(milliseconds: clock.now)) }
    }

    func exported(_ text: String) throws -> [ExportedObject] {
        try objects(text).map { try ExportedObject($0, now: Timestamp(milliseconds: clock.now)) }
    }

    /// Imports users.
    @discardableResult
    func add(users text: String, shape: String = "date") async throws -> [ParseImport.Outcome] {
        try await importer(shape: shape).add(users(text))
    }

    /// Logs in at the façade, and returns the status.
    func logIn(_ name: String, _ password: String, peer: String = "192.0.2.1") async throws -> ParseReply {
        let body = try JSONSerialization.data(withJSONObject: ["username": name, "password": password])
        return await ask("POST", "/login", String(decoding: body, as: UTF8.self), peer: peer)
    }

    /// Logs in under `/v1`.
    func session(_ name: String, _ password: String, peer: String = "192.0.2.1") async -> Reply {
        await service.ask(
            .post, "/v1/sessions", json: ["grant_type": "password", "username": name, "password": password],
            peer: peer)
    }

    /// The stored hash of an account's password.
    func hash(of id: String) async throws -> String? {
        let key = try EntryKey("server/accounts/\(LedgerKeys.escaped(id))")
        guard case .found(let entry) = try await store.read(key).outcome else { return nil }
        let record = try JSONSerialization.jsonObject(with: Data(entry.value)) as? [String: Any]
        return record?["password"] as? String
    }

    /// All entries of a store.
    func entries(of store: (any KeyValueBackend)? = nil) async throws -> [String: [UInt8]] {
        let store = store ?? self.store
        var (entries, after) = ([String: [UInt8]](), EntryKey?.none)
        repeat {
            let page = try await store.list(prefix: "", after: after, limit: 1_000).outcome
            for item in page.items {
                if case .found(let entry) = try await store.read(item.key).outcome {
                    entries[item.key.text] = entry.value
                }
            }
            after = page.next
        } while after != nil
        return entries
    }
}

/// Password hashes of users: cost 4 and cost 10 of the passwords `owl password 0` to `owl password 3`.
enum OwlHashes {
    static let cheap = [
        "$2a$04$OwlPasswordOfTheUser0urgz5CvTcwkYSV385EnuiILFVVaXLt3y",
        "$2b$04$OwlPasswordOfTheUser1u65T39wG1PNQpDNDAAJas7WkhSSzGhL2",
        "$2y$04$OwlPasswordOfTheUser2unUflxCJcO7yp127cgFBtQ8WDvvrP6AG",
        "$2a$04$OwlPasswordOfTheUser3uoxSgyhJ5LTaXrIfFIdt6CsYcxHNDZYi",
    ]
    static let usual = [
        "$2a$10$OwlPasswordOfTheUser0ugWBSlZEvdlLmhzeTOP0PPcR6wUj8wUa",
        "$2b$10$OwlPasswordOfTheUser1uWurj/GxSK7JA.xLniT19jh6OuXtPL46",
        "$2y$10$OwlPasswordOfTheUser2u6EUGp9.cxAtP3tCu3DQ9uUR9WWEUgFi",
        "$2a$10$OwlPasswordOfTheUser3unkcSbBv3.jy9LosfD6vtsthe7vBuQLS",
    ]

    static func password(_ index: Int) -> String { "owl password \(index % 4)" }

    /// A user of an export of MongoDB.
    static func user(_ index: Int, hash: String, more: String = "") -> String {
        #"{"_id":"user\#(index)","username":"owl \#(index)","_hashed_password":"\#(hash)","#
            + #""_created_at":{"$date":"2016-05-01T10:00:00.000Z"},"_updated_at":{"$date":"2016-05-02T10:00:00.000Z"}"#
            + "\(more)}\n"
    }
}
