import EntitlementSync
import Entitlements
import SyncCore

/// The rows of a projection in its database.
package struct ProjectionTables: Sendable {
    package let database: any ProjectionDatabase

    package init(_ database: any ProjectionDatabase) { self.database = database }

    /// The state of the projection.
    struct State: Hashable, Sendable {
        var fence: ProjectionFence
        /// The position in the store's changes up to which the rows are complete, as text; `nil` if a rebuild is due.
        var position: String?
        /// The progress of a rebuild; `nil` if none is under way.
        var rebuild: RebuildPosition?
        /// The number of accounts that the latest rebuild has derived.
        var rebuilt: Int64 = 0
        /// The digest of the catalogue with which the rows were derived; `nil` before the first rebuild has ended.
        var catalogue: String?
        /// The digest of the catalogue of the rebuild that is under way.
        var nextCatalogue: String?
        var lastEvent: Int64
        /// The latest instant for which rows were derived, in milliseconds since 1970 UTC. A server whose clock is
        /// behind derives for this instant.
        var instant: Int64
        /// The time by the projecting server's clock at which the rows had all changes of the store, in milliseconds
        /// since 1970 UTC. During the first rebuild the time of its beginning; `nil` before.
        var projected: Int64?
    }

    /// Creates the tables and views, or upgrades those of an earlier version, and reads the state. Views that were
    /// altered or deleted are created again.
    ///
    /// - Parameter onError: Receives the error of views that cannot be created. The projection works without them.
    /// - Throws: `BackendError.Kind.newerFormat` if a later version has written the database.
    func open(onError: (BackendError) -> Void) async throws(BackendError) -> State {
        let isPresent = try await database.read([ProjectionSchema.presence(database.dialect)])[0][0][0] != .integer(0)
        if !isPresent { _ = try await database.write(ProjectionSchema.creation(database.dialect), fence: nil) }
        let version = try await rows("SELECT version FROM state WHERE id = 0").first?[0].integer ?? 0
        try check(version)
        if version < ProjectionSchema.version {
            _ = try await database.write(ProjectionSchema.upgrade(from: version, database.dialect), fence: nil)
        }
        do throws(BackendError) { try await repairViews() } catch {
            guard error.disposition == .permanent else { throw error }
            onError(error)
        }
        return try await state()
    }

    private func check(_ version: Int64) throws(BackendError) {
        guard version <= ProjectionSchema.version else {
            throw BackendError(
                .newerFormat, operation: .open,
                message: "\(database.label): a later version of the server has written this projection; update this "
                    + "server, or give it another database")
        }
    }

    /// Creates the views again unless they are as they were created.
    private func repairViews() async throws(BackendError) {
        let dialect = database.dialect
        let row = try await rows("SELECT views, (\(ProjectionViews.definitions(dialect))) FROM state WHERE id = 0")[0]
        guard row[0] == .null || row[0] != row[1] else { return }
        let creation = ProjectionViews.creation(dialect)
        do throws(BackendError) { _ = try await database.write(creation, fence: nil) } catch {
            guard error.disposition == .permanent else { throw error }
            // PostgreSQL replaces no view that has other columns.
            do throws(BackendError) {
                _ = try await database.write(ProjectionViews.removal + creation, fence: nil)
            } catch {
                throw BackendError(
                    .other, operation: .open,
                    message: "\(database.label): a documented view was altered and cannot be created again; drop what "
                        + "has its name or depends on it", cause: error)
            }
        }
    }

    /// - Throws: `BackendError.Kind.newerFormat` if a later version has upgraded the database.
    func state() async throws(BackendError) -> State {
        let rows = try await rows(
            """
            SELECT epoch, step, position, rebuilt_after, catalogue, next_catalogue, last_event, instant,
                projected, rebuilt, version
            FROM state WHERE id = 0
            """)
        guard let row = rows.first, let epoch = row[0].integer, let step = row[1].integer,
            let last = row[6].integer, let instant = row[7].integer
        else {
            throw BackendError(
                .damaged, operation: .read, message: "\(database.label): the table state has no row; delete the tables")
        }
        try check(row[10].integer ?? 0)
        return State(
            fence: ProjectionFence(epoch: epoch, step: step), position: row[2].text,
            rebuild: row[3].text.map { RebuildPosition(text: $0) }, rebuilt: row[9].integer ?? 0,
            catalogue: row[4].text, nextCatalogue: row[5].text, lastEvent: last, instant: instant,
            projected: row[8].integer)
    }

    func rows(_ sql: String, _ values: [SQLValue] = []) async throws(BackendError) -> [[SQLValue]] {
        try await database.read([SQLStatement(sql, values)])[0]
    }

    /// Begins an epoch. Transactions of earlier ones fail from now on.
    ///
    /// - Returns: `false` if a later one has begun.
    func begin(epoch: Int64) async throws(BackendError) -> Bool {
        let begun = SQLStatement("UPDATE state SET epoch = $1 WHERE id = 0 AND epoch < $1", [.integer(epoch)])
        _ = try await database.write([begun], fence: nil)
        return try await state().fence.epoch == epoch
    }

    /// Asks the server that projects to derive all rows again. Its current epoch ends, so that no transaction under way
    /// can overwrite the request.
    func requestRebuild() async throws(BackendError) {
        let request =
            "UPDATE state SET epoch = epoch + 1, rebuilt_after = '', rebuilt = 0, next_catalogue = NULL WHERE id = 0"
        _ = try await database.write([SQLStatement(request)], fence: nil)
    }

    /// The number of accounts that have rows.
    func customerCount() async throws(BackendError) -> Int {
        Int(try await rows("SELECT count(*) FROM customers")[0][0].integer ?? 0)
    }

    /// The names of accounts that have rows, in ascending order of their bytes.
    func customers(after name: String, limit: Int) async throws(BackendError) -> [String] {
        try await rows(
            "SELECT account FROM customers WHERE account > $1 ORDER BY account LIMIT $2",
            [.text(name), .integer(Int64(limit))]
        ).compactMap { $0[0].text }
    }

    /// The statement that records the progress of a transaction.
    static func progress(_ state: State) -> SQLStatement {
        SQLStatement(
            """
            UPDATE state SET position = $1, rebuilt_after = $2, catalogue = $3, next_catalogue = $4, last_event = $5,
                instant = $6, projected = $7, rebuilt = $8
            WHERE id = 0
            """,
            [
                SQLValue(state.position), SQLValue(state.rebuild?.text), SQLValue(state.catalogue),
                SQLValue(state.nextCatalogue), .integer(state.lastEvent), .integer(state.instant),
                SQLValue(state.projected), .integer(state.rebuilt),
            ])
    }

    // MARK: records

    /// The keys of the records from which the rows of a table follow, in the order of the rows.
    func keys(_ table: RecordTable, after key: EntryKey?, limit: Int) async throws(BackendError) -> [EntryKey] {
        let columns = table.table.key
        let former = key.flatMap(table.identity) ?? []
        let numbers = former.indices.map { "$\($0 + 2)" }.joined(separator: ", ")
        let rows = try await rows(
            "SELECT \(columns) FROM \(table.table.name)\(former.isEmpty ? "" : " WHERE (\(columns)) > (\(numbers))") "
                + "ORDER BY \(columns) LIMIT $1", [.integer(Int64(limit))] + former)
        var keys: [EntryKey] = []
        for row in rows { keys.append(try table.key(of: row)) }
        return keys
    }

    /// The names of the accounts whose rows have one of these external ids.
    func holders(ofExternalIDs ids: [String]) async throws(BackendError) -> [String] {
        guard !ids.isEmpty else { return [] }
        let placeholders = ids.indices.map { "$\($0 + 1)" }.joined(separator: ", ")
        return try await rows(
            "SELECT account FROM customers WHERE external_id IN (\(placeholders))", ids.map(SQLValue.text)
        ).compactMap { $0[0].text }
    }

    // MARK: accounts

    /// The rows of accounts by the bytes of the name: names that look alike may differ.
    func accounts(_ names: [String]) async throws(BackendError) -> [[UInt8]: ProjectedAccount] {
        guard !names.isEmpty else { return [:] }
        let placeholders = names.indices.map { "$\($0 + 1)" }.joined(separator: ", ")
        let tables = [
            ProjectionSchema.customers, ProjectionSchema.purchases, ProjectionSchema.subscriptions,
            ProjectionSchema.entitlements, ProjectionSchema.periods,
        ]
        let statements = tables.map { table in
            let columns = table.columns.map(\.name).joined(separator: ", ")
            // In the order of a replay, so that equal states of an account give equal texts in events.
            return SQLStatement(
                "SELECT \(columns) FROM \(table.name) WHERE account IN (\(placeholders)) ORDER BY \(table.key)",
                names.map(SQLValue.text))
        }
        let rows = try await database.read(statements)
        var accounts: [[UInt8]: ProjectedAccount] = [:]
        func key(_ row: [SQLValue]) -> [UInt8] { Array((row[0].text ?? "").utf8) }
        for row in rows[0] {
            guard let account = ProjectedAccount(customer: row) else { throw damaged("customers") }
            accounts[key(row)] = account
        }
        for row in rows[1] { accounts[key(row)]?.purchases.append(try purchase(row)) }
        for row in rows[2] { accounts[key(row)]?.subscriptions.append(try subscription(row)) }
        for row in rows[3] { accounts[key(row)]?.access.append(try access(row)) }
        for row in rows[4] { accounts[key(row)]?.storedPeriods.append(row) }
        return accounts
    }

    private func damaged(_ table: String) -> BackendError {
        BackendError(
            .damaged, operation: .read,
            message: "\(database.label): a row of \(table) cannot be read; run: syncd store reindex")
    }

    private func purchase(_ row: [SQLValue]) throws(BackendError) -> ProjectedAccount.Purchase {
        guard let store = row[1].text, let environment = row[2].text, let id = row[3].text, let original = row[4].text,
            let product = row[5].text, let purchased = row[7].integer, let quantity = row[9].integer,
            let origin = row[11].text
        else { throw damaged("purchases") }
        return ProjectedAccount.Purchase(
            transaction: TransactionReference(
                store: StoreID(store), environment: EnvironmentID(environment), id: TransactionID(id)),
            original: original, product: product, group: row[6].text, purchased: purchased, expires: row[8].integer,
            quantity: quantity, revoked: row[10].integer, origin: origin, setAside: row[12].text,
            transferredTo: row[13].text)
    }

    private func subscription(_ row: [SQLValue]) throws(BackendError) -> ProjectedAccount.Subscription {
        guard let environment = row[1].text, let group = row[2].text, let isActive = row[3].integer else {
            throw damaged("subscriptions")
        }
        return ProjectedAccount.Subscription(
            environment: environment, group: group, isActive: isActive == 1, product: row[4].text,
            expires: row[5].integer, announced: row[6].integer)
    }

    private func access(_ row: [SQLValue]) throws(BackendError) -> ProjectedAccount.Access {
        guard let environment = row[1].text, let entitlement = row[2].text, let isGranted = row[3].integer else {
            throw damaged("entitlements")
        }
        return ProjectedAccount.Access(
            environment: environment, entitlement: entitlement, isGranted: isGranted == 1, since: row[4].integer,
            until: row[5].integer, source: row[6].text, units: row[7].integer, reason: row[8].text)
    }

    /// The accounts whose rows change with time at or before `instant`, the most overdue first.
    func due(at instant: Int64, limit: Int) async throws(BackendError) -> [String] {
        try await rows(
            "SELECT account FROM customers WHERE next_change <= $1 ORDER BY next_change, account LIMIT $2",
            [.integer(instant), .integer(Int64(limit))]
        ).compactMap { $0[0].text }
    }

    /// The statements by which accounts that are due, but cannot be derived, are due again an hour after `instant`.
    static func postponement(of accounts: [String], from instant: Int64) -> [SQLStatement] {
        accounts.map { account in
            SQLStatement(
                "UPDATE customers SET next_change = $2 WHERE account = $1 AND next_change < $2",
                [.text(account), .integer(instant + 3_600_000)])
        }
    }

    /// The statements that replace the rows of accounts, as far as they differ.
    static func replacement(_ changes: [AccountChange]) -> [SQLStatement] {
        let removed = changes.filter { $0.before != nil && $0.after == nil }.map { SQLValue.text($0.name) }
        var statements: [SQLStatement] = []
        if !removed.isEmpty {
            let placeholders = removed.indices.map { "$\($0 + 1)" }.joined(separator: ", ")
            statements = ProjectionSchema.ofAccounts.map {
                SQLStatement("DELETE FROM \($0.name) WHERE account IN (\(placeholders))", removed)
            }
        }
        for change in changes {
            // The store keeps the sessions of an account that was erased until they end.
            if let before = change.before, before.incarnation != change.after?.incarnation {
                statements.append(
                    SQLStatement(
                        "DELETE FROM sessions WHERE account = $1 AND incarnation = $2",
                        [.text(change.name), .text(before.incarnation)]))
            }
            // Another row may still have the id, because the accounts were read one after another.
            if let id = change.after?.externalID, id != change.before?.externalID {
                statements.append(
                    SQLStatement("UPDATE customers SET external_id = NULL WHERE external_id = $1", [.text(id)]))
            }
        }
        for table in ProjectionSchema.ofAccounts {
            let (keys, condition) = (table.keyIndices, table.keyCondition)
            var changed: [[SQLValue]] = []
            for change in changes {
                guard let after = change.after?.rows(of: table) else { continue }
                let before = Set(change.before?.rows(of: table) ?? [])
                changed += before.isEmpty ? after : after.filter { !before.contains($0) }
                let known = before.isEmpty ? [] : Set(after.map { row in keys.map { row[$0] } })
                for key in before.map({ row in keys.map { row[$0] } }) where !known.contains(key) {
                    statements.append(SQLStatement("DELETE FROM \(table.name) WHERE \(condition)", key))
                }
            }
            statements += table.insertions(of: changed)
        }
        return statements
    }

    /// The statements that append events, and set their ids in `state`.
    static func append(
        _ events: [ProjectionEvent], _ state: inout State, _ dialect: SQLDialect
    ) -> [SQLStatement] {
        guard !events.isEmpty else { return [] }
        let rows: [[SQLValue]] = events.map { event in
            state.lastEvent += 1
            return [
                .integer(state.lastEvent), .text(event.account), SQLValue(event.environment),
                .text(event.kind.rawValue), .integer(event.at), .text(event.body.line),
            ]
        }
        var statements = ProjectionSchema.events.insertions(of: rows, isReplacing: false)
        if case .postgreSQL(let schema) = dialect {
            statements.append(SQLStatement("SELECT pg_notify($1, $2)", [.text(schema), .text("\(state.lastEvent)")]))
        }
        return statements
    }
}

