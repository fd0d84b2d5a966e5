import Entitlements
import ProjectionStorage
import SyncCore
import SyncProtocol
import SyncService
import SyncSimulation

/// Checks the rows and the events of the projection after each transaction, and who has written it. Single-threaded.
final class ProjectionAudit: @unchecked Sendable {
    private unowned let world: ServiceWorld
    private let database: MemoryProjection
    private var state = State()
    /// The process that began the epoch.
    private var owner: ProjectionWriter?
    private var views: [String: ProjectedView] = [:]
    /// The lease in the store, as it was seen last, and the time.
    private var lease: (holder: String?, epoch: Int64?, renewals: Int64?, at: Int64)?

    static let leaseKey = "server/projector"
    /// The time without a renewal after which another server takes the lease over, in microseconds.
    private static let term: Int64 = 15_000_000

    /// The row of the table `state`.
    private struct State {
        var (epoch, step, lastEvent, instant) = (Int64(0), Int64(0), Int64(0), Int64(0))
        var (position, rebuiltAfter, catalogue): (String?, String?, String?) = (nil, nil, nil)
    }

    init(_ database: MemoryProjection, world: ServiceWorld) { (self.database, self.world) = (database, world) }

    private func report(_ message: String, lane: Int? = nil) { world.report(.projection, message, lane: lane) }

    private func rows(_ statements: [SQLStatement], of database: MemoryProjection? = nil) -> [[[SQLValue]]] {
        do throws(BackendError) { return try (database ?? self.database).readNow(statements) } catch {
            report("the rows cannot be read: \(error)")
            return statements.map { _ in [] }
        }
    }

    private func readState() -> State {
        let query = SQLStatement(
            "SELECT epoch, step, last_event, instant, position, rebuilt_after, catalogue FROM state WHERE id = 0")
        guard let row = rows([query])[0].first else { return State() }
        var state = State()
        (state.epoch, state.step) = (row[0].count ?? 0, row[1].count ?? 0)
        (state.lastEvent, state.instant) = (row[2].count ?? 0, row[3].count ?? 0)
        func text(_ value: SQLValue) -> String? { value == .null ? nil : value.words }
        (state.position, state.rebuiltAfter, state.catalogue) = (text(row[4]), text(row[5]), text(row[6]))
        return state
    }

    // MARK: transactions

    func didCommit(_ statements: [SQLStatement], _ fence: ProjectionFence?, by writer: ProjectionWriter) {
        let (before, after) = (state, readState())
        state = after
        checkWriter(before, after, fence, writer)
        if before.rebuiltAfter == nil, after.rebuiltAfter != nil, before.position != nil, fence != nil {
            // The same transaction takes a later position if the cursor has expired.
            world.reach(before.position == after.position ? .projectionRebuilt : .projectionCursorExpired)
        }
        world.projection?.receiver.noteStart()
        let query = SQLStatement(
            "SELECT id, account, environment, kind, body FROM events WHERE id > \(before.lastEvent) ORDER BY id")
        // A transaction that only records progress has one statement.
        guard statements.count > 1 else {
            if before.lastEvent != after.lastEvent { report("events without rows", lane: writer.lane) }
            return
        }
        let read = rows(ProjectedView.queries + [query])
        let (former, events) = (views, read[read.count - 1])
        views = ProjectedView.views(read)
        if fence == nil || before.step == after.step, views != former {
            report("rows were written without the lease", lane: writer.lane)
        }
        check(events, from: former, before, after, writer.lane)
    }

    /// Only the process that began the epoch writes, each time from the latest step.
    private func checkWriter(
        _ before: State, _ after: State, _ fence: ProjectionFence?, _ writer: ProjectionWriter
    ) {
        if after.epoch != before.epoch {
            if after.epoch < before.epoch { report("the epoch \(before.epoch) is followed by \(after.epoch)") }
            if let owner, owner != writer { world.reach(.projectionTakenOver) }
            owner = writer
        } else if fence != nil, owner != writer {
            report("a process wrote the projection after it had lost the lease", lane: writer.lane)
        }
        // A transaction about webhooks leaves the step.
        guard let fence else { return }
        let isNext = after.step == before.step || (fence.step == before.step && after.step == before.step + 1)
        if fence.epoch != after.epoch || !isNext {
            report("a transaction of step \(fence) followed step \(before.step)", lane: writer.lane)
        }
    }

