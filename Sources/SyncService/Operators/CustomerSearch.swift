import Entitlements
import HTTPTypes
import SyncCore

/// A search for customers in the rows of a projection.
///
/// Its parts are answered one after another, each from an index: accounts with a purchase or a line of purchases with
/// exactly the text as its id, then those whose name, then alias, then external id begins with it. So a page reads as
/// many rows as it has. An alias is compared in its folded form, so any spelling of a name is found.
struct CustomerSearch: Sendable {
    private enum Part: String, CaseIterable {
        case transaction, name, alias, externalID = "externalId"
    }

    let tables: ProjectionTables
    private let text: String
    private var parts = Part.allCases[...]
    /// The last key of the first part that earlier pages have; `nil` at its beginning.
    private var last: String?

    init(tables: ProjectionTables, text: String) {
        (self.tables, self.text) = (tables, text)
        // An empty text finds all accounts by their names.
        if text.isEmpty { parts = [.name] }
    }

    /// Goes on after a page.
    mutating func resume(after position: String) throws(RequestError) {
        let pieces = position.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard pieces.count == 2, let part = parts.firstIndex(where: { $0.rawValue == pieces[0] }),
            pieces[1].isEmpty || pieces[1].utf8.starts(with: prefix(of: parts[part]).utf8)
        else {
            throw RequestError(
                .badRequest, "after must be the member \"next\" of a page, not \"\(position.singleLine)\"")
        }
        (parts, last) = (parts[part...], pieces[1].isEmpty ? nil : String(pieces[1]))
    }

    /// The text with which the keys of a part begin.
    private func prefix(of part: Part) -> String {
        switch part {
        case .transaction: ""
        case .name, .externalID: text
        case .alias: AccountName.folded(text)
        }
    }

    /// The customers of a page as JSON, and the position of the next one.
    mutating func page(_ limit: Int) async throws(BackendError) -> (customers: [JSON], next: String?) {
        var matches: [(account: String, part: Part)] = []
        var known: Set<[UInt8]> = []
        while let part = parts.first {
            let missing = limit - matches.count
            // One more than is missing shows that there is a further page.
            let rows = try await tables.rows(statement(part), missing + 1)
            for row in rows.prefix(missing) {
                guard let key = row[0].text, let account = row[1].text else { continue }
                last = key
                if known.insert(Array(account.utf8)).inserted { matches.append((account, part)) }
            }
            if rows.count <= missing {
                (parts, last) = (parts.dropFirst(), nil)
            } else if matches.count == limit {
                break
            }
            // Otherwise an account had several matching aliases, which leaves room for further ones.
        }
        let next = parts.first.map { "\($0.rawValue):\(last ?? "")" }
        return (try await tables.customers(matches.map { ($0, $1.rawValue) }), next)
    }

    /// The query for the keys and accounts of a part. Its last parameter is the limit.
    private func statement(_ part: Part) -> SQLStatement {
        let isName = "account >= $3 AND account <= $4"
        // The last character of Unicode, which no name has, comes after all others.
        let names: [SQLValue] = [.text(text), .text(text + "\u{10FFFF}")]
        switch part {
        case .transaction:
            return SQLStatement(
                """
                SELECT account, account FROM (
                    SELECT account FROM purchases WHERE transaction_id = $1
                    UNION SELECT account FROM purchases WHERE original_id = $1) found
                WHERE account > $2 ORDER BY account LIMIT $3
                """, [.text(text), .text(last ?? "")])
        case .name: return range("customers", "account", prefix(of: part))
        case .alias: return range("aliases", "alias", prefix(of: part), unless: (isName, names))
        case .externalID: return range("customers", "external_id", prefix(of: part), unless: (isName, names))
        }
    }

    /// The query for the rows whose column begins with `text`.
    private func range(
        _ table: String, _ column: String, _ text: String, unless exclusion: (sql: String, values: [SQLValue])? = nil
    ) -> SQLStatement {
        let start = last.map { ("\(column) > $1", $0) } ?? ("\(column) >= $1", text)
        let excluded = exclusion.map { " AND NOT (\($0.sql))" } ?? ""
        let values: [SQLValue] = [.text(start.1), .text(text + "\u{10FFFF}")] + (exclusion?.values ?? [])
        return SQLStatement(
            """
            SELECT \(column), account FROM \(table) WHERE \(start.0) AND \(column) <= $2\(excluded)
            ORDER BY \(column) LIMIT $\(values.count + 1)
            """, values)
    }
}

extension ProjectionTables {
    fileprivate func rows(_ statement: SQLStatement, _ limit: Int) async throws(BackendError) -> [[SQLValue]] {
        try await rows(statement.sql, statement.values + [.integer(Int64(limit))])
    }

    /// The customers with these names, in the order of the names.
    fileprivate func customers(_ found: [(name: String, match: String)]) async throws(BackendError) -> [JSON] {
        guard !found.isEmpty else { return [] }
        let placeholders = found.indices.map { "$\($0 + 1)" }.joined(separator: ", ")
        let rows = try await rows(
            """
            SELECT account, external_id, issuer, created,
                (SELECT count(*) FROM sessions s WHERE s.account = c.account),
                (SELECT max(s.refreshed) FROM sessions s WHERE s.account = c.account)
            FROM customers c WHERE account IN (\(placeholders))
            """, found.map { .text($0.name) })
        let known = Dictionary(rows.map { (Array(($0[0].text ?? "").utf8), $0) }) { $1 }
        return found.compactMap { name, match in
            known[Array(name.utf8)].map { row in
                .object([
                    ("account", .string(name)), ("externalId", JSON(row[1].text)), ("issuer", JSON(row[2].text)),
                    ("created", .instant(row[3].integer)), ("sessions", .number(row[4].integer ?? 0)),
                    ("lastSeen", .instant(row[5].integer)), ("matched", .string(match)),
                ])
            }
        }
    }
}
