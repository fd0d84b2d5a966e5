import Entitlements
import HTTPTypes
import SyncCore
import SyncProtocol

// Customers with access over time.
extension EntitlementService {
    static let accessSeriesRoutes: [Route<Endpoint>] = [
        Route(
            .get, "/v1/statistics/access", .operator(.read, EntitlementService.accessOverTime),
            query: ["environment"])
    ]

    /// The response to `GET /v1/statistics/access`: the customers with access at the start of each of the last 30 days
    /// and of today, by product.
    private func accessOverTime(_ call: Call, for caller: OperatorCaller) async throws -> ServiceResponse {
        let (tables, environment) = (try projectedRows(), try environment(in: call.query))
        let series = try await accessSeries.value(
            of: environment, in: tables, catalog: configuration.catalog, at: host.now())
        return .json([("environment", .string(environment.rawValue))] + series)
    }
}

/// Customers with access over time. All periods are read, which takes seconds for a million customers, so the result is
/// kept for some minutes.
actor AccessSeries {
    /// The number of days before today.
    private static let dayCount: Int64 = 30
    /// The time for which a result is kept, in milliseconds.
    private static let lifetime: Int64 = 300_000
    /// The largest number of environments whose results are kept.
    private static let capacity = 8
    private static let day: Int64 = 86_400_000

    private var known: [EnvironmentID: (computed: Int64, members: [(String, JSON)])] = [:]

    func value(
        of environment: EnvironmentID, in tables: ProjectionTables, catalog: Catalog?, at now: Int64
    ) async throws(BackendError) -> [(String, JSON)] {
        if let known = known[environment], (0..<Self.lifetime).contains(now - known.computed) { return known.members }
        let members = try await Self.members(of: environment, in: tables, catalog: catalog, at: now)
        if known.count >= Self.capacity { known = [:] }
        known[environment] = (now, members)
        return members
    }

    private static func members(
        of environment: EnvironmentID, in tables: ProjectionTables, catalog: Catalog?, at now: Int64
    ) async throws(BackendError) -> [(String, JSON)] {
        let first = now / day * day - dayCount * day
        let last = first + dayCount * day
        // The numbers of the first and the last midnight that a row covers, counted from `first`.
        func range(_ start: String, _ end: String) -> String {
            """
            CASE WHEN \(start) <= $2 THEN 0 ELSE (\(start) - $2 + \(day - 1)) / \(day) END,
            CASE WHEN \(end) IS NULL OR \(end) > $3 THEN \(dayCount) ELSE (\(end) - 1 - $2) / \(day) END
            """
        }
        let values: [SQLValue] = [.text(environment.rawValue), .integer(first), .integer(last)]
        let found = try await tables.database.read([
            // Of the periods of a group, at most one product's covers an instant.
            SQLStatement(
                """
                SELECT coalesce(product, ''), \(range("starts", "ends")), count(DISTINCT account) FROM periods
                WHERE environment = $1 AND starts <= $3 AND (ends IS NULL OR ends > $2) GROUP BY 1, 2, 3
                """, values),
            // An account may have bought a product twice. A gap between two purchases counts as access.
            SQLStatement(
                """
                SELECT product, \(range("purchased", "revoked")), count(*) FROM (
                    SELECT product, account, min(purchased) AS purchased,
                        CASE WHEN count(*) > count(revoked) THEN NULL ELSE max(revoked) END AS revoked
                    FROM purchases WHERE environment = $1 AND set_aside IS NULL AND product_group IS NULL
                    GROUP BY product, account) owned
                WHERE purchased <= $3 AND (revoked IS NULL OR revoked > $2) GROUP BY 1, 2, 3
                """, values),
        ])
        let owned = Set(catalog?.products.filter { $0.kind == .nonConsumable }.map(\.id) ?? [])
        var series: [ProductID: [Int64]] = [:]
        for (index, rows) in found.enumerated() {
            for row in rows {
                guard let text = row[0].text, let start = row[1].integer, let end = row[2].integer,
                    let count = row[3].integer, start <= end, start >= 0, end <= dayCount
                else { continue }
                let product = ProductID(text)
                guard index == 0 || owned.contains(product) else { continue }
                for number in start...end {
                    series[product, default: Array(repeating: 0, count: Int(dayCount) + 1)][Int(number)] += count
                }
            }
        }
        let days = (0...dayCount).map { number in
            JSON.string(String("\(Timestamp(milliseconds: first + number * day))".prefix(10)))
        }
        // The products with the most customers come first.
        let rows = series.sorted { ($1.value[Int(dayCount)], $0.key) < ($0.value[Int(dayCount)], $1.key) }
        return [
            ("days", .array(days)),
            (
                "products",
                .array(
                    rows.map { product, counts in
                        .object([
                            ("product", .string(product.rawValue)), ("customers", .array(counts.map(JSON.number))),
                        ])
                    })
            ),
        ]
    }
}
