import GRDB
import SyncCore

/// The rows of `entry`: finding, listing and changing them on one connection.
struct EntryTable {
    let db: Database
    let file: StoreFile

    private static let byNumber =
        "SELECT key, version, sequence, checksum, seal, value FROM entry WHERE id = ?"
    private static let numberByKey = "SELECT id FROM entry INDEXED BY liveEntryByKey WHERE live = 1 AND key = ?"
    private static let listed =
        "SELECT key, version, sequence, checksum, seal FROM entry INDEXED BY liveEntryByKey"
        + " WHERE live = 1 AND key >= ? ORDER BY key"

    /// Where a key's row is, or would be, and what is in it.
    struct Place {
        enum Content {
            /// There never was such a key.
            case nothing
            /// It was deleted.
            case deleted
            case version(EntryVersion)
            /// A row that cannot be believed; it is the key's own if the key in it is right.
            case damaged(BackendError, isOurs: Bool)
        }

        var number: Int64
        var content: Content
        /// The latest change of the key, 0 for none.
        var sequence: Int64 = 0

        /// The version, `nil` where nothing is; throws where that is not known.
        func version() throws(BackendError) -> EntryVersion? {
            switch content {
            case .nothing, .deleted: nil
            case .version(let version): version
            case .damaged(let error, _): throw error
            }
        }
    }

    /// Reads `key`. That nothing is there may be damage, see ``readConfirmed(_:unless:)``.
    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) throws -> ReadOutcome {
        let bytes = Array(key.text.utf8)
        var outcome = ReadOutcome.absent
        let place = try locate(bytes) { row, version in
            if version == knownVersion {
                outcome = .unchanged
            } else {
                outcome = .found(Entry(value: try value(of: row, key: key), version: version))
            }
        }
        return try place.version() == nil ? .absent : outcome
    }

    /// Reads `key`, and believes that nothing is there only if the index knows nothing of it either. One transaction
    /// should hold all of it.
    func readConfirmed(_ key: EntryKey, unless knownVersion: EntryVersion?) throws -> ReadOutcome {
        let outcome = try read(key, unless: knownVersion)
        if outcome == .absent { try confirmAbsence(of: key) }
        return outcome
    }

    /// Throws unless the index knows nothing of `key` either.
    func confirmAbsence(of key: EntryKey) throws {
        let number = try db.firstRow(of: Self.numberByKey, .bytes(Array(key.text.utf8))) { $0.integer(0) }
        guard let number else { return }
        throw damage("index liveEntryByKey names row \(number) for this key, which is not there")
    }

    /// Finds the row of `key`.
    ///
    /// - Parameter found: is called with the whole row and its version, when it can be believed.
    func locate(
        _ key: [UInt8], found: (StatementRow, EntryVersion) throws -> Void = { _, _ in }
    ) throws -> Place {
        var number = file.numbering(key)
        while true {
            let place = try db.firstRow(of: Self.byNumber, .integer(number)) { row -> Place? in
                let isIntact = Self.isSealed(row)
                let isOurs = row.buffer(0).elementsEqual(key)
                // Another key with the same hash: ours is behind it. A damaged row may be either.
                if !isOurs, isIntact { return nil }
                guard isIntact else {
                    let error = damage("table entry, row \(number): its seal does not match")
                    return Place(number: number, content: .damaged(error, isOurs: isOurs))
                }
                var place = Place(number: number, content: .deleted, sequence: row.integer(2))
                if !row.isNull(1) {
                    let version = EntryVersion(bytes: row.bytes(1))
                    place.content = .version(version)
                    try found(row, version)
                }
                return place
            }
            guard let place else { return Place(number: number, content: .nothing) }
            if let place { return place }
            number &+= 1
        }
    }

    /// The keys that begin with `prefix`, after `cursor`.
    func page(prefix: String, after cursor: EntryKey?, limit: Int) throws -> KeyPage {
        var start = Array(prefix.utf8)
        if let cursor {
            // The smallest key behind the cursor's.
            let next = Array(cursor.text.utf8) + [0]
            if start.lexicographicallyPrecedes(next) { start = next }
        }
        var items: [KeyPage.Item] = []
        var hasMore = false
        var last: [UInt8] = []
        try db.forEachRow(of: Self.listed, .bytes(start)) { row in
            let bytes = row.bytes(0)
            guard bytes.starts(with: prefix.utf8) else { return false }
            guard items.count < limit else {
                hasMore = true
                return false
            }
            guard Self.isSealed(row), !row.isNull(1), last.lexicographicallyPrecedes(bytes),
                let text = String(validating: bytes, as: UTF8.self), let key = try? EntryKey(text)
            else {
                throw damage("index liveEntryByKey and table entry disagree at \"\(Self.readable(bytes))\"")
            }
            items.append(KeyPage.Item(key: key, version: EntryVersion(bytes: row.bytes(1))))
            last = bytes
            return true
        }
        return KeyPage(items: items, next: hasMore ? items.last?.key : nil)
    }

    /// Puts `entry` under `key` in the row at `place`, as change `sequence`; `nil` deletes.
    func put(_ entry: Entry?, under key: [UInt8], at place: Place, sequence: Int64) throws {
        let checksum = entry.map { $0.value.withUnsafeBytes { Seals.checksum(of: $0) } } ?? 0
        let version = entry?.version.bytes ?? []
        let seal = key.withUnsafeBytes { key in
            version.withUnsafeBytes { version in
                Seals.seal(key: key, version: version, sequence: sequence, checksum: checksum)
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

    /// Whether the row's key, version, sequence and checksum are those that were written together.
    static func isSealed(_ row: StatementRow) -> Bool {
        let version = row.buffer(1)
        guard version.count <= 64, row.isNull(1) || !version.isEmpty else { return false }
        return row.integer(4)
            == Seals.seal(key: row.buffer(0), version: version, sequence: row.integer(2), checksum: row.integer(3))
    }

    private func value(of row: StatementRow, key: EntryKey) throws -> [UInt8] {
        let buffer = row.buffer(5)
        guard Seals.checksum(of: buffer) == row.integer(3) else {
            throw damage("table entry, row \(file.numbering(Array(key.text.utf8))): the value's checksum differs")
        }
        return Array(buffer)
    }

    private func damage(_ what: String) -> BackendError { BackendError(damagedAt: file.path, what) }

    static func readable(_ bytes: [UInt8]) -> String {
        String(decoding: bytes.prefix(80).map { $0 < 0x20 || $0 == 0x7F ? UInt8(ascii: "?") : $0 }, as: UTF8.self)
    }
}
