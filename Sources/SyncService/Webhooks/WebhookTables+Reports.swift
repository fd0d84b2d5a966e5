import SyncCore

extension WebhookTables {
    /// The state of an endpoint.
    struct Report: Hashable, Sendable {
        var name: String
        var delivered: Int64
        /// The number of failed attempts.
        var failed: Int64
        /// The number of failures since the last delivery.
        var failures: Int64
        var lastDelivery: Int64?
        var lastFailure: Int64?
        var error: String?
        /// The number of events that are not delivered yet.
        var pending: Int64
        /// The number of dead letters.
        var dead: Int64
        /// The time of the oldest event that is not delivered yet.
        var oldest: Int64?
    }

    /// An event whose delivery has been given up.
    struct DeadLetter: Hashable, Sendable {
        var webhook: String
        var event: StoredEvent
        var attempts: Int64
        var died: Int64
        var error: String?
    }

    /// The longest list of dead letters.
    static let deadLetterCount = 100

    /// The states of all endpoints.
    func reports() async throws(BackendError) -> [Report] {
        let rows = try await database.read([
            SQLStatement(
                """
                SELECT webhook, delivered, failed, failures, last_delivery, last_failure, error,
                    (SELECT count(*) FROM deliveries d WHERE d.webhook = w.webhook AND d.dead IS NULL),
                    (SELECT count(*) FROM deliveries d WHERE d.webhook = w.webhook AND d.dead IS NOT NULL),
                    coalesce(
                        (SELECT e.at FROM events e WHERE e.id =
                            (SELECT min(d.event) FROM deliveries d WHERE d.webhook = w.webhook AND d.dead IS NULL)),
                        (SELECT e.at FROM events e WHERE e.id = w.position + 1))
                FROM webhooks w ORDER BY webhook
                """)
        ])[0]
        return rows.map { row in
            Report(
                name: row[0].text ?? "", delivered: row[1].integer ?? 0, failed: row[2].integer ?? 0,
                failures: row[3].integer ?? 0, lastDelivery: row[4].integer, lastFailure: row[5].integer,
                error: row[6].text, pending: row[7].integer ?? 0, dead: row[8].integer ?? 0, oldest: row[9].integer)
        }
    }

    /// The newest dead letters of all endpoints.
    func deadLetters() async throws(BackendError) -> [DeadLetter] {
        let rows = try await database.read([
            SQLStatement(
                """
                SELECT d.webhook, d.event, d.account, e.kind, e.at, d.attempts, d.dead, d.error
                FROM deliveries d JOIN events e ON e.id = d.event WHERE d.dead IS NOT NULL
                ORDER BY d.dead DESC, d.event DESC, d.webhook LIMIT \(Self.deadLetterCount)
                """)
        ])[0]
        return rows.map { row in
            DeadLetter(
                webhook: row[0].text ?? "",
                event: StoredEvent(
                    number: row[1].integer ?? 0, account: row[2].text ?? "", kind: row[3].text ?? "",
                    at: row[4].integer ?? 0, body: ""),
                attempts: row[5].integer ?? 0, died: row[6].integer ?? 0, error: row[7].text)
        }
    }

    /// Deletes events before an instant that all endpoints have received or left out.
    ///
    /// - Parameter number: The number of the last event of the call before; 0 to begin.
    /// - Returns: The number of the last event of this call; `nil` at the end, and if a later epoch has begun.
    func prune(
        before instant: Int64, after number: Int64, limit: Int, epoch: Int64
    ) async throws(BackendError) -> Int64? {
        let page = try await database.read([
            SQLStatement(
                """
                SELECT id, at FROM events WHERE id > $1 AND id <= coalesce(
                    (SELECT min(position) FROM webhooks), (SELECT last_event FROM state WHERE id = 0))
                ORDER BY id LIMIT $2
                """, [.integer(number), .integer(Int64(limit))])
        ])[0]
        let old = page.prefix { ($0[1].integer ?? .max) < instant }
        guard let last = old.last?[0].integer else { return nil }
        let deletion = """
            DELETE FROM events WHERE id > $1 AND id <= $2 AND NOT EXISTS (
                SELECT 1 FROM webhooks w JOIN deliveries d ON d.webhook = w.webhook WHERE d.event = events.id)
            """
        let statement = SQLStatement(deletion, [.integer(number), .integer(last)])
        let fence = ProjectionFence(besides: epoch)
        guard try await database.write([statement], fence: fence), old.count == limit else { return nil }
        return last
    }
}