    private func check(
        _ events: [[SQLValue]], from former: [String: ProjectedView], _ before: State, _ after: State, _ lane: Int
    ) {
        let ids = events.map { $0[0].count ?? 0 }
        if ids != Array(before.lastEvent..<after.lastEvent).map({ $0 + 1 }) {
            report("the events have the ids \(ids) after \(before.lastEvent) and up to \(after.lastEvent)", lane: lane)
        }
        var told: [String: [String]] = [:]
        for event in events {
            let (account, kind) = (event[1].words, event[3].words)
            let body = (try? JSON(parsing: Array(event[4].words.utf8))) ?? .null
            told[account, default: []].append(Self.text(kind, body, event[2].words))
            checkBody(body, kind, account, former[account], views[account], lane)
            reach(kind)
        }
        for account in Set(former.keys).union(views.keys).union(told.keys).sorted() {
            let expected = ProjectedView.events(from: former[account], to: views[account])
            let events = told[account] ?? []
            // The first derivation of an account gives no events, because no reader has seen a state before.
            let isFirst = before.catalogue == nil && events.isEmpty
            if !isFirst, events.sorted() != expected.sorted() {
                report("the events of \(account) are \(events) instead of \(expected.sorted())", lane: lane)
            }
            let lives = events.filter { $0.hasPrefix("account.") }
            if !events.starts(with: lives) { report("the events of \(account) have the order \(events)", lane: lane) }
            if lives.count == 2 { world.reach(.lifeReplacedInRows) }
        }
        if !events.isEmpty {
            let words = told.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value.joined(separator: ", "))" }
            world.recorder.record(lane, .other, Int(after.lastEvent), .note(words.joined(separator: "; ")))
        }
    }

    /// The event as `kind subject`.
    private static func text(_ kind: String, _ body: JSON, _ environment: String) -> String {
        func member(_ object: JSON?, _ name: String) -> String { object?[name]?.string ?? "?" }
        if let group = body["subscription"] {
            return "\(kind) \(member(group, "environment")) \(member(group, "group"))"
        }
        if let entitlement = body["entitlement"]?.string { return "\(kind) \(environment) \(entitlement)" }
        if let purchase = body["purchase"] ?? body["facts"]?.elements?.first {
            let isLine = kind.hasPrefix("subscription.")
            let names = ["store", "environment", isLine ? "original" : "transaction"]
            return kind + " " + names.map { member(purchase, $0) }.joined(separator: "/")
        }
        return kind
    }

    private func checkBody(
        _ body: JSON, _ kind: String, _ account: String, _ former: ProjectedView?, _ now: ProjectedView?, _ lane: Int
    ) {
        func granted(_ member: String) -> Set<String> {
            let items = (body[member]?.elements ?? []).filter { $0["granted"] == .bool(true) }
            return Set(items.map { "\($0["environment"]?.string ?? "") \($0["entitlement"]?.string ?? "")" })
        }
        let isErased = kind == "account.erased"
        let isSameLife = former?.incarnation == now?.incarnation
        let before = isErased || isSameLife ? former?.granted ?? [] : []
        guard body["type"]?.string == kind, body["account"]?.string == account,
            granted("entitlementsBefore") == before, granted("entitlements") == (isErased ? [] : now?.granted ?? [])
        else { return report("the body of \(kind) of \(account) is \(body)", lane: lane) }
    }

    private func reach(_ kind: String) {
        switch kind {
        case "subscription.expiring": world.reach(.endAnnounced)
        case "subscription.expired": world.reach(.endProjected)
        case "purchase.refunded": world.reach(.refundProjected)
        case "purchase.reinstated": world.reach(.reversalProjected)
        case "purchase.transferred": world.reach(.transferProjected)
        case "account.erased": world.reach(.erasureProjected)
        default: world.reach(.eventsProjected)
        }
    }

    // MARK: the lease

    /// Called after an operation on the lease. Its holder changes only after ``term`` without a renewal, or if the
    /// holder has given it up, and then the epoch grows.
    func didTouchLease() {
        guard let value = world.valueNow(of: Self.leaseKey), let record = try? JSON(parsing: value) else { return }
        func number(_ name: String) -> Int64? {
            if case .number(let number)? = record[name] { number } else { nil }
        }
        let seen = (holder: record["holder"]?.string, epoch: number("epoch"), renewals: number("renewals"))
        if let lease {
            if seen == (lease.holder, lease.epoch, lease.renewals) { return }
            let now = world.scheduler.now
            if let former = lease.holder, seen.holder != nil, seen.holder != former {
                world.reach(.leaseTakenOver)
                if now - lease.at < Self.term {
                    report("the lease was taken over after \(now - lease.at) microseconds")
                }
            }
            if seen.holder == nil { world.reach(.leaseReleased) }
            if seen.holder != lease.holder, seen.holder != nil, (seen.epoch ?? 0) <= (lease.epoch ?? 0) {
                report("the lease of another server has the epoch \(seen.epoch ?? 0) again")
            }
        }
        lease = (seen.holder, seen.epoch, seen.renewals, world.scheduler.now)
    }

    // MARK: rows

    /// The result of a comparison with a fresh projection of the store.
    enum Comparison {
        case equal
        case different(String)
        /// The rows lack changes of the store, for this reason.
        case behind(String)
    }

    private static let tables = [
        "SELECT * FROM customers ORDER BY account",
        "SELECT * FROM purchases ORDER BY account, store, environment, transaction_id",
        "SELECT * FROM periods ORDER BY account, environment, product_group, position",
        // A fresh projection does not know which ends were announced.
        """
        SELECT account, environment, product_group, active, product, expires FROM subscriptions
        ORDER BY account, environment, product_group
        """,
        "SELECT * FROM entitlements ORDER BY account, environment, entitlement",
        "SELECT * FROM sessions ORDER BY account, session", "SELECT * FROM aliases ORDER BY alias",
        "SELECT * FROM acts ORDER BY number",
        "SELECT * FROM statistics WHERE count != 0 ORDER BY environment, measure, product, day",
    ].map { SQLStatement($0) }

    /// Compares the rows with those of a fresh projection of the store at the same instant.
    ///
    /// - Parameter configurations: The configurations whose catalogue the rows may have.
    func compare(_ configurations: [ServiceConfiguration]) async -> Comparison {
        // No server has created the tables yet.
        let tables = "SELECT count(*) FROM sqlite_master WHERE name = 'state'"
        guard rows([SQLStatement(tables)])[0][0][0] == .integer(1) else { return .behind("there are no tables") }
        let state = readState()
        guard state.position != nil, state.rebuiltAfter == nil else { return .behind("they are being derived") }
        let isKnown = { (item: ServiceConfiguration) in GrantCheck.digest(item.catalogJSON) == state.catalogue }
        guard let configuration = configurations.first(where: isKnown), let catalog = configuration.catalog else {
            return .behind("they have another catalogue")
        }
        let due = rows([SQLStatement("SELECT account FROM customers WHERE next_change <= \(state.instant)")])[0]
        guard due.isEmpty else { return .behind("\(due[0][0].words) is due") }
        let fresh: MemoryProjection
        do throws(BackendError) {
            guard try await isCurrent(state) else { return .behind("changes are missing") }
            fresh = try MemoryProjection()
            let projector = Projector(
                SeparateLease(base: world.store, leases: MemoryBackend(host: world.auditHost(at: state.instant))),
                into: fresh, catalog: catalog, json: configuration.catalogJSON, host: world.auditHost(at: state.instant)
            ) { [unowned self] error in report("a fresh projection fails: \(error)") }
            _ = try await projector.rebuild { _, _ in }
            guard try await isCurrent(state) else { return .behind("changes came meanwhile") }
        } catch {
            return .behind("\(error)")
        }
        for (table, (mine, others)) in zip(Self.tables, zip(rows(Self.tables), rows(Self.tables, of: fresh))) {
            guard mine != others else { continue }
            let name = table.sql.split(separator: "FROM ").last?.split(separator: " ").first ?? ""
            let (missing, additional) = (others.first { !mine.contains($0) }, mine.first { !others.contains($0) })
            return .different("\(name) has \(Self.text(additional)) instead of \(Self.text(missing))")
        }
        return .equal
    }

    private static func text(_ row: [SQLValue]?) -> String {
        row.map { "(" + $0.map(\.words).joined(separator: ", ") + ")" } ?? "no row"
    }

    /// Returns `true` if the rows still have the state, and all changes of the store.
    private func isCurrent(_ state: State) async throws(BackendError) -> Bool {
        let cursor = try await world.store.latestCursor().outcome
        let now = readState()
        return state.position == (cursor.map { CursorText.text(of: $0) } ?? "start") && now.position == state.position
            && now.rebuiltAfter == nil && (now.instant, now.lastEvent) == (state.instant, state.lastEvent)
    }
}

/// A store whose lease of projectors is kept elsewhere, so that a projector of its own disturbs no other.
private struct SeparateLease: ForwardingBackend {
    let base: any KeyValueBackend
    let leases: MemoryBackend

    func forward<Outcome: Sendable>(
        _ operation: BackendError.Operation, _ key: EntryKey?,
        _ call: (any KeyValueBackend) async throws(BackendError) -> Answer<Outcome>
    ) async throws(BackendError) -> Answer<Outcome> {
        try await call(key?.text == ProjectionAudit.leaseKey ? leases : base)
    }
}