extension ProjectedAccount {
    fileprivate init?(customer row: [SQLValue]) {
        guard let name = row[0].text, let incarnation = row[1].text, let created = row[3].integer,
            let record = row[4].text
        else { return nil }
        (self.name, self.incarnation, issuer) = (name, incarnation, row[2].text)
        self.created = created
        versions = Versions(record: record, ledger: row[5].text, serverLedger: row[6].text)
        (nextChange, externalID) = (row[7].integer, row[8].text)
    }

    /// The rows of a table, in any order.
    fileprivate func rows(of table: ProjectionSchema.Table) -> [[SQLValue]] {
        switch table.name {
        case ProjectionSchema.customers.name: [customerRow]
        case ProjectionSchema.purchases.name: purchaseRows
        case ProjectionSchema.periods.name: periodRows
        case ProjectionSchema.subscriptions.name: subscriptionRows
        default: accessRows
        }
    }

    private var customerRow: [SQLValue] {
        [
            .text(name), .text(incarnation), SQLValue(issuer), .integer(created), .text(versions.record),
            SQLValue(versions.ledger), SQLValue(versions.serverLedger), SQLValue(nextChange), SQLValue(externalID),
        ]
    }

    private var purchaseRows: [[SQLValue]] {
        purchases.map { purchase in
            let transaction = purchase.transaction
            return [
                .text(name), .text(transaction.store.rawValue), .text(transaction.environment.rawValue),
                .text(transaction.id.rawValue), .text(purchase.original), .text(purchase.product),
                SQLValue(purchase.group), .integer(purchase.purchased), SQLValue(purchase.expires),
                .integer(purchase.quantity), SQLValue(purchase.revoked), .text(purchase.origin),
                SQLValue(purchase.setAside), SQLValue(purchase.transferredTo),
            ]
        }
    }

