import BenchmarkSupport
import GRDBSQLite
import SyncCoreTesting

/// The baseline of the SQLite store: the same statements through the C API of SQLite, with only the calls that they
/// need. It neither computes checksums nor compares keys, and uses one thread.
final class PlainSQLite {
    private let database: OpaquePointer
    private let select: OpaquePointer
    private let begin: OpaquePointer
    private let latest: OpaquePointer
    private let update: OpaquePointer
    private let insert: OpaquePointer
    private let note: OpaquePointer
    private let forget: OpaquePointer
    private let commit: OpaquePointer

    init(path: String) {
        var opened: OpaquePointer?
        let code = sqlite3_open_v2(path, &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nil)
        guard code == SQLITE_OK, let database = opened else { exitWithFailure("sqlite3_open_v2: \(code)") }
        self.database = database
        for sql in [
            "PRAGMA page_size = 4096", "PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL",
            """
            CREATE TABLE entry (id INTEGER PRIMARY KEY, key BLOB NOT NULL, live INTEGER NOT NULL, version BLOB,
            sequence INTEGER NOT NULL, checksum INTEGER NOT NULL, seal INTEGER NOT NULL, value BLOB)
            """,
            "CREATE UNIQUE INDEX liveEntryByKey ON entry (key) WHERE live = 1",
            """
            CREATE TABLE change (
            sequence INTEGER PRIMARY KEY, tag INTEGER NOT NULL, entry INTEGER NOT NULL, seal INTEGER NOT NULL)
            """,
        ] {
            guard sqlite3_exec(database, sql, nil, nil, nil) == SQLITE_OK else { exitWithFailure("sqlite3: \(sql)") }
        }
        select = Self.prepare("SELECT key, version, sequence, checksum, seal, value FROM entry WHERE id = ?", database)
        begin = Self.prepare("BEGIN IMMEDIATE", database)
        latest = Self.prepare("SELECT sequence, tag FROM change ORDER BY sequence DESC LIMIT 1", database)
        update = Self.prepare(
            "UPDATE entry SET version = ?, sequence = ?, checksum = ?, seal = ?, value = ? WHERE id = ?", database)
        insert = Self.prepare("INSERT INTO entry VALUES (?, ?, 1, ?, ?, 0, 0, ?)", database)
        note = Self.prepare("INSERT INTO change (sequence, tag, entry, seal) VALUES (?, ?, ?, ?)", database)
        forget = Self.prepare("DELETE FROM change WHERE sequence = ?", database)
        commit = Self.prepare("COMMIT", database)
    }

    deinit {
        for statement in [select, begin, latest, update, insert, note, forget, commit] { sqlite3_finalize(statement) }
        sqlite3_close(database)
    }

    /// Inserts `count` entries in one transaction.
    func fill(_ keys: [[UInt8]], value: [UInt8]) {
        run(begin)
        for (index, key) in keys.enumerated() {
            bind(insert, 1, Self.number(index))
            bind(insert, 2, key)
            bind(insert, 3, Self.version(of: index))
            bind(insert, 4, Int64(index + 1))
            bind(insert, 5, value)
            run(insert)
            notes(Int64(index + 1), of: index)
        }
        run(commit)
    }

    /// Reads the key, version and value of entry `index` as arrays.
    func read(_ index: Int) -> UInt64 {
        defer { sqlite3_reset(select) }
        bind(select, 1, Self.number(index))
        guard sqlite3_step(select) == SQLITE_ROW else { exitWithFailure("no entry \(index)") }
        let version = Self.bytes(select, 1)
        let value = Self.bytes(select, 5)
        return UInt64(version.count + value.count) &+ UInt64(bitPattern: sqlite3_column_int64(select, 2))
    }

    /// Replaces entry `index` if it has the expected version and records the change, in one durable transaction.
    func write(_ value: [UInt8], to index: Int) -> UInt64 {
        run(begin)
        guard sqlite3_step(latest) == SQLITE_ROW else { exitWithFailure("nothing ever changed") }
        let sequence = sqlite3_column_int64(latest, 0) + 1
        sqlite3_reset(latest)
        bind(select, 1, Self.number(index))
        guard sqlite3_step(select) == SQLITE_ROW, !Self.bytes(select, 1).isEmpty else {
            exitWithFailure("no entry \(index)")
        }
        let previous = sqlite3_column_int64(select, 2)
        sqlite3_reset(select)
        bind(update, 1, Self.version(of: Int(sequence)))
        bind(update, 2, sequence)
        bind(update, 3, 0)
        bind(update, 4, 0)
        bind(update, 5, value)
        bind(update, 6, Self.number(index))
        run(update)
        notes(sequence, of: index)
        if previous < sequence - 10_000 {
            bind(forget, 1, previous)
            run(forget)
        }
        run(commit)
        return UInt64(sequence)
    }

    private func notes(_ sequence: Int64, of index: Int) {
        bind(note, 1, sequence)
        bind(note, 2, Self.number(Int(sequence)))
        bind(note, 3, Self.number(index))
        bind(note, 4, 0)
        run(note)
    }

    private func run(_ statement: OpaquePointer) {
        let code = sqlite3_step(statement)
        guard code == SQLITE_DONE else { exitWithFailure("sqlite3_step: \(code)") }
        sqlite3_reset(statement)
    }

    private func bind(_ statement: OpaquePointer, _ index: Int32, _ value: Int64) {
        sqlite3_bind_int64(statement, index, value)
    }

    private func bind(_ statement: OpaquePointer, _ index: Int32, _ value: [UInt8]) {
        let copying = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
        sqlite3_bind_blob64(statement, index, value, UInt64(value.count), copying)
    }

    private static func bytes(_ statement: OpaquePointer, _ column: Int32) -> [UInt8] {
        let start = sqlite3_column_blob(statement, column)
        return Array(UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement, column))))
    }

    private static func prepare(_ sql: String, _ database: OpaquePointer) -> OpaquePointer {
        var statement: OpaquePointer?
        let code = sqlite3_prepare_v3(database, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &statement, nil)
        guard code == SQLITE_OK, let statement else { exitWithFailure("sqlite3_prepare: \(sql)") }
        return statement
    }

    /// Spreads row ids as widely as the hashes of the store do.
    private static func number(_ index: Int) -> Int64 {
        var generator = SeededGenerator(seed: UInt64(index))
        return Int64(bitPattern: generator.next())
    }

    private static func version(of index: Int) -> [UInt8] {
        var generator = SeededGenerator(seed: UInt64(index))
        return withUnsafeBytes(of: (generator.next(), generator.next())) { Array($0) }
    }
}
