import GRDB

/// The tables of a store's database, and the steps from one version of them to the next.
///
/// - `entry` has a row for every key that holds a value, or was deleted lately. Its number is a hash of the key, so a
///   key is found by number; the index finds it by its bytes. A read believes an absence only when both ways find
///   nothing, so a damaged page cannot pass for one. A deleted key keeps its row, without version and value, for as
///   long as a cursor may need the deletion, see ``ChangeTable``.
/// - `checksum` is that of the value. `seal` covers everything else in the row, and `checksum`.
/// - `change` has the latest change of every key, and recent superseded ones to recognise cursors by.
enum StoreSchema {
    /// The `PRAGMA application_id` of a store: "EnSy".
    static let applicationID: Int64 = 0x456E_5379

    /// The `PRAGMA user_version` after all steps.
    static var version: Int64 { Int64(steps.count) }

    static let pageSize = 4_096

    /// The statements that lead from each version to the next. A released step never changes.
    ///
    /// A store is migrated when it is opened for writing. Until then it is read as it is, because all versions have the
    /// same tables; a step that changes them must also be taken before the first read.
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
        // Old deletions are removed from here on. Software that accepts cursors of any age must not use the store.
        [],
    ]

    /// The tables of the present version.
    static let tables = ["change", "entry"]

    /// The kind of a database, by the names in it.
    enum Identity: Equatable {
        /// It contains nothing.
        case empty
        /// A store of this version.
        case store(version: Int64)
        /// The database of another application, with the reason for this verdict.
        case foreign(String)
    }

    /// The kind of the database behind `db`, by its header and the names of its tables.
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
        guard application == applicationID else { return .foreign("it is another application's database") }
        // A later version may have other tables.
        if version > Self.version { return .store(version: version) }
        guard version >= 1, names == tables else {
            return .foreign("it has the tables \(names), where a store has \(tables)")
        }
        return .store(version: version)
    }

    /// The present number of `PRAGMA name`. A cached statement would repeat its first answer.
    static func pragma(_ name: String, in db: Database) throws -> Int64 {
        try Int64.fetchOne(db, sql: "PRAGMA \(name)") ?? 0
    }

    /// Migrates the database from version `start` to the present one, in the caller's transaction.
    static func migrate(_ db: Database, from start: Int64) throws {
        guard start < version else { return }
        for statement in steps[Int(start)...].joined() { try db.execute(sql: statement) }
        try db.execute(sql: "PRAGMA application_id = \(applicationID)")
        try db.execute(sql: "PRAGMA user_version = \(version)")
    }
}
