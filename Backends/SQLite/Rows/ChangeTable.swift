import GRDB
import SyncCore

/// Accesses the table `change`, the sequence of a store's changes, on one connection.
///
/// **Retention.** The newest ``StoreFile/retainedChangeCount`` changes are complete. Of the older ones, only the latest
/// change of each key that has an entry is kept. Superseded changes and deletions are removed in steps of
/// ``sweepCount`` changes, in the transaction that makes them old. The tombstone row in `entry` is removed with its
/// deletion.
///
/// **Cursors.** A cursor before the bound has expired, because a deletion after it may have been removed. A reader that
/// starts from `nil` needs no old deletions, but the cursors of its walk pass through the old changes. Such a cursor
/// encodes the start of the walk: its tag is the change's tag combined with a mask of the start. It stays valid until
/// ``StoreFile/retainedChangeCount`` changes follow the start, unless its key changes earlier.
struct ChangeTable {
    let db: Database
    let file: StoreFile

    /// The number of changes that a sweep removes at once.
    static let sweepCount: Int64 = 64

    private static let following = """
        SELECT c.sequence, c.tag, c.entry, c.seal, e.sequence, e.key, e.version, e.checksum, e.seal
        FROM change c LEFT JOIN entry e ON e.id = c.entry WHERE c.sequence > ? ORDER BY c.sequence
        """

    private static let deleted = """
        SELECT e.key, e.version, e.sequence, e.checksum, e.seal, e.id FROM change c JOIN entry e ON e.id = c.entry
        WHERE c.sequence > ? AND c.sequence <= ? AND e.sequence = c.sequence AND e.live = 0 AND e.version IS NULL
        """

    private static let neighbour = "SELECT 1 FROM entry WHERE id IN (?, ?) LIMIT 1"

    private static let keyOfEntry = "SELECT key FROM entry INDEXED BY liveEntryByKey WHERE live = 1 AND id = ?"

    /// The latest change; `nil` if nothing was ever changed.
    func latest() throws -> ChangeCursor? {
        try db.firstRow(of: "SELECT sequence, tag FROM change ORDER BY sequence DESC LIMIT 1") { row in
            ChangeCursor(sequence: UInt64(bitPattern: row.integer(0)), tag: UInt64(bitPattern: row.integer(1)))
        }
    }

    /// Adds a change for row `entry`, and removes the superseded change if no sweep will reach it.
    func append(sequence: Int64, tag: UInt64, entry: Int64, superseding previous: Int64) throws {
        let tag = Int64(bitPattern: tag)
        try db.change(
            "INSERT INTO change (sequence, tag, entry, seal) VALUES (?, ?, ?, ?)", .integer(sequence), .integer(tag),
            .integer(entry), .integer(RowChecksums.checksum(sequence: sequence, tag: tag, entry: entry)))
        if previous > 0, previous <= bound(at: sequence) {
            try db.change("DELETE FROM change WHERE sequence = ?", .integer(previous))
        }
    }

    /// Removes superseded changes and deletions that became old when the sequence went from `start` to `end`.
    func sweep(from start: Int64, to end: Int64) throws {
        let (old, new) = (bound(at: start), bound(at: end))
        guard old < new else { return }
        try db.change(
            """
            DELETE FROM change WHERE sequence > ? AND sequence <= ?
            AND sequence <> ifnull((SELECT e.sequence FROM entry e WHERE e.id = change.entry), change.sequence)
            """, .integer(old), .integer(new))
        for (number, sequence) in try deletedRows(after: old, upTo: new) where try isAlone(number) {
            try db.change("DELETE FROM entry WHERE id = ?", .integer(number))
            try db.change("DELETE FROM change WHERE sequence = ?", .integer(sequence))
        }
    }

    /// The rows of `entry` whose keys were deleted by a change in the given range, and the sequence of that change.
    ///
    /// Damaged rows are omitted, because a recovery may still read something from them.
    private func deletedRows(after old: Int64, upTo new: Int64) throws -> [(number: Int64, sequence: Int64)] {
        var rows: [(Int64, Int64)] = []
        try db.forEachRow(of: Self.deleted, .integer(old), .integer(new)) { row in
            let number = row.integer(5)
            if EntryLookup.hasValidChecksum(row), number == file.numbering(row.bytes(0)) {
                rows.append((number, row.integer(2)))
            }
            return true
        }
        return rows
    }

    /// Returns `true` if no lookup of another key passes through row `number`.
    ///
    /// The first two candidates for keys that share a hash are consecutive rows (see ``EntryLookup/locate(_:found:)``),
    /// so a lookup comes from the row before or continues at the row after.
    private func isAlone(_ number: Int64) throws -> Bool {
        try db.firstRow(of: Self.neighbour, .integer(number &- 1), .integer(number &+ 1)) { _ in true } == nil
    }

