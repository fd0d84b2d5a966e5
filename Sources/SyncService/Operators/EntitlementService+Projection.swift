import EntitlementSync
import Entitlements
import HTTPTypes
import SyncCore
import SyncProtocol

// Questions that the rows of the projection answer.
extension EntitlementService {
    static let projectionRoutes: [Route<Endpoint>] = [
        Route(.get, "/v1/statistics", .operator(.read, EntitlementService.statistics), query: ["environment"]),
        Route(.get, "/v1/events", .operator(.read, EntitlementService.events), query: paging),
    ]

    /// The rows of the projection.
    ///
    /// - Throws: ``RequestError`` without a projection, and before its first end.
    func projectedRows() throws(RequestError) -> ProjectionTables {
        guard let projector else {
            throw RequestError(
                .conflict, "this server keeps no rows to answer from: start the server with --projection")
        }
        guard projector.state?.catalogue != nil else {
            throw RequestError(
                .serviceUnavailable,
                projector.state == nil
                    ? "the projection is not open yet; try again"
                    : "the projection is derived for the first time; try again when it is complete", retryAfter: 1)
        }
        return projector.tables
    }

    /// The time up to which the rows have all changes.
    private var projected: (String, JSON) { ("projected", .instant(projector?.state?.projected)) }

    func searchCustomers(_ call: Call, for caller: OperatorCaller) async throws -> ServiceResponse {
        var search = CustomerSearch(tables: try projectedRows(), text: call.query["query"] ?? "")
        let limit = try call.query.pageSize(configuration.limits)
        if let text = call.query["after"] { try search.resume(after: text) }
        let (customers, next) = try await search.page(limit)
        let body: [(String, JSON)] = [("customers", .array(customers)), ("next", JSON(next)), projected]
        return try call.response(Array(JSON.object(body).text().utf8), to: caller)
    }

    /// The response to `GET …/history`: events and acts, the latest first.
    func customerHistory(_ call: Call, for caller: OperatorCaller) async throws -> ServiceResponse {
        let tables = try projectedRows()
        let limit = try call.query.pageSize(configuration.limits)
        let after = try call.query["after"].map { (text) throws(RequestError) in try HistoryPosition(text) }
        let account = try await customer(call.target.name ?? "")
        let (entries, next) = try await tables.history(of: account.name ?? "", after: after, limit: limit)
        let body: [(String, JSON)] = [
            ("account", .string("\(account)")), ("history", .array(entries)), ("next", JSON(next?.text)), projected,
        ]
        return try call.response(Array(JSON.object(body).text().utf8), to: caller)
    }

    func statistics(_ call: Call, for caller: OperatorCaller) async throws -> ServiceResponse {
        let (tables, environment) = (try projectedRows(), try environment(in: call.query))
        let members = try await tables.statistics(of: environment, at: host.now())
        return .json([("environment", .string(environment.rawValue)), projected] + members)
    }
}

/// The position of an entry in the history of an account.
struct HistoryPosition: Sendable {
    var instant: Int64
    /// 1 for an event, 2 for an act.
    var source: Int64
    var number: Int64

    var text: String { "\(instant).\(source).\(number)" }

    init(instant: Int64, source: Int64, number: Int64) {
        (self.instant, self.source, self.number) = (instant, source, number)
    }

    init(_ text: String) throws(RequestError) {
        let numbers = text.split(separator: ".", omittingEmptySubsequences: false).map { Int64($0) }
        guard numbers.count == 3, let instant = numbers[0], let source = numbers[1], let number = numbers[2] else {
            throw RequestError(.badRequest, "after must be the member \"next\" of a page, not \"\(text.singleLine)\"")
        }
        self.init(instant: instant, source: source, number: number)
    }
}