    private var periodRows: [[SQLValue]] {
        storedPeriods
            + periods.map { row in
                let period = row.period
                let source =
                    switch period.origin {
                    case .purchase: "purchase"
                    case .grace: "grace"
                    case .assertion(let reference): reference.source.rawValue
                    }
                return [
                    .text(name), .text(row.environment), .text(row.group), .integer(row.position),
                    .integer(period.start.milliseconds), SQLValue(period.end.asEnd?.milliseconds), .text(source),
                    SQLValue(period.transaction?.store.rawValue), SQLValue(period.transaction?.id.rawValue),
                    SQLValue(period.product?.rawValue), SQLValue(period.level),
                    SQLValue(period.revokedAt?.milliseconds),
                ]
            }
    }

    private var subscriptionRows: [[SQLValue]] {
        subscriptions.map { row in
            [
                .text(name), .text(row.environment), .text(row.group), SQLValue(row.isActive), SQLValue(row.product),
                SQLValue(row.expires), SQLValue(row.announced),
            ]
        }
    }

    private var accessRows: [[SQLValue]] {
        access.map { row in
            [
                .text(name), .text(row.environment), .text(row.entitlement), SQLValue(row.isGranted),
                SQLValue(row.since), SQLValue(row.until), SQLValue(row.source), SQLValue(row.units),
                SQLValue(row.reason),
            ]
        }
    }
}
