import GRDB
import SyncCore

/// The rows of `change`: the sequence of a store's changes, on one connection.
///
/// It keeps what `ChangeLog` of SyncCore keeps: the latest change of every key for good, and the newest
/// ``recognisedCount`` superseded ones at least.
struct ChangeTable {
    let db: Database
    /// The database's path, for messages.
    let path: String

    /// Cursors at the newest so many changes are recognised.
    static let recognisedCount: Int64 = 10_000
    /// Superseded changes are dropped so many at once.
    static let sweepCount: Int64 = 1_024

    private static let following = """
        SELECT c.sequence, c.tag, c.entry, c.seal, e.sequence, e.key, e.version, e.checksum, e.seal
        FROM change c LEFT JOIN entry e ON e.id = c.entry WHERE c.sequence > ? ORDER BY c.sequence
        """

    private static let keyOfEntry = "SELECT key FROM entry INDEXED BY liveEntryByKey WHERE live = 1 AND id = ?"

    /// The latest change, `nil` when nothing has ever changed.
    func latest() throws -> ChangeCursor? {
        try db.firstRow(of: "SELECT sequence, tag FROM change ORDER BY sequence DESC LIMIT 1") { row in
            ChangeCursor(sequence: UInt64(bitPattern: row.integer(0)), tag: UInt64(bitPattern: row.integer(1)))
        }
    }

    /// Notes that the key in row `entry` changed, and forgets the change that this one supersedes when it is so old
    /// that no sweep will come by.
    func append(sequence: Int64, tag: UInt64, entry: Int64, superseding previous: Int64) throws {
        let tag = Int64(bitPattern: tag)
        try db.change(
            "INSERT INTO change (sequence, tag, entry, seal) VALUES (?, ?, ?, ?)", .integer(sequence), .integer(tag),
            .integer(entry), .integer(Seals.seal(sequence: sequence, tag: tag, entry: entry)))
        if previous > 0, previous <= Self.sweptSequence(at: sequence) {
            try db.change("DELETE FROM change WHERE sequence = ?", .integer(previous))
        }
    }

    /// Drops what has become both superseded and old while the sequence went from `start` to `end`.
    func sweep(from start: Int64, to end: Int64) throws {
        let (old, new) = (Self.sweptSequence(at: start), Self.sweptSequence(at: end))
        guard old < new else { return }
        try db.change(
            """
            DELETE FROM change WHERE sequence > ? AND sequence <= ?
            AND sequence <> ifnull((SELECT e.sequence FROM entry e WHERE e.id = change.entry), change.sequence)
            """, .integer(old), .integer(new))
    }

    /// Superseded changes up to this one are gone when the latest is `sequence`.
    private static func sweptSequence(at sequence: Int64) -> Int64 {
        max(0, sequence / sweepCount * sweepCount - recognisedCount)
    }

    /// The keys that changed after `cursor`. One transaction should hold all of it.
    func page(since cursor: ChangeCursor?, limit: Int) throws -> ChangePage {
        try check(cursor)
        var page = ChangePage(changes: [], cursor: cursor, hasMore: false)
        let start = cursor.map { Int64(bitPattern: $0.sequence) } ?? 0
        try db.forEachRow(of: Self.following, .integer(start)) { row in
            let sequence = row.integer(0)
            guard Seals.seal(sequence: sequence, tag: row.integer(1), entry: row.integer(2)) == row.integer(3) else {
                throw BackendError(damagedAt: path, "table change, row \(sequence): its seal does not match")
            }
            let isWhole = !row.isNull(4) && isSealed(row)
            if !isWhole || row.integer(4) == sequence {
                guard page.changes.count < limit else {
                    page.hasMore = true
                    return false
                }
                page.changes.append(isWhole ? try change(row) : try changeOfDamaged(row))
            }
            page.cursor = ChangeCursor(
                sequence: UInt64(bitPattern: sequence), tag: UInt64(bitPattern: row.integer(1)))
            return true
        }
        return page
    }

    private func change(_ row: StatementRow) throws -> ChangePage.Change {
        let key = try EntryKey(String(decoding: row.buffer(5), as: UTF8.self))
        return ChangePage.Change(key: key, version: row.isNull(6) ? nil : EntryVersion(bytes: row.bytes(6)))
    }

    /// The change of an entry that cannot be believed: its key by the index, and a mark for a version. One damaged
    /// entry must not end the sequence for all.
    private func changeOfDamaged(_ row: StatementRow) throws -> ChangePage.Change {
        let number = row.integer(2)
        let bytes = try db.firstRow(of: Self.keyOfEntry, .integer(number)) { $0.bytes(0) }
        guard let bytes, let text = String(validating: bytes, as: UTF8.self), let key = try? EntryKey(text) else {
            throw BackendError(
                damagedAt: path, "table entry, row \(number): it is gone or its seal does not match")
        }
        return ChangePage.Change(key: key, version: row.mark(8))
    }

    private func isSealed(_ row: StatementRow) -> Bool {
        row.buffer(6).count <= 64 && row.isNull(6) == row.buffer(6).isEmpty
            && row.integer(8)
                == Seals.seal(
                    key: row.buffer(5), version: row.buffer(6), sequence: row.integer(4), checksum: row.integer(7))
    }

    private func check(_ cursor: ChangeCursor?) throws {
        guard let cursor else { return }
        let tag = try db.firstRow(
            of: "SELECT tag FROM change WHERE sequence = ?", .integer(Int64(bitPattern: cursor.sequence))
        ) { UInt64(bitPattern: $0.integer(0)) }
        guard tag == cursor.tag else {
            throw BackendError(
                .cursorExpired, operation: .changes,
                message: "\(path): no change \(cursor.sequence) with that tag is known; read everything again")
        }
    }
}
