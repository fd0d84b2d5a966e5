#if PostgreSQL
import SyncCore

/// Reads the sequence of changes. Every read first numbers the pending changes, so that a change that was acknowledged
/// is part of the next page.
struct ChangeQueries {
    let store: PostgreSQLStore

    /// The number of changes that one statement looks at. A page ends there, although more changes may follow.
    private static let scanCount = 5_000
    /// The number of keys up to which a page of a prefix is read key by key.
    private static let keyCount = 1_000

    /// Numbers the pending changes. Waits while another process numbers them, until its commit is durable.
    private var sequencing: [Statement] {
        let limit = store.connector.configuration.busyTimeout.pollMilliseconds
        return [Statement(.waitLonger, .integer(Int64(limit))), Statement(.sequence)]
    }

    /// The latest change, and the server's time; `nil` if nothing was ever changed.
    func latest() async throws(BackendError) -> Answer<ChangeCursor?> {
        let rows = try await store.read([sequencing, [Statement(.latest), Statement(.clock)]], .changes)[1]
        let cursor = Self.cursor(in: rows[0], 0)
        store.connector.remember(cursor)
        return Answer(cursor, serverTime: rows[1].integer(0, 0))
    }

    /// The keys that changed after `cursor`.
    func page(since cursor: ChangeCursor?, limit: Int) async throws(BackendError) -> ChangePage {
        let start = Self.number(of: cursor)
        let scanCount = max(Self.scanCount, min(limit, .max - 1) + 1)
        let page = Statement(
            .changes, .integer(start), .integer(Int64(min(limit, .max - 1) + 1)), .integer(Int64(scanCount)))
        let rows = try await store.read(
            [sequencing, [Statement(.change, .integer(start)), page]], .changes)[1]
        try check(cursor, against: rows[0])
        return remember(try Self.scannedPage(rows[1], since: cursor, limit: limit, scanCount: scanCount))
    }

    /// The keys with `prefix` that changed after `cursor`.
    ///
    /// A prefix of few keys is read through the index of the keys, unless the cursor is close to the latest change.
    func page(since cursor: ChangeCursor?, prefix: String, limit: Int) async throws(BackendError) -> ChangePage {
        guard !prefix.isEmpty else { return try await page(since: cursor, limit: limit) }
        let range = KeyRange(prefix: prefix)
        let (start, more) = (Self.number(of: cursor), Int64(min(limit, .max - 1) + 1))
        let head = try await store.read(
            [
                sequencing,
                [
                    Statement(.change, .integer(start)), Statement(.latest),
                    Statement(.countKeys, range.start, range.end, .integer(Int64(Self.keyCount + 1))),
                ],
            ], .changes)[1]
        try check(cursor, against: head[0])
        let latest = Self.cursor(in: head[1], 0)
        let distance = Self.number(of: latest) - start
        guard distance > 0 else { return ChangePage(changes: [], cursor: cursor, hasMore: false) }
        let scanCount = ChangePageDraft.maximumSkippedCount
        if distance > scanCount, head[2].integer(0, 0) <= Self.keyCount {
            let query = Statement(.changesOfKeys, .integer(start), range.start, range.end, .integer(more))
            let rows = try await store.read([[query]], .changes)[0][0]
            return remember(try Self.keyedPage(rows, limit: limit, latest: latest))
        }
        let query = Statement(
            .changesFiltered, .integer(start), .integer(Int64(scanCount)), .integer(Int64(prefix.utf8.count)),
            range.start, .integer(more))
        let rows = try await store.read([[query]], .changes)[0][0]
        return remember(try Self.scannedPage(rows, since: cursor, limit: limit, scanCount: scanCount))
    }

    private func remember(_ page: ChangePage) -> ChangePage {
        store.connector.remember(page.cursor)
        return page
    }

    private func check(_ cursor: ChangeCursor?, against rows: Rows) throws(BackendError) {
        guard let cursor else { return }
        guard rows.count == 1, UInt64(bitPattern: rows.integer(0, 0)) == cursor.tag else {
            throw BackendError(
                .cursorExpired, operation: .changes,
                message: "\(store.label): change \(cursor.sequence) is unknown with this tag, or too old; "
                    + "read everything again")
        }
    }

    /// A page from the changes after `cursor`, of which the last row is the last change that was looked at.
    private static func scannedPage(
        _ rows: Rows, since cursor: ChangeCursor?, limit: Int, scanCount: Int
    ) throws(BackendError) -> ChangePage {
        var draft = ChangePageDraft(since: cursor, prefix: "", limit: limit)
        for row in 0..<rows.count {
            guard let position = Self.cursor(in: rows, row) else { continue }
            if rows.isTrue(row, 5) {
                guard draft.append(try change(in: rows, row), at: position) else { return draft.page }
            } else {
                draft.pass(position)
            }
        }
        var page = draft.page
        page.hasMore = rows.count > 0 && rows.integer(0, 6) == scanCount
        return page
    }

    /// A page from all changes of some keys. The cursor moves past the changes of the others.
    private static func keyedPage(
        _ rows: Rows, limit: Int, latest: ChangeCursor?
    ) throws(BackendError) -> ChangePage {
        var page = ChangePage(changes: [], cursor: latest, hasMore: rows.count > limit)
        for row in 0..<min(rows.count, limit) { page.changes.append(try change(in: rows, row)) }
        guard let last = page.changes.indices.last, let end = Self.cursor(in: rows, last) else { return page }
        if page.hasMore || number(of: end) > number(of: latest) { page.cursor = end }
        return page
    }

    private static func change(in rows: Rows, _ row: Int) throws(BackendError) -> ChangePage.Change {
        let version = rows.isTrue(row, 4) ? nil : EntryVersion(bytes: rows.bytes(row, 3))
        return ChangePage.Change(key: try EntryKey(rows.text(row, 2)), version: version)
    }

    /// The number and tag in the first two columns; `nil` if there is no such row.
    static func cursor(in rows: Rows, _ row: Int) -> ChangeCursor? {
        guard row < rows.count else { return nil }
        return ChangeCursor(
            sequence: UInt64(bitPattern: rows.integer(row, 0)), tag: UInt64(bitPattern: rows.integer(row, 1)))
    }

    private static func number(of cursor: ChangeCursor?) -> Int64 { cursor.map { Int64(bitPattern: $0.sequence) } ?? 0 }
}

/// The keys that begin with a prefix.
struct KeyRange {
    /// The bytes of the prefix.
    let start: Statement.Parameter
    /// The first bytes after all keys with the prefix.
    let end: Statement.Parameter

    init(prefix: String) {
        let bytes = Array(prefix.utf8)
        start = .bytes(bytes)
        // A key is UTF-8, which has no byte of 0xFF.
        end = .bytes(bytes.last.map { bytes.dropLast() + [$0 + 1] } ?? [0xFF])
    }
}
#endif
