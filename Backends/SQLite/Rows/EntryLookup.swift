import SyncCore

/// Finding the row of a key by its hash: all that most reads need, with one statement.
struct EntryLookup {
    /// The statement ``sql``.
    let byNumber: PreparedStatement
    let file: StoreFile

    static let sql = "SELECT key, version, sequence, checksum, seal, value FROM entry WHERE id = ?"

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

    /// Reads `key`. That nothing is there may be damage, see ``EntryTable/readConfirmed(_:unless:)``.
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

    /// Finds the row of `key`.
    ///
    /// - Parameter found: is called with the whole row and its version, when it can be believed.
    func locate(
        _ key: [UInt8], found: (StatementRow, EntryVersion) throws -> Void = { _, _ in }
    ) throws -> Place {
        var number = file.numbering(key)
        var attempt = 0
        while true {
            let place = try byNumber.firstRow(number) { row -> Place? in
                let isIntact = Self.isSealed(row)
                let isOurs = row.has(key, in: 0)
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
            attempt += 1
            // Keys that somebody has made to share one hash share no other: no number of them makes this long.
            number = attempt == 1 ? number &+ 1 : RowChecksums.number(of: key, attempt: attempt)
        }
    }

    /// Whether the row's key, version, sequence and checksum are those that were written together.
    static func isSealed(_ row: StatementRow) -> Bool {
        let version = row.buffer(1)
        guard version.count <= 64, row.isNull(1) || !version.isEmpty else { return false }
        return row.integer(4)
            == RowChecksums.seal(key: row.buffer(0), version: version, sequence: row.integer(2), checksum: row.integer(3))
    }

    private func value(of row: StatementRow, key: EntryKey) throws -> [UInt8] {
        let buffer = row.buffer(5)
        guard RowChecksums.checksum(of: buffer) == row.integer(3) else {
            throw damage("table entry, row \(file.numbering(Array(key.text.utf8))): the value's checksum differs")
        }
        return Array(buffer)
    }

    private func damage(_ what: String) -> BackendError { BackendError(damagedAt: file.path, what) }
}