extension ProjectionTables {
    /// The events and acts of an account, the latest first, and the position of the next page. The events of an erased
    /// account of the same name are not among them.
    fileprivate func history(
        of account: String, after position: HistoryPosition?, limit: Int
    ) async throws(BackendError) -> (entries: [JSON], next: HistoryPosition?) {
        let last = position ?? HistoryPosition(instant: .max, source: .max, number: .max)
        let rows = try await rows(
            """
            SELECT instant, source, number, kind, body, actor, reason, line FROM (
                SELECT at AS instant, CAST(1 AS bigint) AS source, id AS number, kind, body,
                    CAST(NULL AS text) AS actor, CAST(NULL AS text) AS reason, CAST(NULL AS text) AS line
                FROM events WHERE account = $1 AND id > coalesce(
                    (SELECT max(id) FROM events WHERE account = $1 AND kind = 'account.erased'), 0)
                UNION ALL
                SELECT coalesce(date, 0), CAST(2 AS bigint), number, act, detail, actor, reason, line
                FROM acts WHERE account = $1) entries
            WHERE (instant, source, number) < ($2, $3, $4)
            ORDER BY instant DESC, source DESC, number DESC LIMIT $5
            """,
            [
                .text(account), .integer(last.instant), .integer(last.source), .integer(last.number),
                .integer(Int64(limit) + 1),
            ])
        let page = rows.prefix(limit)
        let positions = page.map { row in
            HistoryPosition(instant: row[0].integer ?? 0, source: row[1].integer ?? 0, number: row[2].integer ?? 0)
        }
        let entries = zip(page, positions).map { row, position in
            let head: [(String, JSON)] = [("at", .instant(position.instant)), ("number", .number(position.number))]
            let (kind, text) = (row[3].text ?? "", row[4].text ?? "")
            guard position.source == 2 else {
                let body: JSON? = try? JSON(parsing: Array(text.utf8))
                return JSON.object(head + [("event", .string(kind)), ("body", body ?? .null)])
            }
            return .object(
                head + [
                    ("act", .string(kind)), ("actor", JSON(row[5].text)), ("reason", JSON(row[6].text)),
                    ("line", JSON(row[7].text)), ("detail", .string(text)),
                ])
        }
        return (entries, rows.count > limit ? positions.last : nil)
    }

    /// The number of milliseconds of a day.
    private static let day: Int64 = 86_400_000

    /// The members of the statistics: sums, by product, and by day from 30 days before to 7 days after `now`.
    fileprivate func statistics(
        of environment: EnvironmentID, at now: Int64
    ) async throws(BackendError) -> [(String, JSON)] {
        let today = now / Self.day
        let found = try await database.read([
            SQLStatement(
                """
                SELECT measure, product, CAST(sum(count) AS bigint) FROM statistics
                WHERE environment = $1 AND (measure <> 'expiring' OR day <= $2) GROUP BY measure, product
                """, [.text(environment.rawValue), .integer(today + 7)]),
            SQLStatement(
                """
                SELECT measure, day, CAST(sum(count) AS bigint) FROM statistics
                WHERE environment = $1 AND measure <> 'active' AND day >= $2 AND day <= $3 GROUP BY measure, day
                """, [.text(environment.rawValue), .integer(today - 30), .integer(today + 7)]),
        ])
        var total: [String: Int64] = [:]
        var products: [ProductID: [String: Int64]] = [:]
        for row in found[0] {
            guard let measure = row[0].text, let product = row[1].text, let count = row[2].integer else { continue }
            total[measure, default: 0] += count
            products[ProductID(product), default: [:]][measure] = count
        }
        var days: [Int64: [String: Int64]] = [:]
        for row in found[1] {
            guard let measure = row[0].text, let day = row[1].integer, let count = row[2].integer else { continue }
            days[day, default: [:]][measure] = count
        }
        func members(_ counts: [String: Int64], _ measures: [ProjectionStatistics.Measure]) -> [(String, JSON)] {
            measures.map { ($0.rawValue, .number(counts[$0.rawValue] ?? 0)) }
        }
        let all: [ProjectionStatistics.Measure] = [.active, .expiring, .lapsed, .purchased, .refunded]
        return [
            ("total", .object(members(total, all))),
            (
                "products",
                .array(
                    products.sorted { $0.key < $1.key }.map { product, counts in
                        .object([("product", .string(product.rawValue))] + members(counts, all))
                    })
            ),
            (
                "days",
                .array(
                    days.sorted { $0.key < $1.key }.map { day, counts in
                        let date = "\(Timestamp(milliseconds: day * Self.day))".prefix(10)
                        return .object([("day", .string(String(date)))] + members(counts, Array(all.dropFirst())))
                    })
            ),
        ]
    }
}
