/// The tables and views of a projection.
///
/// Tables may change with each version of the server. Views end in `_v1`; a change that would break a query gets a
/// view with a new number.
package enum ProjectionSchema {
    /// The version of the tables. A database with an earlier one is upgraded, and derived again with its events.
    package static let version: Int64 = 2

    /// A table with its columns, in the order of its rows.
    struct Table: Sendable {
        let name: String
        /// The names and types of the columns.
        let columns: [(name: String, type: String)]
        /// The columns of the primary key.
        let key: String

        private var keyColumns: [String] { key.split(separator: ", ").map(String.init) }

        /// The places of the columns of the primary key in a row.
        var keyIndices: [Int] { keyColumns.compactMap { name in columns.firstIndex { $0.name == name } } }

        /// The condition for the row with the primary key `$1`, `$2` and so on.
        var keyCondition: String {
            keyColumns.enumerated().map { "\($1) = $\($0 + 1)" }.joined(separator: " AND ")
        }

        func definition(_ dialect: SQLDialect) -> String {
            let collation = dialect.isPostgreSQL ? " COLLATE \"C\"" : ""
            let columns = columns.map { column in
                "\(column.name) \(column.type.replacing("text", with: "text\(collation)"))"
            }
            return "CREATE TABLE IF NOT EXISTS \(name) (\(columns.joined(separator: ", ")), PRIMARY KEY (\(key)))"
        }

        /// Statements that insert `rows`.
        ///
        /// - Parameters:
        ///   - isReplacing: True to replace rows with the same primary key.
        ///   - update: The assignments that replace such a row; by default those of all columns.
        func insertions(
            of rows: [[SQLValue]], isReplacing: Bool = true, onConflict update: String? = nil
        ) -> [SQLStatement] {
            let names = columns.map(\.name).joined(separator: ", ")
            let update = update ?? columns.map { "\($0.name) = excluded.\($0.name)" }.joined(separator: ", ")
            let conflict = isReplacing ? " ON CONFLICT (\(key)) DO UPDATE SET \(update)" : ""
            return rows.chunks(ofAtMost: max(1, 900 / columns.count)).map { rows in
                let placeholders = (0..<rows.count).map { row in
                    let numbers = columns.indices.map { "$\(row * columns.count + $0 + 1)" }
                    return "(\(numbers.joined(separator: ", ")))"
                }
                return SQLStatement(
                    "INSERT INTO \(name) (\(names)) VALUES \(placeholders.joined(separator: ", "))\(conflict)",
                    rows.flatMap(\.self))
            }
        }
    }

    static let customers = Table(
        name: "customers",
        columns: [
            ("account", "text NOT NULL"), ("incarnation", "text NOT NULL"), ("issuer", "text"),
            ("created", "bigint NOT NULL"), ("record_version", "text NOT NULL"), ("ledger_version", "text"),
            ("server_version", "text"), ("next_change", "bigint"), ("external_id", "text"),
        ],
        key: "account")

    static let sessions = Table(
        name: "sessions",
        columns: [
            ("account", "text NOT NULL"), ("session", "text NOT NULL"), ("refreshed", "bigint NOT NULL"),
            ("incarnation", "text"),
        ],
        key: "account, session")

    static let aliases = Table(
        name: "aliases", columns: [("alias", "text NOT NULL"), ("account", "text NOT NULL")],
        key: "alias")

    static let purchases = Table(
        name: "purchases",
        columns: [
            ("account", "text NOT NULL"), ("store", "text NOT NULL"), ("environment", "text NOT NULL"),
            ("transaction_id", "text NOT NULL"), ("original_id", "text NOT NULL"), ("product", "text NOT NULL"),
            ("product_group", "text"), ("purchased", "bigint NOT NULL"), ("expires", "bigint"),
            ("quantity", "bigint NOT NULL"), ("revoked", "bigint"), ("origin", "text NOT NULL"),
            ("set_aside", "text"), ("transferred_to", "text"),
        ],
        key: "account, store, environment, transaction_id")

    static let periods = Table(
        name: "periods",
        columns: [
            ("account", "text NOT NULL"), ("environment", "text NOT NULL"), ("product_group", "text NOT NULL"),
            ("position", "bigint NOT NULL"), ("starts", "bigint NOT NULL"), ("ends", "bigint"),
            ("source", "text NOT NULL"), ("store", "text"), ("transaction_id", "text"), ("product", "text"),
            ("level", "bigint"), ("revoked", "bigint"),
        ],
        key: "account, environment, product_group, position")

    static let subscriptions = Table(
        name: "subscriptions",
        columns: [
            ("account", "text NOT NULL"), ("environment", "text NOT NULL"), ("product_group", "text NOT NULL"),
            ("active", "bigint NOT NULL"), ("product", "text"), ("expires", "bigint"), ("announced", "bigint"),
        ],
        key: "account, environment, product_group")

    static let entitlements = Table(
        name: "entitlements",
        columns: [
            ("account", "text NOT NULL"), ("environment", "text NOT NULL"), ("entitlement", "text NOT NULL"),
            ("granted", "bigint NOT NULL"), ("since", "bigint"), ("until", "bigint"), ("source", "text"),
            ("units", "bigint"), ("reason", "text"),
        ],
        key: "account, environment, entitlement")

    /// The audit list. `date` is in milliseconds since 1970 UTC.
    static let acts = Table(
        name: "acts",
        columns: [
            ("number", "bigint NOT NULL"), ("account", "text NOT NULL"), ("date", "bigint"), ("act", "text NOT NULL"),
            ("line", "text NOT NULL"), ("actor", "text NOT NULL"), ("detail", "text NOT NULL"), ("reason", "text"),
        ],
        key: "number")

    /// Counts by product and day, see ``ProjectionStatistics``. `day` is the number of days since 1970 UTC.
    static let statistics = Table(
        name: "statistics",
        columns: [
            ("environment", "text NOT NULL"), ("measure", "text NOT NULL"), ("product", "text NOT NULL"),
            ("day", "bigint NOT NULL"), ("count", "bigint NOT NULL"),
        ],
        key: "environment, measure, product, day")

    static let events = Table(
        name: "events",
        columns: [
            ("id", "bigint NOT NULL"), ("account", "text NOT NULL"), ("environment", "text"),
            ("kind", "text NOT NULL"), ("at", "bigint NOT NULL"), ("body", "text NOT NULL"),
        ],
        key: "id")

    /// The tables whose rows belong to an account, and are replaced together.
    static let ofAccounts = [customers, purchases, periods, subscriptions, entitlements]

    /// The tables whose rows follow from the store.
    static let derived = ofAccounts + [sessions, aliases, acts, statistics]

    // Names, aliases and external ids are found by prefix, because texts compare as bytes. The rows of `statistics` are
    // few, and those that became 0 are found by an index of their own.
    private static let indices = [
        "customers_next ON customers (next_change)", "aliases_account ON aliases (account)",
        "acts_account ON acts (account, number)", "statistics_zero ON statistics (count) WHERE count = 0",
        "purchases_transaction ON purchases (transaction_id)", "purchases_original ON purchases (original_id)",
        "purchases_product ON purchases (product, purchased)", "purchases_revoked ON purchases (revoked)",
        "subscriptions_expires ON subscriptions (product_group, expires)",
        "entitlements_until ON entitlements (entitlement, granted, until)", "events_account ON events (account, id)",
    ]

    private static let uniqueIndex = "CREATE UNIQUE INDEX IF NOT EXISTS customers_external ON customers (external_id)"

    /// The statements that create the tables.
    static func creation(_ dialect: SQLDialect) -> [SQLStatement] {
        let state = """
            CREATE TABLE IF NOT EXISTS state (
                id bigint PRIMARY KEY CHECK (id = 0), version bigint NOT NULL, epoch bigint NOT NULL,
                step bigint NOT NULL, position text, rebuilt_after text, catalogue text, next_catalogue text,
                last_event bigint NOT NULL, instant bigint NOT NULL, projected bigint, rebuilt bigint, views text)
            """
        var statements = preparation(dialect) + [SQLStatement(state)]
        statements += (derived + [events]).map { SQLStatement($0.definition(dialect)) }
        statements += indices.map { SQLStatement("CREATE INDEX IF NOT EXISTS \($0)") } + [SQLStatement(uniqueIndex)]
        statements += WebhookSchema.creation(dialect)
        statements.append(
            SQLStatement(
                """
                INSERT INTO state (id, version, epoch, step, last_event, instant) VALUES (0, $1, 0, 0, 0, 0)
                ON CONFLICT DO NOTHING
                """, [.integer(version)]))
        return statements
    }

    /// The statements before all definitions.
    private static func preparation(_ dialect: SQLDialect) -> [SQLStatement] {
        guard case .postgreSQL(let schema) = dialect else { return [] }
        // Of servers that start together, one creates.
        return [
            SQLStatement("SELECT pg_advisory_xact_lock(hashtext('projection ' || $1))", [.text(schema)]),
            SQLStatement("CREATE SCHEMA IF NOT EXISTS \(schema)"),
        ]
    }

    /// The statements that bring the tables of an earlier version up to date. All rows stay, so the rebuild that
    /// follows gives the events of what has changed in the meantime. The epoch ends, which stops an earlier server.
    /// Of two servers that upgrade together, the statements of one fail, and it then finds the new version.
    static func upgrade(from former: Int64, _ dialect: SQLDialect) -> [SQLStatement] {
        let text = dialect.isPostgreSQL ? "text COLLATE \"C\"" : "text"
        // The columns that each version adds to the tables of the version before.
        let additions: [[String]] = [
            [
                "customers ADD COLUMN external_id \(text)", "sessions ADD COLUMN incarnation \(text)",
                "state ADD COLUMN rebuilt bigint", "state ADD COLUMN views text",
            ]
        ]
        let added = additions.dropFirst(max(0, Int(former) - 1)).flatMap(\.self)
        return preparation(dialect) + added.map { SQLStatement("ALTER TABLE \($0)") } + creation(dialect) + [
            SQLStatement(
                """
                UPDATE state SET version = $1, epoch = epoch + 1, rebuilt_after = '', next_catalogue = NULL
                WHERE id = 0
                """, [.integer(version)])
        ] + ProjectionStatistics.recount
    }

    /// The query whose row counts the table `state`.
    static func presence(_ dialect: SQLDialect) -> SQLStatement {
        switch dialect {
        case .sqlite: SQLStatement("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'state'")
        case .postgreSQL(let schema):
            SQLStatement(
                "SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = $1 AND tablename = 'state'",
                [.text(schema)])
        }
    }
}

extension Array {
    /// The elements in arrays of `count`; the last one may be shorter.
    func chunks(ofAtMost count: Int) -> [ArraySlice<Element>] {
        stride(from: 0, to: self.count, by: count).map { self[$0..<Swift.min($0 + count, self.count)] }
    }
}
