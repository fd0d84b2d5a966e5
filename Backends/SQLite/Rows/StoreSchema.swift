import GRDB

/// The tables of a store's database, and the migrations between their versions.
///
/// - `entry` has a row for each key that has a value or was deleted recently. The row number is a hash of the key, so a
///   key is found by number; the index finds it by its bytes. A read reports an absence only if both lookups find
///   nothing, so a damaged page cannot cause one. A deleted key keeps a tombstone row, without version and value, as
///   long as a cursor may need the deletion (see ``ChangeTable``).
/// - `checksum` is the checksum of the value. `seal` is the row checksum, over all other columns and `checksum`.
/// - `change` has the latest change of each key, and recent superseded changes to recognize cursors.
package enum StoreSchema {
    /// The `PRAGMA application_id` of a store: "EnSy".
    package static let applicationID: Int64 = 0x456E_5379

    /// The `PRAGMA user_version` after all steps.
    package static var version: Int64 { Int64(steps.count) }

    package static let pageSize = 4_096

    /// The statements that migrate each version to the next. A released step never changes.
    ///
    /// A store is migrated when it is opened for writing. Until then it is read unchanged, because all versions have
    /// the same tables. A step that changes the tables must also run before the first read.
    static let steps: [[String]] = [
        [
            """
            CREATE TABLE entry (
                id INTEGER PRIMARY KEY, key BLOB NOT NULL, live INTEGER NOT NULL, version BLOB,
                sequence INTEGER NOT NULL, checksum INTEGER NOT NULL, seal INTEGER NOT NULL, value BLOB)
            """,
            "CREATE UNIQUE INDEX liveEntryByKey ON entry (key) WHERE live = 1",
            """
            CREATE TABLE change (
                sequence INTEGER PRIMARY KEY, tag INTEGER NOT NULL, entry INTEGER NOT NULL, seal INTEGER NOT NULL)
            """,
        ],
        // From this version on, old deletions are removed. Software that accepts cursors of any age must not use the
        // store.
        [],
    ]

    /// The tables of the current version.
    static let tables = ["change", "entry"]

    /// The kind of a database, determined by its header and tables.
    enum Identity: Equatable {
        /// A database without tables.
        case empty
        /// A store of the given version.
        case store(version: Int64)
        /// The database of another application, and the reason for this classification.
        case foreign(String)
    }

    /// Determines the kind of the database behind `db` by its header and the names of its tables.
    static func identity(of db: Database) throws -> Identity {
        let application = try pragma("application_id", in: db)
        let version = try pragma("user_version", in: db)
        var names: [String] = []
        try db.forEachRow(of: "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name") { row in
            let name = String(decoding: row.buffer(0), as: UTF8.self)
            if !name.hasPrefix("sqlite_") { names.append(name) }
            return true
        }
        if application == 0, version == 0, names.isEmpty { return .empty }
        guard application == applicationID else { return .foreign("it is the database of another application") }
        // A later version may have other tables.
        if version > Self.version { return .store(version: version) }
        guard version >= 1, names == tables else {
            return .foreign("it has the tables \(names), but a store has \(tables)")
        }
        return .store(version: version)
    }

    /// The current number of `PRAGMA name`. Not cached, because a cached statement would repeat its first result.
    static func pragma(_ name: String, in db: Database) throws -> Int64 {
        try Int64.fetchOne(db, sql: "PRAGMA \(name)") ?? 0
    }

    /// Migrates the database from version `start` to the current one, in the caller's transaction.
    static func migrate(_ db: Database, from start: Int64) throws {
        guard start < version else { return }
        for statement in steps[Int(start)...].joined() { try db.execute(sql: statement) }
        try db.execute(sql: "PRAGMA application_id = \(applicationID)")
        try db.execute(sql: "PRAGMA user_version = \(version)")
    }
}
