import EntitlementSync
import Entitlements
import Foundation
import HTTPTypes
import PostgreSQLStorage
import PostgreSQLTestSupport
import ProjectionStorage
import ServiceTestSupport
import SyncCore
import TestSupport
import Testing

@testable import SyncService

/// The kinds of databases that can hold a projection.
enum DatabaseKind: String, CaseIterable, CustomTestStringConvertible {
    case sqlite
    #if PostgreSQL
    case postgreSQL
    #endif

    var testDescription: String { rawValue }
}

/// A service, and a projection of its store.
final class ProjectionStage {
    static let catalogue = Array(
        """
        {"products":[{"id":"month","type":"nonRenewing","group":"nights","duration":"P30D"},
          {"id":"owl","type":"nonConsumable"},{"id":"pack","type":"consumable","units":3}],
         "entitlements":[{"id":"nights","grantedBy":["group:nights"]},{"id":"owl","grantedBy":["product:owl"]},
          {"id":"random","grantedBy":["units:pack"]}],
         "policy":{"consumables":"shared"}}
        """.utf8)
    static let day: Int64 = 86_400

    let store = MemoryBackend()
    let clock = TestClock(1_800_000_000_000)
    let service: EntitlementService
    let database: any ProjectionDatabase
    let projector: Projector
    private var lease: ProjectorLease
    private let folder: TemporaryFolder

    init(_ kind: DatabaseKind, wrapping wrap: (any ProjectionDatabase) -> any ProjectionDatabase = { $0 }) async throws
    {
        folder = try TemporaryFolder()
        let catalog = try Catalog(json: Self.catalogue)
        database = wrap(try Self.database(kind, folder))
        projector = Self.projector(of: store, into: database, clock, catalog)
        service = try await EntitlementService.open(
            store, clock: clock, projector: projector,
            configure: { configuration in
                (configuration.catalog, configuration.catalogJSON) = (catalog, Self.catalogue)
            })
        lease = ProjectorLease(store, host: clock.host)
    }

    static func database(_ kind: DatabaseKind, _ folder: TemporaryFolder) throws -> any ProjectionDatabase {
        switch kind {
        case .sqlite: return try SQLiteProjection(path: folder.path(of: "projection.sqlite"))
        #if PostgreSQL
        case .postgreSQL:
            let server = try PostgreSQLServer.shared()
            let schema = server.freshSchema()
            var configuration = try PostgreSQLBackend.Configuration(server.url(schema: "store\(schema)"))
            configuration.creation = .whenNeeded
            return PostgreSQLProjection(configuration, schema: schema)
        #endif
        }
    }

    static func projector(
        of store: any KeyValueBackend, into database: any ProjectionDatabase, _ clock: TestClock, _ catalog: Catalog
    ) -> Projector {
        Projector(store, into: database, catalog: catalog, json: catalogue, host: clock.host) { error in
            Issue.record("\(error)")
        }
    }

    /// A second projector of the same store into the same database.
    func otherProjector() throws -> Projector {
        Self.projector(of: store, into: database, clock, try Catalog(json: Self.catalogue))
    }

    /// Projects until nothing is left to do.
    func project() async throws { try await projector.project(&lease) }

    /// Lets another projector of the store begin.
    func releaseLease() async throws { try await lease.release() }

    func signUp(_ name: String) async throws {
        let json = ["name": name, "password": "correct horse battery"]
        let reply = await service.ask(.post, "/v1/accounts", json: json)
        #expect(reply.status == 201, "\(reply.members)")
    }

    /// Begins a new session, because the clock may have passed the end of the former token.
    func logIn(_ name: String) async throws -> String {
        let json = ["grant_type": "password", "username": name, "password": "correct horse battery"]
        return try #require(await service.ask(.post, "/v1/sessions", json: json)["access_token"])
    }

    /// Reports items of an account, which must be recorded.
    func report(_ name: String, _ items: [String: any Sendable]...) async throws {
        let token = try await logIn(name)
        let reply = await service.ask(.post, "/v1/transactions", token: token, json: ["evidence": items])
        let results = try #require(reply.members["results"] as? [[String: Any]], "\(reply.status) \(reply.members)")
        #expect(results.allSatisfy { $0["facts"] != nil }, "\(results)")
    }

    func buy(_ product: String, _ transaction: String, as name: String) async throws {
        try await report(
            name,
            [
                "kind": "reported", "product": product, "transaction": transaction,
                "date": "\(Timestamp(milliseconds: clock.now))",
            ])
    }

    func erase(_ name: String) async throws {
        let json = ["password": "correct horse battery"]
        let token = try await logIn(name)
        let reply = await service.ask(.post, "/v1/accounts/self/erasure", token: token, json: json)
        #expect(reply.status == 204)
    }

    /// The current incarnation of the account called `name`.
    func account(_ name: String) async throws -> Account {
        try #require(try await RecordStore(backend: store).account(name)?.value.account)
    }

    /// The rows of a query.
    func rows(_ sql: String) async throws -> [[SQLValue]] { try await database.read([SQLStatement(sql)])[0] }

    /// The kinds of the events after an id, as `ann purchase.recorded`.
    func events(after id: Int64 = 0) async throws -> [String] {
        try await rows("SELECT account, kind FROM events WHERE id > \(id) ORDER BY id").map { row in
            row.map { $0.text ?? "" }.joined(separator: " ")
        }
    }

    func lastEvent() async throws -> Int64 {
        try await rows("SELECT last_event FROM state")[0][0].integer ?? 0
    }

    /// All rows that follow from the store, in a fixed order.
    func content() async throws -> [String: [[SQLValue]]] { try await Self.content(of: database) }

    static func content(of database: any ProjectionDatabase) async throws -> [String: [[SQLValue]]] {
        var content: [String: [[SQLValue]]] = [:]
        for table in ProjectionSchema.derived {
            let columns = table.columns.map(\.name).joined(separator: ", ")
            content[table.name] = try await database.read([
                SQLStatement("SELECT \(columns) FROM \(table.name) ORDER BY \(columns)")
            ])[0]
        }
        return content
    }
}
