import SyncCore

/// Finds the row of a key by the key's hash. Most reads need only this one statement.
struct EntryLookup {
    /// The statement ``sql``.
    let byNumber: PreparedStatement
    let file: StoreFile

    static let sql = "SELECT key, version, sequence, checksum, seal, value FROM entry WHERE id = ?"

    /// The row in which a key is or would be stored, and the content of that row.
    struct Place {
        enum Content {
            /// The key was never written, or its tombstone row was removed.
            case nothing
            /// The key was deleted.
            case deleted
            case version(EntryVersion)
            /// A row whose checksum does not match. `isOurs` is `true` if the key in it is the requested one.
            case damaged(BackendError, isOurs: Bool)
        }

        var number: Int64
        var content: Content
        /// The sequence of the key's latest change, 0 if there is none.
        var sequence: Int64 = 0

        /// The version; `nil` if the key is absent. Throws if the row is damaged.
        func version() throws(BackendError) -> EntryVersion? {
            switch content {
            case .nothing, .deleted: nil
            case .version(let version): version
            case .damaged(let error, _): throw error
            }
        }
    }

    /// Reads `key`. An absence may be the result of damage, see ``EntryTable/readConfirmed(_:unless:)``.
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
    /// - Parameter found: Called with the row and its version if the row is intact and has an entry.
    func locate(
        _ key: [UInt8], found: (StatementRow, EntryVersion) throws -> Void = { _, _ in }
    ) throws -> Place {
        var number = file.numbering(key)
        var attempt = 0
        while true {
            let place = try byNumber.firstRow(number) { row -> Place? in
                let isIntact = Self.hasValidChecksum(row)
                let isOurs = row.has(key, in: 0)
                // Another key with the same hash has this row, so the requested key is in a later one. A damaged row
                // may belong to either key.
                if !isOurs, isIntact { return nil }
                guard isIntact else {
                    let error = damage("table entry, row \(number): its row checksum does not match")
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
            // Later attempts use another hash, so keys that were crafted to collide under the first one do not prolong
            // the search.
            number = attempt == 1 ? number &+ 1 : RowChecksums.number(of: key, attempt: attempt)
        }
    }

    /// Returns `true` if the row's checksum matches its key, version, sequence and value checksum.
    static func hasValidChecksum(_ row: StatementRow) -> Bool {
        let version = row.buffer(1)
        guard version.count <= 64, row.isNull(1) || !version.isEmpty else { return false }
        return row.integer(4)
            == RowChecksums.checksum(
                key: row.buffer(0), version: version, sequence: row.integer(2), checksum: row.integer(3))
    }

    private func value(of row: StatementRow, key: EntryKey) throws -> [UInt8] {
        let buffer = row.buffer(5)
        guard RowChecksums.checksum(of: buffer) == row.integer(3) else {
            throw damage(
                "table entry, row \(file.numbering(Array(key.text.utf8))): the checksum of its value does not match")
        }
        return Array(buffer)
    }

    private func damage(_ what: String) -> BackendError { BackendError(damagedAt: file.path, what) }
}
