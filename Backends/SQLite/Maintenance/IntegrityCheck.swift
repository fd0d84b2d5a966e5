import GRDB
import SyncCore

/// Checks all pages and rows of a store in one read transaction.
struct IntegrityCheck {
    let db: Database
    let file: StoreFile

    private static let maximumProblemCount = 100

    func run() throws -> IntegrityReport {
        // Collected from both lookups, because the table or the index may be damaged.
        var damaged: Set<[UInt8]> = []
        var whole: Set<Int64> = []
        let problems = try [
            gather { try checkPages(&$0) },
            gather { _ in try checkRows(damaged: &damaged, whole: &whole) },
            gather { _ in try checkIndex(damaged: &damaged, whole: whole) },
            gather { try checkChanges(&$0) },
        ]
        return IntegrityReport(
            wholeCount: whole.count,
            damagedKeys: damaged.sorted { $0.lexicographicallyPrecedes($1) }.map { EntryTable.readable($0) },
            problems: Array(problems.joined().prefix(Self.maximumProblemCount)))
    }

    /// Collects the problems that `body` finds. An error of SQLite is one more problem, and the check continues.
    private func gather(_ body: (inout [String]) throws -> Void) throws -> [String] {
        var problems: [String] = []
        do {
            try body(&problems)
        } catch let error as DatabaseError where error.resultCode != .SQLITE_BUSY {
            problems.append("\(file.path): \(error.message ?? "unreadable")")
        }
        return problems
    }

    private func checkPages(_ problems: inout [String]) throws {
        try db.forEachRow(of: "PRAGMA integrity_check(\(Self.maximumProblemCount))") { row in
            let line = String(decoding: row.buffer(0), as: UTF8.self)
            if line != "ok" { problems.append(contentsOf: line.split(separator: "\n").map(String.init)) }
            return true
        }
    }

    private func checkRows(damaged: inout Set<[UInt8]>, whole: inout Set<Int64>) throws {
        let rows = "SELECT key, version, sequence, checksum, seal, value, id, live FROM entry ORDER BY id"
        try db.forEachRow(of: rows) { row in
            let isLive = !row.isNull(1)
            guard EntryLookup.hasValidChecksum(row),
                RowChecksums.checksum(of: row.buffer(5)) == row.integer(3) || !isLive,
                (row.integer(7) == 1) == isLive
            else {
                damaged.insert(row.bytes(0))
                return true
            }
            // If the key does not lead to the row, neither the row nor its change can be read.
            let key = row.bytes(0)
            if row.integer(6) != file.numbering(key), try !isFound(key, inRow: row.integer(6)) {
                damaged.insert(key)
                return true
            }
            if isLive { whole.insert(row.integer(6)) }
            return true
        }
    }

    /// Returns `true` if the lookup of `key` finds row `number`, possibly after rows of other keys with the same hash.
    private func isFound(_ key: [UInt8], inRow number: Int64) throws -> Bool {
        try EntryTable(db: db, file: file).lookup().locate(key).number == number
    }

    private func checkIndex(damaged: inout Set<[UInt8]>, whole: Set<Int64>) throws {
        let names = "SELECT key, id FROM entry INDEXED BY liveEntryByKey WHERE live = 1 ORDER BY key"
        try db.forEachRow(of: names) { row in
            if !whole.contains(row.integer(1)) { damaged.insert(row.bytes(0)) }
            return true
        }
    }

    private func checkChanges(_ problems: inout [String]) throws {
        try db.forEachRow(of: "SELECT sequence, tag, entry, seal FROM change ORDER BY sequence") { row in
            let checksum = RowChecksums.checksum(sequence: row.integer(0), tag: row.integer(1), entry: row.integer(2))
            if checksum != row.integer(3), problems.count < Self.maximumProblemCount {
                problems.append("table change, row \(row.integer(0)): its row checksum does not match")
            }
            return true
        }
        let missing = try db.firstRow(
            of: "SELECT count(*) FROM entry WHERE sequence NOT IN (SELECT sequence FROM change)"
        ) { $0.integer(0) }
        let lost = try db.firstRow(
            of: "SELECT count(*) FROM change WHERE entry NOT IN (SELECT id FROM entry)"
        ) { $0.integer(0) }
        if let lost, lost > 0 { problems.append("table entry: the rows of \(lost) changes are missing") }
        if let missing, missing > 0 { problems.append("table change: the latest change of \(missing) keys is missing") }
    }
}
