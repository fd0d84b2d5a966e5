/// The documented views of a projection, with instants as PostgreSQL's `timestamptz`, or as RFC 3339 in SQLite.
enum ProjectionViews {
    /// The columns of each view: `name`, `name as expression`, `@name` for an instant, `?name` for a Boolean value.
    private static let views: [(name: String, columns: [String], from: String)] = [
        (
            "customers_v1",
            [
                "account", "issuer", "@created",
                "sessions as (SELECT count(*) FROM sessions s WHERE s.account = t.account)",
                "@last_seen as (SELECT max(s.refreshed) FROM sessions s WHERE s.account = t.account)",
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
    ]

    static let removal = views.map { SQLStatement("DROP VIEW IF EXISTS \($0.name)") }

    static func creation(_ dialect: SQLDialect) -> [SQLStatement] {
        views.map { view in
            let columns = view.columns.map { column(String($0), dialect) }.joined(separator: ", ")
            return SQLStatement("CREATE VIEW \(view.name) AS SELECT \(columns) FROM \(view.from)")
        }
    }

    private static func column(_ text: String, _ dialect: SQLDialect) -> String {
        let kind = text.first.flatMap { "@?".contains($0) ? $0 : nil }
        let parts = text.drop { "@?".contains($0) }.split(separator: " as ", maxSplits: 1).map(String.init)
        let (name, value) = (parts[0], parts.count > 1 ? parts[1] : "t.\(parts[0])")
        let expression =
            switch (kind, dialect.isPostgreSQL) {
            case ("@", true): "to_timestamp(\(value) / 1000.0)"
            case ("@", false): "strftime('%Y-%m-%dT%H:%M:%fZ', \(value) / 1000.0, 'unixepoch')"
            case ("?", true): "\(value) = 1"
            default: value
            }
        return "\(expression) AS \(name)"
    }
}