    /// The sequence up to which superseded changes and deletions are removed when the latest change is `sequence`.
    private func bound(at sequence: Int64) -> Int64 {
        max(0, sequence / Self.sweepCount * Self.sweepCount - file.retainedChangeCount)
    }

    /// Returns the keys that begin with `prefix` and changed after `cursor`. Call it inside one transaction.
    func page(since cursor: ChangeCursor?, prefix: String, limit: Int) throws -> ChangePage {
        let walk = try walk(of: cursor)
        var draft = ChangePageDraft(since: cursor, prefix: prefix, limit: limit)
        let start = cursor.map { Int64(bitPattern: $0.sequence) } ?? 0
        try db.forEachRow(of: Self.following, .integer(start)) { row in
            let sequence = row.integer(0)
            let checksum = RowChecksums.checksum(sequence: sequence, tag: row.integer(1), entry: row.integer(2))
            guard checksum == row.integer(3) else {
                throw BackendError(
                    damagedAt: file.path, "table change, row \(sequence): its row checksum does not match")
            }
            let cursor = ChangeCursor(
                sequence: UInt64(bitPattern: sequence),
                tag: UInt64(bitPattern: row.integer(1)) ^ (walk?.mask(at: sequence) ?? 0))
            let isWhole = !row.isNull(4) && hasValidChecksum(row)
            if isWhole, row.integer(4) != sequence {
                draft.pass(cursor)
                return true
            }
            return draft.append(isWhole ? try change(row) : try changeOfDamaged(row), at: cursor)
        }
        return draft.page
    }

    private func change(_ row: StatementRow) throws -> ChangePage.Change {
        let key = try EntryKey(String(decoding: row.buffer(5), as: UTF8.self))
        return ChangePage.Change(key: key, version: row.isNull(6) ? nil : EntryVersion(bytes: row.bytes(6)))
    }

    /// The change for a damaged entry: the key from the index, and a digest instead of a version. One damaged entry
    /// must not stop the feed for all readers.
    private func changeOfDamaged(_ row: StatementRow) throws -> ChangePage.Change {
        let number = row.integer(2)
        let bytes = try db.firstRow(of: Self.keyOfEntry, .integer(number)) { $0.bytes(0) }
        guard let bytes, let text = String(validating: bytes, as: UTF8.self), let key = try? EntryKey(text) else {
            throw BackendError(
                damagedAt: file.path, "table entry, row \(number): it is missing or its row checksum does not match")
        }
        return ChangePage.Change(key: key, version: row.mark(8))
    }

    private func hasValidChecksum(_ row: StatementRow) -> Bool {
        row.buffer(6).count <= 64 && row.isNull(6) == row.buffer(6).isEmpty
            && row.integer(8)
                == RowChecksums.checksum(
                    key: row.buffer(5), version: row.buffer(6), sequence: row.integer(4), checksum: row.integer(7))
    }

    /// The walk from `nil` that `cursor` belongs to; `nil` for an ordinary cursor.
    ///
    /// - Throws: `cursorExpired` if changes after the cursor may have been removed.
    private func walk(of cursor: ChangeCursor?) throws -> Walk? {
        let latest = try latest().map { Int64(bitPattern: $0.sequence) } ?? 0
        let bound = bound(at: latest)
        guard let cursor else { return bound > 0 ? Walk(step: latest / Self.sweepCount) : nil }
        let sequence = Int64(bitPattern: cursor.sequence)
        let tag = try db.firstRow(of: "SELECT tag FROM change WHERE sequence = ?", .integer(sequence)) {
            UInt64(bitPattern: $0.integer(0))
        }
        if tag == cursor.tag, sequence >= bound { return nil }
        if let tag, tag != cursor.tag {
            // A walk is valid as long as no deletion after its start was removed.
            let last = latest / Self.sweepCount
            let first = max(0, last - file.retainedChangeCount / Self.sweepCount)
            let walk = (first...last).lazy.map { Walk(step: $0) }.first { tag ^ $0.mask(at: sequence) == cursor.tag }
            if let walk { return walk }
        }
        throw BackendError(
            .cursorExpired, operation: .changes,
            message: "\(file.path): change \(cursor.sequence) is unknown with this tag, or more than "
                + "\(file.retainedChangeCount) changes old; read everything again")
    }
}

/// A reader's walk through all changes, beginning with the first one.
private struct Walk {
    /// The number of full steps of ``ChangeTable/sweepCount`` changes before the start of the walk.
    let step: Int64

    /// The mask for the tags of this walk's cursors; 0 for changes after its start.
    func mask(at sequence: Int64) -> UInt64 {
        guard sequence < step * ChangeTable.sweepCount else { return 0 }
        // The finalizer of SplitMix64.
        var bits = UInt64(bitPattern: step) &+ 0x9E37_79B9_7F4A_7C15
        bits = (bits ^ bits >> 30) &* 0xBF58_476D_1CE4_E5B9
        bits = (bits ^ bits >> 27) &* 0x94D0_49BB_1331_11EB
        return bits ^ bits >> 31
    }
}
