import EntitlementSync
import Entitlements
import HTTPTypes
import ProjectionStorage
import ServiceTestSupport
import SyncCore
import SyncCoreTesting
import Synchronization
import TestSupport
import Testing

@testable import SyncService

@Suite("The projection of accounts into rows", .timeLimit(.minutes(15)))
struct ProjectorTests {
    @Test("A purchase gives rows, and each transition gives its events once", arguments: DatabaseKind.allCases)
    func purchase(kind: DatabaseKind) async throws {
        let stage = try await ProjectionStage(kind)
        // Accounts that existed before the projection give no events.
        try await stage.signUp("bob")
        try await stage.project()
        #expect(try await stage.events().isEmpty)
        #expect(try await stage.rows("SELECT account FROM customers") == [[.text("bob")]])

        try await stage.signUp("ann")
        try await stage.buy("month", "m1", as: "ann")
        try await stage.project()
        #expect(
            try await stage.events() == [
                "ann account.created", "ann purchase.recorded", "ann subscription.started", "ann access.granted",
            ])
        let rows = try await stage.rows(
            "SELECT account, product, product_group, origin, quantity, expires - purchased FROM purchases")
        #expect(
            rows == [
                [
                    .text("ann"), .text("month"), .text("nights"), .text("reported"), .integer(1),
                    .integer(30 * 86_400_000),
                ]
            ])
        let access = try await stage.rows(
            "SELECT account FROM entitlements WHERE entitlement = 'nights' AND granted = 1")
        #expect(access == [[.text("ann")]])

        let last = try await stage.lastEvent()
        try await stage.project()
        try await stage.buy("month", "m2", as: "ann")
        try await stage.report("ann", ["kind": "refunded", "transaction": "m1"])
        try await stage.project()
        #expect(
            try await stage.events(after: last) == [
                "ann purchase.refunded", "ann purchase.recorded", "ann subscription.started",
            ])
    }

    @Test("Time alone gives events: an end that comes near, and the end", arguments: DatabaseKind.allCases)
    func time(kind: DatabaseKind) async throws {
        let stage = try await ProjectionStage(kind)
        try await stage.project()
        try await stage.signUp("ann")
        try await stage.buy("month", "m1", as: "ann")
        try await stage.project()
        let last = try await stage.lastEvent()
        stage.clock.advance(seconds: 26 * ProjectionStage.day)
        try await stage.project()
        #expect(try await stage.events(after: last).isEmpty)
        stage.clock.advance(seconds: ProjectionStage.day + 1)
        try await stage.project()
        try await stage.project()
        #expect(try await stage.events(after: last) == ["ann subscription.expiring"])
        stage.clock.advance(seconds: 3 * ProjectionStage.day)
        try await stage.project()
        try await stage.project()
        #expect(
            try await stage.events(after: last) == [
                "ann subscription.expiring", "ann subscription.expired", "ann access.revoked",
            ])
        let rows = try await stage.rows("SELECT granted, reason FROM entitlements WHERE entitlement = 'nights'")
        #expect(rows == [[.integer(0), .text("expired")]])
    }

    @Test("An erasure removes the rows of the account", arguments: DatabaseKind.allCases)
    func erasure(kind: DatabaseKind) async throws {
        let stage = try await ProjectionStage(kind)
        try await stage.project()
        try await stage.signUp("ann")
        try await stage.buy("owl", "o1", as: "ann")
        try await stage.project()
        let last = try await stage.lastEvent()
        try await stage.erase("ann")
        try await stage.signUp("ann")
        try await stage.project()
        #expect(try await stage.events(after: last) == ["ann account.erased", "ann account.created"])
        #expect(try await stage.rows("SELECT account FROM purchases").isEmpty)
        try await stage.erase("ann")
        try await stage.project()
        for (table, rows) in try await stage.content() { #expect(rows.isEmpty, "\(table)") }
    }

    @Test("A rebuild gives the same rows as the changes, and no events", arguments: DatabaseKind.allCases)
    func rebuild(kind: DatabaseKind) async throws {
        let stage = try await ProjectionStage(kind)
        try await stage.project()
        var generator = SeededGenerator(seed: 46)
        let names = ["ann", "bob", "Cléo", "d/e"]
        for name in names { try await stage.signUp(name) }
        for number in 0..<60 {
            let name = names[Int.random(in: 0..<names.count, using: &generator)]
            switch Int.random(in: 0..<4, using: &generator) {
            case 0: try await stage.buy("owl", "t\(number)", as: name)
            case 1:
                try await stage.buy("month", "t\(number)", as: name)
                if Bool.random(using: &generator) {
                    try await stage.report(name, ["kind": "refunded", "transaction": "t\(number)"])
                }
            case 2: try await stage.buy("pack", "t\(number)", as: name)
            default:
                stage.clock.advance(seconds: Int64.random(in: 0..<5 * ProjectionStage.day, using: &generator))
            }
            if Bool.random(using: &generator) { try await stage.project() }
        }
        try await stage.project()
        let (content, last) = (try await stage.content(), try await stage.lastEvent())
        #expect(content["purchases"]?.isEmpty == false && content["periods"]?.isEmpty == false)
        try await ProjectionTables(stage.database).requestRebuild()
        try await stage.project()
        let again = try await stage.content()
        for (table, rows) in content.sorted(by: { $0.key < $1.key }) { #expect(again[table] == rows, "\(table)") }
        #expect(try await stage.lastEvent() == last)
    }

    @Test("A server that lost its lease while it was frozen writes nothing", arguments: DatabaseKind.allCases)
    func frozen(kind: DatabaseKind) async throws {
        let stage = try await ProjectionStage(kind)
        try await stage.project()
        let frozen = stage.projector
        var held = try #require(frozen.state)
        // Another server sees no renewal for the term of the lease.
        let other = try stage.otherProjector()
        var lease = ProjectorLease(stage.store, host: stage.clock.host)
        try await other.project(&lease)
        #expect(!other.progress.isProjecting)
        stage.clock.pass(seconds: 16)
        try await stage.signUp("ann")
        try await other.project(&lease)
        #expect(other.progress.isProjecting)
        let events = try await stage.events()
        #expect(events == ["ann account.created"])
        // The frozen server goes on in the middle of its work.
        let error = await #expect(throws: BackendError.self) { _ = try await frozen.step(&held) }
        #expect(error?.kind == .busy)
        #expect(try await stage.events() == events)
        try await stage.project()
        #expect(!frozen.progress.isProjecting)
    }

    @Test("A commit whose outcome is unknown gives each event once", arguments: DatabaseKind.allCases)
    func unknownOutcome(kind: DatabaseKind) async throws {
        let forgetful = Mutex<ForgetfulDatabase?>(nil)
        let stage = try await ProjectionStage(kind) { base in
            let database = ForgetfulDatabase(base)
            forgetful.withLock { $0 = database }
            return database
        }
        try await stage.project()
        try await stage.signUp("ann")
        try await stage.buy("owl", "o1", as: "ann")
        forgetful.withLock { $0 }?.forgetNext()
        await #expect(throws: BackendError.self) { try await stage.project() }
        try await stage.project()
        #expect(
            try await stage.events() == ["ann account.created", "ann purchase.recorded", "ann access.granted"])
    }

    @Test("An end has its events while purchases go on", arguments: DatabaseKind.allCases)
    func busy(kind: DatabaseKind) async throws {
        let stage = try await ProjectionStage(kind)
        try await stage.project()
        for name in ["ann", "bob"] { try await stage.signUp(name) }
        try await stage.buy("month", "m1", as: "ann")
        try await stage.project()
        let last = try await stage.lastEvent()
        stage.clock.advance(seconds: 31 * ProjectionStage.day)
        try await stage.buy("owl", "o1", as: "bob")
        var state = try #require(stage.projector.state)
        _ = try await stage.projector.step(&state)
        #expect(
            Set(try await stage.events(after: last)) == [
                "ann subscription.expired", "ann access.revoked", "bob purchase.recorded", "bob access.granted",
            ])
    }

    @Test("Changes that were missed because the cursor has expired give their events", arguments: DatabaseKind.allCases)
    func expiredCursor(kind: DatabaseKind) async throws {
        let stage = try await ProjectionStage(kind)
        try await stage.project()
        for name in ["ann", "bob"] { try await stage.signUp(name) }
        try await stage.project()
        let last = try await stage.lastEvent()
        try await stage.buy("owl", "o1", as: "ann")
        try await stage.erase("bob")
        let lost = SQLStatement("UPDATE state SET position = '999999999-0000000000000000'")
        #expect(try await stage.database.write([lost], fence: nil))
        try await stage.project()
        #expect(
            Set(try await stage.events(after: last)) == [
                "ann purchase.recorded", "ann access.granted", "bob account.erased",
            ])
        #expect(try await stage.rows("SELECT alias FROM aliases") == [[.text("ann")]])
    }

    @Test("The tables of an earlier version are upgraded, and no event is lost", arguments: DatabaseKind.allCases)
    func earlierVersion(kind: DatabaseKind) async throws {
        let stage = try await ProjectionStage(kind)
        try await stage.project()
        try await stage.signUp("ann")
        try await stage.project()
        let events = try await stage.events()
        let changes = [
            "DROP VIEW customers_v1", "DROP VIEW acts_v1", "DROP VIEW statistics_v1", "DROP INDEX customers_external",
            "ALTER TABLE customers DROP COLUMN external_id", "DROP TABLE acts", "DROP TABLE statistics",
            "ALTER TABLE sessions DROP COLUMN incarnation",
            "ALTER TABLE state DROP COLUMN rebuilt", "ALTER TABLE state DROP COLUMN views",
            "UPDATE state SET version = 1",
        ]
        #expect(try await stage.database.write(changes.map { SQLStatement($0) }, fence: nil))
        // While no server projected.
        try await stage.buy("owl", "o1", as: "ann")
        var lease = ProjectorLease(stage.store, host: stage.clock.host)
        let other = try stage.otherProjector()
        try await other.project(&lease)
        stage.clock.pass(seconds: 16)
        try await other.project(&lease)
        #expect(try await stage.events() == events + ["ann purchase.recorded", "ann access.granted"])
        let content = try await stage.content()
        #expect(content["statistics"]?.count == 2)
        #expect(try await stage.rows("SELECT count(*) FROM statistics_v1") == [[.integer(2)]])
        try await ProjectionTables(stage.database).requestRebuild()
        try await other.project(&lease)
        let again = try await stage.content()
        for (table, rows) in content { #expect(again[table] == rows, "\(table)") }
        // A later server has upgraded the tables; the earlier one notices, also while it runs.
        #expect(try await stage.database.write([SQLStatement("UPDATE state SET version = 99")], fence: nil))
        for projector in [other, try stage.otherProjector()] {
            let error = await #expect(throws: BackendError.self) { try await projector.project(&lease) }
            #expect(error?.kind == .newerFormat)
        }
    }

    @Test("A changed catalogue derives all rows again, and gives the events of changed access")
    func catalogue() async throws {
        let stage = try await ProjectionStage(.sqlite)
        try await stage.project()
        try await stage.signUp("ann")
        try await stage.buy("owl", "o1", as: "ann")
        try await stage.project()
        let last = try await stage.lastEvent()
        let json = Array(
            String(decoding: ProjectionStage.catalogue, as: UTF8.self).replacing(
                "{\"id\":\"nights\",\"grantedBy\":[\"group:nights\"]}",
                with: "{\"id\":\"nights\",\"grantedBy\":[\"group:nights\",\"product:owl\"]}"
            ).utf8)
        stage.projector.use(try Catalog(json: json), json: json)
        try await stage.project()
        #expect(try await stage.events(after: last) == ["ann access.granted"])
        // Names and offerings change no row.
        let mark = SQLStatement("UPDATE state SET rebuilt = 99")
        #expect(try await stage.database.write([mark], fence: nil))
        let named = Array(
            String(decoding: json, as: UTF8.self)
                .replacing("\"type\":\"nonConsumable\"", with: "\"type\":\"nonConsumable\",\"forSale\":false")
                .replacing("\"policy\"", with: "\"offerings\":[{\"id\":\"all\",\"products\":[\"owl\"]}],\"policy\"")
                .utf8)
        stage.projector.use(try Catalog(json: named), json: named)
        try await stage.project()
        #expect(try await stage.rows("SELECT rebuilt FROM state") == [[.integer(99)]])
    }

    @Test("Changes are followed while a rebuild is under way", arguments: DatabaseKind.allCases)
    func followDuringRebuild(kind: DatabaseKind) async throws {
        let stage = try await ProjectionStage(kind)
        for name in ["ann", "bob"] { try await stage.signUp(name) }
        // The first rebuild.
        let other = try stage.otherProjector()
        var lease = ProjectorLease(stage.store, host: stage.clock.host)
        var state = try await ProjectionTables(stage.database).open { Issue.record("\($0)") }
        let epoch = try #require(try await lease.hold(after: state.fence.epoch))
        #expect(try await ProjectionTables(stage.database).begin(epoch: epoch))
        state.fence.epoch = epoch
        _ = try await other.step(&state)
        #expect(state.projected == stage.clock.now)
        try await stage.buy("owl", "o1", as: "bob")
        // It belongs to the state that the rebuild finds.
        _ = try await other.step(&state)
        #expect(try await stage.events().isEmpty)
        #expect(state.rebuild != nil && state.rebuilt == 2)
        try await stage.buy("owl", "o2", as: "ann")
        try await stage.signUp("cat")
        _ = try await other.step(&state)
        #expect(state.rebuild != nil)
        #expect(
            try await stage.events() == ["ann purchase.recorded", "ann access.granted", "cat account.created"])
        while try await !other.step(&state) {}
        #expect(state.rebuild == nil)
        #expect(try await stage.events().count == 3)
    }

    @Test("A view that was altered is created again", arguments: DatabaseKind.allCases)
    func alteredView(kind: DatabaseKind) async throws {
        let stage = try await ProjectionStage(kind)
        try await stage.project()
        let views = "SELECT * FROM entitlements_v1 LIMIT 0"
        let alterations = [
            ["DROP VIEW entitlements_v1"],
            ["DROP VIEW entitlements_v1", "CREATE VIEW entitlements_v1 AS SELECT account FROM entitlements"],
            ["DROP VIEW events_v1", "CREATE VIEW events_v1 AS SELECT id, account, 1 AS mine FROM events"],
        ]
        for alteration in alterations {
            #expect(try await stage.database.write(alteration.map { SQLStatement($0) }, fence: nil))
            _ = try await ProjectionTables(stage.database).open { Issue.record("\($0)") }
            _ = try await stage.rows(views)
            _ = try await stage.rows("SELECT kind, body FROM events_v1 LIMIT 0")
        }
        // A table that has the name of a view is reported, and the projection goes on.
        let table = ["DROP VIEW entitlements_v1", "CREATE TABLE entitlements_v1 (mine bigint)"]
        #expect(try await stage.database.write(table.map { SQLStatement($0) }, fence: nil))
        var complaints: [BackendError] = []
        _ = try await ProjectionTables(stage.database).open { complaints.append($0) }
        #expect(complaints.count == 1 && "\(complaints[0])".contains("entitlements_v1"), "\(complaints)")
        try await stage.signUp("ann")
        try await stage.project()
        #expect(try await stage.events() == ["ann account.created"])
    }

    @Test("An external id follows its record, and is in the events", arguments: DatabaseKind.allCases)
    func externalID(kind: DatabaseKind) async throws {
        let stage = try await ProjectionStage(kind)
        try await stage.project()
        let ids = ExternalIDs(records: RecordStore(backend: stage.store))
        for name in ["ann", "bob"] { try await stage.signUp(name) }
        try await ids.attach("user/1", to: try await stage.account("ann"))
        try await stage.buy("owl", "o1", as: "ann")
        try await stage.project()
        let query = "SELECT account, external_id FROM customers ORDER BY account"
        #expect(try await stage.rows(query) == [[.text("ann"), .text("user/1")], [.text("bob"), .null]])
        let bodies = try await stage.rows("SELECT body FROM events WHERE kind = 'purchase.recorded'")
        #expect(bodies[0][0].text?.contains("\"externalId\": \"user/1\"") == true, "\(bodies)")
        // Another account gets the id in the same page of changes.
        _ = try await ids.detach(try await stage.account("ann"))
        try await ids.attach("user/1", to: try await stage.account("bob"))
        try await ids.attach("user/2", to: try await stage.account("ann"))
        try await stage.project()
        let expected: [[SQLValue]] = [[.text("ann"), .text("user/2")], [.text("bob"), .text("user/1")]]
        #expect(try await stage.rows(query) == expected)
        try await stage.buy("owl", "o2", as: "bob")
        try await stage.project()
        #expect(try await stage.rows(query) == expected)
        let lost = SQLStatement("UPDATE customers SET external_id = NULL")
        #expect(try await stage.database.write([lost], fence: nil))
        try await ProjectionTables(stage.database).requestRebuild()
        try await stage.project()
        #expect(try await stage.rows(query) == expected)
        try await stage.erase("bob")
        try await stage.project()
        #expect(try await stage.rows(query) == [[.text("ann"), .text("user/2")]])
    }

    @Test("The audit list has rows", arguments: DatabaseKind.allCases)
    func acts(kind: DatabaseKind) async throws {
        let stage = try await ProjectionStage(kind)
        let log = AuditLog(store: stage.store)
        let act = AuditLog.Entry(
            date: "2027-01-15T08:00:00Z", act: "record", account: "ann", line: "support/production/1", actor: "jo")
        try await log.append(act)
        try await stage.project()
        try await log.append(act)
        try await stage.project()
        let rows = try await stage.rows("SELECT number, account, date, actor FROM acts ORDER BY number")
        #expect(rows == [1, 2].map { [.integer($0), .text("ann"), .integer(1_800_000_000_000), .text("jo")] })
        // A store that was restored has fewer.
        _ = try await stage.store.delete(try AuditLog.key(of: 2), if: .any)
        try await ProjectionTables(stage.database).requestRebuild()
        try await stage.project()
        #expect(try await stage.rows("SELECT number FROM acts") == [[.integer(1)]])
    }

    @Test("Ledgers are read in batches of limited size")
    func batches() async throws {
        let stage = try await ProjectionStage(.sqlite)
        let names = (0..<80).map { "a\($0)" }
        for name in names { try await stage.signUp(name) }
        #expect(try await AccountDocuments.read(names[...], in: stage.store).count == 80)
        for name in names {
            let keys = try LedgerKeys(try await stage.account(name))
            _ = try await stage.store.write([UInt8](repeating: 0, count: 1 << 20), to: keys.serverLedger, if: .any)
        }
        let batch = try await AccountDocuments.read(names[...], in: stage.store)
        #expect(batch.count == 16 && batch.documents.count == 16)
        let rest = try await AccountDocuments.read(names.dropFirst(72), in: stage.store)
        #expect(rest.count == 8)
    }

    @Test("A damaged document keeps the rows of its account, and stops no other", arguments: DatabaseKind.allCases)
    func damaged(kind: DatabaseKind) async throws {
        let errors = Mutex<[String]>([])
        let stage = try await ProjectionStage(kind)
        let projector = Projector(
            stage.store, into: stage.database, catalog: try Catalog(json: ProjectionStage.catalogue),
            json: ProjectionStage.catalogue, host: stage.clock.host
        ) { error in errors.withLock { $0.append("\(error.kind) \(error.key?.text ?? "")") } }
        var lease = ProjectorLease(stage.store, host: stage.clock.host)
        for name in ["ann", "bob", "cat"] { try await stage.signUp(name) }
        try await stage.buy("month", "m1", as: "ann")
        try await projector.project(&lease)
        let keys = [try LedgerKeys(try await stage.account("ann")).ledger, try AccountRecord.key(of: "bob")]
        for key in keys { _ = try await stage.store.write([1, 2, 3], to: key, if: .any) }
        try await stage.buy("owl", "o1", as: "cat")
        try await projector.project(&lease)
        #expect(errors.withLock { Set($0) } == Set(keys.map { "damaged \($0.text)" }))
        #expect(try await stage.events() == ["cat purchase.recorded", "cat access.granted"])
        // A damaged account that is due is due again an hour later.
        stage.clock.advance(seconds: 60 * 86_400)
        try await projector.project(&lease)
        let due = try await stage.rows("SELECT next_change FROM customers WHERE account = 'ann'")
        #expect(due == [[.integer(stage.clock.now + 3_600_000)]])
        // A damaged list of entries leaves the external ids of the others.
        let list = try AccountEntries.key(of: try await stage.account("cat"))
        _ = try await stage.store.write([1, 2, 3], to: list, if: .any)
        try await stage.signUp("dan")
        try await ExternalIDs(records: RecordStore(backend: stage.store)).attach(
            "user-4", to: try await stage.account("dan"))
        try await ProjectionTables(stage.database).requestRebuild()
        try await projector.project(&lease)
        #expect(try await stage.rows("SELECT external_id FROM customers WHERE account = 'dan'") == [[.text("user-4")]])
        #expect(errors.withLock { $0.contains("damaged \(list.text)") })
        _ = try await stage.store.delete(list, if: .any)
        #expect(try await stage.rows("SELECT count(*) FROM customers") == [[.integer(4)]])
        try await ProjectionTables(stage.database).requestRebuild()
        try await projector.project(&lease)
        #expect(try await stage.rows("SELECT count(*) FROM customers") == [[.integer(4)]])
    }

    @Test("Only the first 100 events about purchases of one change contain the entitlements", arguments: [99, 130])
    func manyPurchases(count: Int) async throws {
        let stage = try await ProjectionStage(.sqlite)
        try await stage.signUp("ann")
        try await stage.project()
        let last = try await stage.lastEvent()
        let date = "\(Timestamp(milliseconds: stage.clock.now))"
        for batch in stride(from: 0, to: count, by: 50) {
            let token = try await stage.logIn("ann")
            let items = (batch..<min(count, batch + 50)).map {
                ["kind": "reported", "product": "owl", "transaction": "o\($0)", "date": date]
            }
            let reply = await stage.service.ask(.post, "/v1/transactions", token: token, json: ["evidence": items])
            #expect(reply.status == 200)
        }
        try await stage.project()
        let bodies = try await stage.rows("SELECT kind, body FROM events WHERE id > \(last) ORDER BY id")
        let complete = try bodies.map { row in
            try JSON(parsing: Array((row[1].text ?? "").utf8))["entitlements"] != .null
        }
        #expect(bodies.count == count + 1 && bodies.last?[0] == .text("access.granted"))
        #expect(complete == (0...count).map { $0 < 100 || $0 == count })
    }

    @Test("After a query that fails, the next ones succeed", arguments: DatabaseKind.allCases)
    func failedQuery(kind: DatabaseKind) async throws {
        let stage = try await ProjectionStage(kind)
        try await stage.project()
        for _ in 0..<4 {
            await #expect(throws: BackendError.self) { try await stage.rows("SELECT * FROM missing") }
            #expect(try await stage.rows("SELECT count(*) FROM customers") == [[.integer(0)]])
        }
    }

    @Test("A server that stops gives its lease up")
    func release() async throws {
        let stage = try await ProjectionStage(.sqlite)
        let first = stage.projector
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await first.run() }
            while !first.progress.isProjecting { await Task.yield() }
            group.cancelAll()
        }
        let other = try stage.otherProjector()
        var lease = ProjectorLease(stage.store, host: stage.clock.host)
        try await other.project(&lease)
        #expect(!other.progress.isProjecting)
        await first.release()
        try await other.project(&lease)
        #expect(other.progress.isProjecting)
    }

    @Test("The views have instants that people can read", arguments: DatabaseKind.allCases)
    func views(kind: DatabaseKind) async throws {
        let stage = try await ProjectionStage(kind)
        try await stage.project()
        try await stage.signUp("ann")
        try await stage.buy("month", "m1", as: "ann")
        try await stage.project()
        let join = try await stage.rows(
            """
            SELECT c.account, c.sessions, e.entitlement FROM customers_v1 c
            JOIN entitlements_v1 e ON e.account = c.account WHERE e.granted ORDER BY e.entitlement
            """)
        #expect(join == [[.text("ann"), .integer(2), .text("nights")]])
        let instant =
            kind == .sqlite ? "until" : "to_char(until AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"
        let until = try await stage.rows("SELECT \(instant) FROM entitlements_v1 WHERE entitlement = 'nights'")
        #expect(until == [[.text("2027-02-14T08:00:00.000Z")]])
    }
}

/// A database that forgets to confirm a commit.
private final class ForgetfulDatabase: ProjectionDatabase {
    private let base: any ProjectionDatabase
    private let isForgetting = Mutex(false)

    init(_ base: any ProjectionDatabase) { self.base = base }

    var dialect: SQLDialect { base.dialect }
    var label: String { base.label }

    /// Loses the confirmation of the next write with a lease.
    func forgetNext() { isForgetting.withLock { $0 = true } }

    func read(_ statements: [SQLStatement]) async throws(BackendError) -> [[[SQLValue]]] {
        try await base.read(statements)
    }

    func write(_ statements: [SQLStatement], fence: ProjectionFence?) async throws(BackendError) -> Bool {
        let isWritten = try await base.write(statements, fence: fence)
        let isForgotten = isForgetting.withLock { state in
            defer { if fence != nil { state = false } }
            return state && fence != nil
        }
        guard !isForgotten else {
            throw BackendError(
                .unavailable, operation: .write, disposition: .outcomeUnknown, message: "the connection broke")
        }
        return isWritten
    }
}
