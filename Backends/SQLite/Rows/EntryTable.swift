import GRDB
import SyncCore

/// The rows of `entry`: finding, listing and changing them on one connection.
struct EntryTable {
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

    /// Finding rows by the keys' hashes.
    func lookup() throws -> EntryLookup {
        EntryLookup(byNumber: try db.prepared(EntryLookup.sql), file: file)
    }

    /// Reads `key`, and believes that nothing is there only if the index knows nothing of it either. One transaction
    /// should hold all of it.
    func readConfirmed(_ key: EntryKey, unless knownVersion: EntryVersion?) throws -> ReadOutcome {
        let outcome = try lookup().read(key, unless: knownVersion)
        if outcome == .absent { try confirmAbsence(of: key) }
        return outcome
    }

    /// Throws unless the index knows nothing of `key` either.
    func confirmAbsence(of key: EntryKey) throws {
        let number = try db.firstRow(of: Self.numberByKey, .bytes(Array(key.text.utf8))) { $0.integer(0) }
        guard let number else { return }
        throw damage("index liveEntryByKey names row \(number) for this key, which is not there")
    }

    /// The keys that begin with `prefix`, after `cursor`. One transaction should hold all of it.
    func page(prefix: String, after cursor: EntryKey?, limit: Int) throws -> KeyPage {
        var start = Array(prefix.utf8)
        if let cursor {
            // The smallest key behind the cursor's.
            let next = Array(cursor.text.utf8) + [0]
            if start.lexicographicallyPrecedes(next) { start = next }
        }
        var items: [KeyPage.Item] = []
        var hasMore = false
        /// All that the walk met, what is behind the page too.
        var met: [[UInt8]] = []
        try db.forEachRow(of: Self.listed, .bytes(start)) { row in
            let bytes = row.bytes(0)
            // Before anything else: out of order is damage, and not the end of the page or of the prefix.
            if let last = met.last, !last.lexicographicallyPrecedes(bytes) { throw disorder(at: bytes) }
            met.append(bytes)
            guard bytes.starts(with: prefix.utf8) else { return false }
            guard items.count < limit else {
                hasMore = true
                return false
            }
            let text = String(validating: bytes, as: UTF8.self)
            guard let text, let key = try? EntryKey(text) else {
                throw damage("index liveEntryByKey has \"\(Self.readable(bytes))\", which is no key there")
            }
            let isWhole = EntryLookup.isSealed(row) && !row.isNull(1)
            if !isWhole { try confirm(key, ofRow: row.integer(5)) }
            let version = isWhole ? EntryVersion(bytes: row.bytes(1)) : row.mark(4)
            let byteCount = isWhole && !row.isNull(6) ? Int(row.integer(6)) : nil
            items.append(KeyPage.Item(key: key, version: version, byteCount: byteCount))
            return true
        }
        try confirm(met, from: start)
        return KeyPage(items: items, next: hasMore ? items.last?.key : nil)
    }

    /// Throws unless `key`, which the index names for a row that cannot be believed, is in the row as well: the index
    /// may have it wrong, and then another key would be missed.
    private func confirm(_ key: EntryKey, ofRow number: Int64) throws {
        let bytes = Array(key.text.utf8)
        let isInRow = try db.firstRow(of: Self.keyInRow, .integer(number)) { $0.has(bytes, in: 0) }
        guard isInRow == true else {
            throw damage("index liveEntryByKey and table entry disagree").during(.list, key: key)
        }
    }

    /// Throws unless the index, walked backwards, has the same `keys`, and none between `start` and them.
    ///
    /// A wrong page number in the index leads past keys, and may do so in good order. Both ways meet at another page
    /// then, and so do the way down to a key and the way there from the one before.
    private func confirm(_ keys: [[UInt8]], from start: [UInt8]) throws {
        var rest = keys[...]
        var before: [UInt8]?
        // No key has a byte of all ones.
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

    /// Puts `entry` under `key` in the row at `place`, as change `sequence`; `nil` deletes.
    func put(_ entry: Entry?, under key: [UInt8], at place: EntryLookup.Place, sequence: Int64) throws {
        let checksum = entry.map { $0.value.withUnsafeBytes { RowChecksums.checksum(of: $0) } } ?? 0
        let version = entry?.version.bytes ?? []
        let seal = key.withUnsafeBytes { key in
            version.withUnsafeBytes { version in
                RowChecksums.seal(key: key, version: version, sequence: sequence, checksum: checksum)
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
                .integer(checksum), .integer(seal), valueParameter)
        case .version where entry != nil:
            // Without naming "live", or the index would be written as well.
            try db.change(
                "UPDATE entry SET version = ?, sequence = ?, checksum = ?, seal = ?, value = ? WHERE id = ?",
                versionParameter, .integer(sequence), .integer(checksum), .integer(seal), valueParameter,
                .integer(place.number))
        default:
            try db.change(
                """
                UPDATE entry SET key = ?, live = ?, version = ?, sequence = ?, checksum = ?, seal = ?, value = ?
                WHERE id = ?
                """, .bytes(key), .integer(isLive), versionParameter, .integer(sequence), .integer(checksum),
                .integer(seal), valueParameter, .integer(place.number))
        }
    }

    private func disorder(at key: [UInt8]) -> BackendError {
        damage("index liveEntryByKey is out of order at \"\(Self.readable(key))\"")
    }

    private func damage(_ what: String) -> BackendError { BackendError(damagedAt: file.path, what) }

    static func readable(_ bytes: [UInt8]) -> String {
        String(decoding: bytes.prefix(80).map { $0 < 0x20 || $0 == 0x7F ? UInt8(ascii: "?") : $0 }, as: UTF8.self)
    }
}
