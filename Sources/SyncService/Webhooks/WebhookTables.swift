import SyncCore

/// The rows of webhooks in the database of a projection.
///
/// Only the server that projects records results: its transactions fail once another epoch has begun.
struct WebhookTables: Sendable {
    let database: any ProjectionDatabase

    /// The number of events that one transaction takes from the outbox.
    private static let pageCount: Int64 = 1_000
    /// The number of events of one account that are delivered before their results are recorded.
    static let laneCount = 4

    /// The position of an endpoint.
    struct Position: Hashable, Sendable {
        /// The number of the last event that was taken from the outbox.
        var taken: Int64
        var lastEvent: Int64
        /// The number of failures since the last delivery.
        var failures: Int64
        var lastDelivery: Int64
    }

    /// The results of the deliveries of one account.
    struct Outcome: Sendable {
        var account: String
        var lane: DeliveryLane
    }

    private func rows(_ sql: String, _ values: [SQLValue] = []) async throws(BackendError) -> [[SQLValue]] {
        try await database.read([SQLStatement(sql, values)])[0]
    }

    private func write(_ statements: [SQLStatement], epoch: Int64) async throws(BackendError) -> Bool {
        try await database.write(statements, fence: ProjectionFence(besides: epoch))
    }

    // MARK: endpoints

    /// Adds an endpoint that is not known. It receives the events from now on.
    ///
    /// - Returns: `false` if a later epoch has begun.
    func add(_ name: String, at now: Int64, epoch: Int64) async throws(BackendError) -> Bool {
        let added = """
            INSERT INTO webhooks (webhook, position, created, delivered, failed, failures)
            SELECT $1, last_event, $2, 0, 0, 0 FROM state WHERE id = 0 ON CONFLICT (webhook) DO NOTHING
            """
        return try await write([SQLStatement(added, [.text(name), .integer(now)])], epoch: epoch)
    }

    /// Removes all endpoints but those with `names`, with their deliveries.
    ///
    /// - Returns: The names, each with the number of its events that were not delivered.
    func forget(allBut names: [String], epoch: Int64) async throws(BackendError) -> [(name: String, count: Int64)] {
        let known = try await rows(
            """
            SELECT w.webhook, (SELECT count(*) FROM deliveries d WHERE d.webhook = w.webhook)
            FROM webhooks w ORDER BY w.webhook
            """)
        var forgotten: [(name: String, count: Int64)] = []
        for row in known {
            guard let name = row[0].text, let count = row[1].integer, !names.contains(name) else { continue }
            forgotten.append((name, count))
        }
        guard !forgotten.isEmpty else { return [] }
        let statements = forgotten.flatMap { item in
            ["deliveries", "webhooks"].map {
                SQLStatement("DELETE FROM \($0) WHERE webhook = $1", [.text(item.name)])
            }
        }
        return try await write(statements, epoch: epoch) ? forgotten : []
    }

    // MARK: deliveries

    /// The position of an endpoint, and accounts with an event that is due; `nil` if the endpoint is not known.
    func position(
        of name: String, at now: Int64, limit: Int
    ) async throws(BackendError) -> (position: Position, due: [String])? {
        let answers = try await database.read([
            SQLStatement(
                """
                SELECT position, (SELECT last_event FROM state WHERE id = 0), failures, coalesce(last_delivery, created)
                FROM webhooks WHERE webhook = $1
                """, [.text(name)]),
            SQLStatement(
                "SELECT account FROM deliveries WHERE webhook = $1 AND due <= $2 ORDER BY due, event LIMIT $3",
                [.text(name), .integer(now), .integer(Int64(limit))]),
        ])
        guard let row = answers[0].first, let taken = row[0].integer, let last = row[1].integer,
            let failures = row[2].integer, let delivery = row[3].integer
        else { return nil }
        let position = Position(taken: taken, lastEvent: last, failures: failures, lastDelivery: delivery)
        return (position, answers[1].compactMap { $0[0].text })
    }

