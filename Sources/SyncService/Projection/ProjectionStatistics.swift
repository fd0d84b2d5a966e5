import Entitlements

/// Counts of accounts and purchases by environment, product and day, in the table `statistics`.
///
/// Counting a million rows takes a second, so the counts change in the transaction that changes the rows. Each account
/// adds to a count at most once for each of its products or purchases:
///
/// - `active`: an account that has the product now. The day is 0.
/// - `expiring`: a subscription that is active, on the day of its end.
/// - `lapsed`: a subscription that has ended, on the day of its end.
/// - `purchased`: a purchase that counts, or that was revoked, on the day of the purchase.
/// - `refunded`: a purchase that was revoked, on the day of the revocation.
struct ProjectionStatistics: Sendable {
    enum Measure: String, Sendable {
        case active, expiring, lapsed, purchased, refunded
    }

    private struct Key: Hashable, Comparable, Sendable {
        // Ids compare as bytes, as in the table.
        var environment: EnvironmentID
        var measure: Measure
        var product: ProductID
        var day: Int64

        private var values: (EnvironmentID, String, ProductID, Int64) { (environment, measure.rawValue, product, day) }

        static func < (left: Key, right: Key) -> Bool { left.values < right.values }
    }

    private var differences: [Key: Int64] = [:]

    /// Counts the change of an account.
    mutating func add(from before: ProjectedAccount?, to after: ProjectedAccount?) {
        if let before { add(before, -1) }
        if let after { add(after, 1) }
    }

    private mutating func add(_ account: ProjectedAccount, _ count: Int64) {
        var active: Set<Key> = []
        for row in account.subscriptions {
            let product = row.product ?? ""
            if row.isActive { active.insert(key(row.environment, .active, product)) }
            guard let end = row.expires else { continue }
            differences[key(row.environment, row.isActive ? .expiring : .lapsed, product, end), default: 0] += count
        }
        let prefix = "product:".utf8
        for row in account.access where row.isGranted {
            guard let source = row.source?.utf8, source.starts(with: prefix) else { continue }
            active.insert(
                key(row.environment, .active, String(decoding: source.dropFirst(prefix.count), as: UTF8.self)))
        }
        for key in active { differences[key, default: 0] += count }
        for row in account.purchases {
            let environment = row.transaction.environment.rawValue
            if row.setAside == nil {
                differences[key(environment, .purchased, row.product, row.purchased), default: 0] += count
            }
            if let revoked = row.revoked {
                differences[key(environment, .refunded, row.product, revoked), default: 0] += count
            }
        }
    }

    private func key(
        _ environment: String, _ measure: Measure, _ product: String, _ instant: Int64 = 0
    ) -> Key {
        // Rounds down also before 1970.
        let day = (instant - (instant < 0 ? 86_399_999 : 0)) / 86_400_000
        return Key(environment: EnvironmentID(environment), measure: measure, product: ProductID(product), day: day)
    }

    /// The statements that add the differences to the table.
    var statements: [SQLStatement] {
        let rows: [[SQLValue]] = differences.filter { $0.value != 0 }.sorted { $0.key < $1.key }.map { key, count in
            [
                .text(key.environment.rawValue), .text(key.measure.rawValue), .text(key.product.rawValue), .integer(key.day),
                .integer(count),
            ]
        }
        guard !rows.isEmpty else { return [] }
        return ProjectionSchema.statistics.insertions(of: rows, onConflict: "count = statistics.count + excluded.count")
            + (rows.contains { $0[4].integer ?? 0 < 0 } ? [SQLStatement("DELETE FROM statistics WHERE count = 0")] : [])
    }

    /// The statements that count all rows anew, one for each measure.
    static let recounts: [[SQLStatement]] = [
        recount(
            .active, "0",
            """
            (SELECT account, environment, coalesce(product, '') AS product FROM subscriptions WHERE active = 1
             UNION SELECT account, environment, substr(source, 9) FROM entitlements
                WHERE granted = 1 AND source LIKE 'product:%') s
            """),
        recount(.expiring, day("expires"), "subscriptions WHERE active = 1 AND expires IS NOT NULL"),
        recount(.lapsed, day("expires"), "subscriptions WHERE active = 0 AND expires IS NOT NULL"),
        recount(.purchased, day("purchased"), "purchases WHERE set_aside IS NULL"),
        recount(.refunded, day("revoked"), "purchases WHERE revoked IS NOT NULL"),
    ]

    static var recount: [SQLStatement] { recounts.flatMap(\.self) }

    private static func day(_ column: String) -> String {
        "(\(column) - CASE WHEN \(column) < 0 THEN 86399999 ELSE 0 END) / 86400000"
    }

    private static func recount(_ measure: Measure, _ day: String, _ source: String) -> [SQLStatement] {
        [
            SQLStatement("DELETE FROM statistics WHERE measure = '\(measure.rawValue)'"),
            SQLStatement(
                """
                INSERT INTO statistics (environment, measure, product, day, count)
                SELECT environment, '\(measure.rawValue)', coalesce(product, ''), \(day), count(*) FROM \(source)
                GROUP BY 1, 3, 4
                """),
        ]
    }
}
