import GRDB
import SyncCore

/// Finds, lists and changes the rows of `entry` on one connection.
package struct EntryTable {
    let db: Database
    let file: StoreFile

    private static let numberByKey = "SELECT id FROM entry INDEXED BY liveEntryByKey WHERE live = 1 AND key = ?"
    private static let listed =
        "SELECT key, version, sequence, checksum, seal, id, length(value) FROM entry INDEXED BY liveEntryByKey"
        + " WHERE live = 1 AND key >= ? ORDER BY key"
    private static let keyInRow = "SELECT key FROM entry WHERE id = ?"
    private static let namedBackwards =
        "SELECT key FROM entry INDEXED BY liveEntryByKey WHERE live = 1 AND key <= ? ORDER BY key DESC"
    private static let following =
        "SELECT key FROM entry INDEXED BY liveEntryByKey WHERE live = 1 AND key > ? ORDER BY key LIMIT 1"

    /// Returns a lookup of rows by the hashes of their keys.
    func lookup() throws -> EntryLookup {
        EntryLookup(byNumber: try db.prepared(EntryLookup.sql), file: file)
    }

    /// Reads `key`, and reports an absence only if the index has no such key either. Call it inside one transaction.
    func readConfirmed(_ key: EntryKey, unless knownVersion: EntryVersion?) throws -> ReadOutcome {
        let outcome = try lookup().read(key, unless: knownVersion)
        if outcome == .absent { try confirmAbsence(of: key) }
        return outcome
    }

    /// Throws if the index has `key` although its row was not found.
    func confirmAbsence(of key: EntryKey) throws {
        let number = try db.firstRow(of: Self.numberByKey, .bytes(Array(key.text.utf8))) { $0.integer(0) }
        guard let number else { return }
        throw damage("index liveEntryByKey names row \(number) for this key, but the row is missing")
    }

    /// Returns the keys that begin with `prefix`, after `cursor`. Call it inside one transaction.
    func page(prefix: String, after cursor: EntryKey?, limit: Int) throws -> KeyPage {
        var start = Array(prefix.utf8)
        if let cursor {
            // The smallest key greater than the cursor's.
            let next = Array(cursor.text.utf8) + [0]
            if start.lexicographicallyPrecedes(next) { start = next }
        }
        var items: [KeyPage.Item] = []
        var hasMore = false
        /// All keys that the walk visited, including those after the page.
        var met: [[UInt8]] = []
        try db.forEachRow(of: Self.listed, .bytes(start)) { row in
            let bytes = row.bytes(0)
            // Checked first: a key out of order means damage, not the end of the page or of the prefix.
            if let last = met.last, !last.lexicographicallyPrecedes(bytes) { throw disorder(at: bytes) }
            met.append(bytes)
            guard bytes.starts(with: prefix.utf8) else { return false }
            guard items.count < limit else {
                hasMore = true
                return false
            }
            let text = String(validating: bytes, as: UTF8.self)
            guard let text, let key = try? EntryKey(text) else {
                throw damage("index liveEntryByKey has \"\(Self.readable(bytes))\", which is not a valid key there")
            }
            let isWhole = EntryLookup.hasValidChecksum(row) && !row.isNull(1)
            if !isWhole { try confirm(key, ofRow: row.integer(5)) }
            let version = isWhole ? EntryVersion(bytes: row.bytes(1)) : row.mark(4)
            let byteCount = isWhole && !row.isNull(6) ? Int(row.integer(6)) : nil
            items.append(KeyPage.Item(key: key, version: version, byteCount: byteCount))
            return true
        }
        try confirm(met, from: start)
        return KeyPage(items: items, next: hasMore ? items.last?.key : nil)
    }

    /// Throws unless the damaged row, too, has the `key` that the index names for it. If the index is wrong, another
    /// key would be missing from the listing.
    private func confirm(_ key: EntryKey, ofRow number: Int64) throws {
        let bytes = Array(key.text.utf8)
        let isInRow = try db.firstRow(of: Self.keyInRow, .integer(number)) { $0.has(bytes, in: 0) }
        guard isInRow == true else {
            throw damage("index liveEntryByKey and table entry disagree").during(.list, key: key)
        }
    }

    /// Throws unless walking the index backwards yields the same `keys`, and no others between `start` and them.
    ///
    /// A wrong page number in the index leads past keys, possibly in valid order. The backward walk then arrives at a
    /// different page, and so does the descent to a key compared with the step from the key before it.
    private func confirm(_ keys: [[UInt8]], from start: [UInt8]) throws {
        var rest = keys[...]
        var before: [UInt8]?
        // No key contains the byte 0xFF.
        try db.forEachRow(of: Self.namedBackwards, .bytes(keys.last ?? [0xFF])) { row in
            guard let expected = rest.popLast() else {
                before = row.bytes(0)
                return false
            }
            guard row.buffer(0).elementsEqual(expected) else { throw disorder(at: expected) }
            return true
        }
        if let missed = rest.last { throw disorder(at: missed) }
        guard let before else { return }
        let next = try db.firstRow(of: Self.following, .bytes(before)) { $0.bytes(0) }
        guard before.lexicographicallyPrecedes(start), next == keys.first else { throw disorder(at: before) }
    }

    /// Stores `entry` under `key` in the row at `place`, as change `sequence`; `nil` deletes the entry.
    func put(_ entry: Entry?, under key: [UInt8], at place: EntryLookup.Place, sequence: Int64) throws {
        let checksum = entry.map { $0.value.withUnsafeBytes { RowChecksums.checksum(of: $0) } } ?? 0
        let version = entry?.version.bytes ?? []
        let rowChecksum = key.withUnsafeBytes { key in
            version.withUnsafeBytes { version in
                RowChecksums.checksum(key: key, version: version, sequence: sequence, checksum: checksum)
            }
        }
        let (isLive, versionParameter, valueParameter): (Int64, Parameter, Parameter) =
            if let entry { (1, .bytes(entry.version.bytes), .bytes(entry.value)) } else { (0, .null, .null) }
        switch place.content {
        case .nothing:
            try db.change(
                """
                INSERT INTO entry (id, key, live, version, sequence, checksum, seal, value)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                """, .integer(place.number), .bytes(key), .integer(isLive), versionParameter, .integer(sequence),
                .integer(checksum), .integer(rowChecksum), valueParameter)
        case .version where entry != nil:
            // The statement does not set "live", because that would rewrite the index as well.
            try db.change(
                "UPDATE entry SET version = ?, sequence = ?, checksum = ?, seal = ?, value = ? WHERE id = ?",
                versionParameter, .integer(sequence), .integer(checksum), .integer(rowChecksum), valueParameter,
                .integer(place.number))
        default:
            try db.change(
                """
                UPDATE entry SET key = ?, live = ?, version = ?, sequence = ?, checksum = ?, seal = ?, value = ?
                WHERE id = ?
                """, .bytes(key), .integer(isLive), versionParameter, .integer(sequence), .integer(checksum),
                .integer(rowChecksum), valueParameter, .integer(place.number))
        }
    }

    private func disorder(at key: [UInt8]) -> BackendError {
        damage("index liveEntryByKey is out of order at \"\(Self.readable(key))\"")
    }

    private func damage(_ what: String) -> BackendError { BackendError(damagedAt: file.path, what) }

    package static func readable(_ bytes: [UInt8]) -> String {
        String(decoding: bytes.prefix(80).map { $0 < 0x20 || $0 == 0x7F ? UInt8(ascii: "?") : $0 }, as: UTF8.self)
    }
}