    /// Takes the next events of the outbox that `endpoint` receives, and makes them due or wait.
    ///
    /// - Returns: `false` if a later epoch has begun.
    func take(
        _ position: Position, for endpoint: WebhookEndpoint, at now: Int64, epoch: Int64
    ) async throws(BackendError) -> Bool {
        let end = min(position.taken + Self.pageCount, position.lastEvent)
        let range: [SQLValue] = [.text(endpoint.name), .integer(position.taken), .integer(end)]
        let kinds = endpoint.events.map { kinds in
            " AND kind IN (\(kinds.indices.map { "$\($0 + 4)" }.joined(separator: ", ")))"
        }
        let inserted = """
            INSERT INTO deliveries (webhook, event, account, attempts)
            SELECT $1, id, account, 0 FROM events WHERE id > $2 AND id <= $3\(kinds ?? "")
            ON CONFLICT (webhook, event) DO NOTHING
            """
        let moved = "UPDATE webhooks SET position = $3 WHERE webhook = $1 AND position = $2"
        var statements = [SQLStatement(moved, range)]
        if endpoint.events?.isEmpty != true {
            statements.append(SQLStatement(inserted, range + (endpoint.events ?? []).map(SQLValue.text)))
            statements.append(
                Self.schedule(endpoint.name, at: now, "event > $3 AND event <= $4", [range[1], range[2]]))
        }
        return try await write(statements, epoch: epoch)
    }

    /// The statement that makes the first delivery of each account due, and all later ones wait.
    ///
    /// - Parameters:
    ///   - condition: A condition for the rows, with parameters from `$3` on.
    ///   - values: The values of its parameters.
    private static func schedule(
        _ name: String, at now: Int64, _ condition: String, _ values: [SQLValue]
    ) -> SQLStatement {
        SQLStatement(
            """
            UPDATE deliveries SET due = CASE
                WHEN EXISTS (
                    SELECT 1 FROM deliveries d WHERE d.webhook = deliveries.webhook AND d.account = deliveries.account
                        AND d.event < deliveries.event AND d.dead IS NULL) THEN NULL
                ELSE coalesce(due, $2) END
            WHERE webhook = $1 AND dead IS NULL AND \(condition)
            """, [.text(name), .integer(now)] + values)
    }

    /// The oldest deliveries of an account, and their events. A deleted event has no entry.
    func lane(
        of account: String, for name: String
    ) async throws(BackendError) -> (lane: DeliveryLane, events: [Int64: StoredEvent]) {
        let rows = try await rows(
            """
            SELECT d.event, d.attempts, d.since, d.due, d.error, e.kind, e.at, e.body FROM deliveries d
            LEFT JOIN events e ON e.id = d.event
            WHERE d.webhook = $1 AND d.account = $2 AND d.dead IS NULL ORDER BY d.event LIMIT \(Self.laneCount)
            """, [.text(name), .text(account)])
        var deliveries: [Delivery] = []
        var events: [Int64: StoredEvent] = [:]
        for row in rows {
            guard let number = row[0].integer, let attempts = row[1].integer else { continue }
            deliveries.append(
                Delivery(
                    event: number, attempts: Int(attempts), since: row[2].integer, due: row[3].integer ?? 0,
                    error: row[4].text))
            guard let kind = row[5].text, let at = row[6].integer, let body = row[7].text else { continue }
            events[number] = StoredEvent(number: number, account: account, kind: kind, at: at, body: body)
        }
        return (DeliveryLane(deliveries), events)
    }

