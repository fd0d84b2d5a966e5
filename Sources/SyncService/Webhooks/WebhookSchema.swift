/// The tables of webhooks in the database of a projection.
///
/// They do not follow from the store, so a rebuild of the projection and a change of its tables leave them as they are.
enum WebhookSchema {
    /// The endpoints, each with the number of the last event that was taken from the outbox.
    static let webhooks = ProjectionSchema.Table(
        name: "webhooks",
        columns: [
            ("webhook", "text NOT NULL"), ("position", "bigint NOT NULL"), ("created", "bigint NOT NULL"),
            ("delivered", "bigint NOT NULL"), ("failed", "bigint NOT NULL"), ("failures", "bigint NOT NULL"),
            ("last_delivery", "bigint"), ("last_failure", "bigint"), ("error", "text"),
        ],
        key: "webhook")

    /// The events that are not delivered yet, and dead letters. `due` is set for the first one of an account.
    static let deliveries = ProjectionSchema.Table(
        name: "deliveries",
        columns: [
            ("webhook", "text NOT NULL"), ("event", "bigint NOT NULL"), ("account", "text NOT NULL"),
            ("attempts", "bigint NOT NULL"), ("since", "bigint"), ("due", "bigint"), ("dead", "bigint"),
            ("error", "text"),
        ],
        key: "webhook, event")

    /// The statements that create the tables.
    static func creation(_ dialect: SQLDialect) -> [SQLStatement] {
        [webhooks, deliveries].map { SQLStatement($0.definition(dialect)) }
            + [
                SQLStatement(
                    "CREATE INDEX IF NOT EXISTS deliveries_account ON deliveries (webhook, account, event)"),
                SQLStatement("CREATE INDEX IF NOT EXISTS deliveries_due ON deliveries (webhook, due)"),
            ]
    }
}
