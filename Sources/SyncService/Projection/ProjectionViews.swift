/// The documented views of a projection, with instants as PostgreSQL's `timestamptz`, or as RFC 3339 in SQLite.
enum ProjectionViews {
    /// The columns of each view: `name`, `name as expression`, `@name` for an instant, `?name` for a Boolean value, `#name`
    /// for a day. New columns come last, because PostgreSQL replaces a view only by one that begins like it.
    private static let views: [(name: String, columns: [String], from: String)] = [
        (
            "customers_v1",
            [
                "account", "issuer", "@created",
                "sessions as (SELECT count(*) FROM sessions s WHERE s.account = t.account)",
                "@last_seen as (SELECT max(s.refreshed) FROM sessions s WHERE s.account = t.account)", "external_id",
            ], "customers t"
        ),
        ("aliases_v1", ["alias", "account"], "aliases t"),
        (
            "purchases_v1",
            [
                "account", "store", "environment", "transaction_id", "original_id", "product", "product_group",
                "@purchased", "@expires", "quantity", "@revoked", "origin", "set_aside", "transferred_to",
            ], "purchases t"
        ),
        (
            "periods_v1",
            [
                "account", "environment", "product_group", "@starts", "@ends", "source", "store", "transaction_id",
                "product", "level", "@revoked",
            ], "periods t"
        ),
        (
            "subscriptions_v1", ["account", "environment", "product_group", "?active", "product", "@expires"],
            "subscriptions t"
        ),
        (
            "entitlements_v1",
            [
                "account", "environment", "entitlement", "?granted", "@since", "@until", "source", "units", "reason",
            ], "entitlements t"
        ),
        ("events_v1", ["id", "account", "environment", "kind", "@at", "body"], "events t"),
        ("acts_v1", ["number", "account", "@date", "act", "line", "actor", "detail", "reason"], "acts t"),
        (
            "statistics_v1",
            ["environment", "measure", "product", "#day", "count"],
            "statistics t"
        ),
    ]

    private static let names = views.map { "'\($0.name)'" }.joined(separator: ", ")

    /// The statements that create the views, or replace them by equal ones, which keeps the rights on them.
    static func creation(_ dialect: SQLDialect) -> [SQLStatement] {
        let create = dialect.isPostgreSQL ? "CREATE OR REPLACE VIEW" : "CREATE VIEW"
        let creation = views.map { view in
            let columns = view.columns.map { column(String($0), dialect) }.joined(separator: ", ")
            return SQLStatement("\(create) \(view.name) AS SELECT \(columns) FROM \(view.from)")
        }
        let record = SQLStatement("UPDATE state SET views = (\(definitions(dialect))) WHERE id = 0")
        return (dialect.isPostgreSQL ? [] : removal) + creation + [record]
    }

    /// The statements that delete the views. In PostgreSQL the rights on them go as well.
    static let removal = views.map { SQLStatement("DROP VIEW IF EXISTS \($0.name)") }

    /// The query for the definitions that the database has now. They are compared with those after the last creation,
    /// because PostgreSQL words them in its own way.
    static func definitions(_ dialect: SQLDialect) -> String {
        switch dialect {
        case .sqlite:
            """
            SELECT group_concat(sql, ';') FROM
                (SELECT sql FROM sqlite_master WHERE type = 'view' AND name IN (\(names)) ORDER BY name)
            """
        case .postgreSQL(let schema):
            """
            SELECT md5(string_agg(c.relname || pg_catalog.pg_get_viewdef(c.oid), ';' ORDER BY c.relname))
            FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = '\(schema)' AND c.relkind = 'v' AND c.relname IN (\(names))
            """
        }
    }

    private static func column(_ text: String, _ dialect: SQLDialect) -> String {
        let kind = text.first.flatMap { "@?#".contains($0) ? $0 : nil }
        let parts = text.drop { "@?#".contains($0) }.split(separator: " as ", maxSplits: 1).map(String.init)
        let (name, value) = (parts[0], parts.count > 1 ? parts[1] : "t.\(parts[0])")
        let expression =
            switch (kind, dialect.isPostgreSQL) {
            case ("@", true): "to_timestamp(\(value) / 1000.0)"
            case ("@", false): "strftime('%Y-%m-%dT%H:%M:%fZ', \(value) / 1000.0, 'unixepoch')"
            case ("?", true): "\(value) = 1"
            case ("#", true): "DATE '1970-01-01' + \(value)::int"
            case ("#", false): "date(\(value) * 86400, 'unixepoch')"
            default: value
            }
        return "\(expression) AS \(name)"
    }
}