    /// Records the results of deliveries.
    ///
    /// - Parameter isRecovered: True to attempt all events again now, because the endpoint accepts them again.
    /// - Returns: `false` if a later epoch has begun.
    func record(
        _ outcomes: [Outcome], of name: String, at now: Int64, isRecovered: Bool, epoch: Int64
    ) async throws(BackendError) -> Bool {
        var statements: [SQLStatement] = []
        let webhook = SQLValue.text(name)
        for outcome in outcomes {
            for number in outcome.lane.delivered {
                statements.append(
                    SQLStatement(
                        "DELETE FROM deliveries WHERE webhook = $1 AND event = $2", [webhook, .integer(number)]))
            }
            let failed = outcome.lane.dead.map { ($0, true) } + (outcome.lane.failed.map { [($0, false)] } ?? [])
            for (delivery, isDead) in failed {
                statements.append(
                    SQLStatement(
                        """
                        UPDATE deliveries SET attempts = $3, since = $4, due = $5, dead = $6, error = $7
                        WHERE webhook = $1 AND event = $2
                        """,
                        [
                            webhook, .integer(delivery.event), .integer(Int64(delivery.attempts)),
                            SQLValue(delivery.since), isDead ? .null : .integer(delivery.due),
                            isDead ? .integer(now) : .null, SQLValue(delivery.error),
                        ]))
            }
            statements.append(Self.schedule(name, at: now, "account = $3", [.text(outcome.account)]))
        }
        if isRecovered {
            let forward = "UPDATE deliveries SET due = $2 WHERE webhook = $1 AND due > $2"
            statements.append(SQLStatement(forward, [webhook, .integer(now)]))
        }
        statements.append(Self.count(outcomes, of: name, at: now))
        return try await write(statements, epoch: epoch)
    }

    /// The statement that counts deliveries and failures.
    private static func count(_ outcomes: [Outcome], of name: String, at now: Int64) -> SQLStatement {
        let delivered = outcomes.reduce(0) { $0 + $1.lane.delivered.count }
        let failed = outcomes.reduce(0) { $0 + $1.lane.failureCount }
        let error = outcomes.lazy.compactMap { ($0.lane.failed ?? $0.lane.dead.last)?.error }.first
        return SQLStatement(
            """
            UPDATE webhooks SET delivered = delivered + $2, failed = failed + $3,
                failures = CASE WHEN $2 > 0 THEN 0 ELSE failures + $3 END,
                last_delivery = CASE WHEN $2 > 0 THEN $4 ELSE last_delivery END,
                last_failure = CASE WHEN $3 > 0 THEN $4 ELSE last_failure END, error = coalesce($5, error)
            WHERE webhook = $1
            """,
            [
                .text(name), .integer(Int64(delivered)), .integer(Int64(failed)), .integer(now), SQLValue(error),
            ])
    }

    // MARK: acts of an operator, at any server

    /// Sends dead letters again, or one event whatever its state.
    ///
    /// - Parameter number: The number of the event; `nil` for all dead letters.
    /// - Returns: The number of events; `nil` if there is no such event.
    func sendAgain(_ number: Int64?, to name: String, at now: Int64) async throws(BackendError) -> Int? {
        // The lock on this row lets no result of a delivery be recorded in between.
        var statements = [SQLStatement("UPDATE state SET step = step WHERE id = 0")]
        let again = "dead = NULL, attempts = 0, since = NULL, due = NULL, error = NULL"
        if let number {
            guard let account = try await rows("SELECT account FROM events WHERE id = $1", [.integer(number)]).first?[0]
            else { return nil }
            statements.append(
                SQLStatement(
                    """
                    INSERT INTO deliveries (webhook, event, account, attempts) VALUES ($1, $2, $3, 0)
                    ON CONFLICT (webhook, event) DO UPDATE SET \(again)
                    """, [.text(name), .integer(number), account]))
            statements.append(Self.schedule(name, at: now, "account = $3", [account]))
            _ = try await database.write(statements, fence: nil)
            return 1
        }
        let count = try await rows(
            "SELECT count(*) FROM deliveries WHERE webhook = $1 AND dead IS NOT NULL", [.text(name)])[0][0].integer
        let revived = "UPDATE deliveries SET \(again) WHERE webhook = $1 AND dead IS NOT NULL"
        statements.append(SQLStatement(revived, [.text(name)]))
        statements.append(Self.schedule(name, at: now, "TRUE", []))
        _ = try await database.write(statements, fence: nil)
        return Int(count ?? 0)
    }
}
