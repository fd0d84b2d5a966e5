import GRDB
import SyncCore

/// Brings the rows that are whole from the pages of a damaged store into a new one.
struct Salvage {
    let pages: PageSource
    let host: HostServices

    /// A row of `entry` whose seal and checksum are right.
    private struct Row {
        let key: [UInt8]
        /// `nil` where the key was deleted.
        let entry: Entry?
        let sequence: Int64
    }

    /// Makes the new store at `path`.
    func run(into path: String) throws -> RecoveryReport {
        let file = StoreFile(path: path, mayBeMade: true)
        try file.make()
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            // The file gets its name only when all of it is on the disk, and has no log beside it then.
            try db.execute(sql: "PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA")
        }
        let database = try DatabaseQueue(path: path, configuration: configuration)
        var report = RecoveryReport(recoveredCount: 0, lostKeys: [], damagedRowCount: 0)
        try database.inDatabase { db in
            try db.inTransaction(.exclusive) {
                try fill(db, file: file, &report)
                return .commit
            }
            try StoreFile.useWriteAheadLog(db, path: path)
        }
        try database.close()
        return report
    }

    private func fill(_ db: Database, file: StoreFile, _ report: inout RecoveryReport) throws {
        let entries = EntryTable(db: db, file: file)
        let changes = ChangeTable(db: db, path: file.path)
        /// The sequence of what is recovered so far, in the damaged store.
        var recovered: [[UInt8]: (sequence: Int64, isLive: Bool)] = [:]
        /// The sequence of the latest row of a key that is not whole.
        var damaged: [[UInt8]: Int64] = [:]
        var named: Set<[UInt8]> = []
        var sequence: Int64 = 0
        for number in stride(from: 1, through: pages.pageCount, by: 1) {
            let (isTable, cells) = Cell.cells(onPage: number, of: pages)
            for cell in cells {
                guard isTable else {
                    if let key = cell.flatMap(Self.indexedKey) { named.insert(key) }
                    continue
                }
                guard let cell, let row = Self.row(cell) else {
                    if let (key, sequence) = cell.flatMap(Self.suspect) {
                        damaged[key] = max(damaged[key] ?? 0, sequence)
                    } else if cell != nil {
                        continue
                    }
                    report.damagedRowCount += 1
                    continue
                }
                if let known = recovered[row.key], known.sequence >= row.sequence { continue }
                recovered[row.key] = (row.sequence, row.entry != nil)
                sequence += 1
                let place = try entries.locate(row.key)
                try entries.put(row.entry, under: row.key, at: place, sequence: sequence)
                if place.sequence > 0 {
                    try db.change("DELETE FROM change WHERE sequence = ?", .integer(place.sequence))
                }
                try changes.append(
                    sequence: sequence, tag: host.randomBits(), entry: place.number, superseding: 0)
            }
        }
        // What is older than a row that is not whole is not what was stored last.
        for (key, sequence) in damaged where recovered[key].map({ $0.sequence < sequence }) ?? false {
            recovered[key] = nil
            let place = try entries.locate(key)
            try db.change("DELETE FROM entry WHERE id = ?", .integer(place.number))
            try db.change("DELETE FROM change WHERE sequence = ?", .integer(place.sequence))
        }
        named.formUnion(damaged.keys)
        report.recoveredCount = recovered.values.count { $0.isLive }
        report.lostKeys = named.filter { recovered[$0] == nil }.sorted { $0.lexicographicallyPrecedes($1) }
            .map { EntryTable.readable($0) }
    }

    /// The row that is in `cell`, if it is whole.
    private static func row(_ cell: Cell) -> Row? {
        // id is null in the record: its value is the row's number.
        guard cell.columns.count == 8, case .bytes(let key) = cell.columns[1],
            case .integer(let sequence) = cell.columns[4], case .integer(let checksum) = cell.columns[5],
            case .integer(let seal) = cell.columns[6], let text = String(validating: key, as: UTF8.self),
            (try? EntryKey(text)) != nil
        else { return nil }
        let version: [UInt8]
        let value: [UInt8]?
        switch (cell.columns[3], cell.columns[7]) {
        case (.null, .null): (version, value) = ([], nil)
        case (.bytes(let first), .bytes(let second)) where (1...64).contains(first.count):
            (version, value) = (first, second)
        default: return nil
        }
        let expected = key.withUnsafeBytes { key in
            version.withUnsafeBytes { version in
                Seals.seal(key: key, version: version, sequence: sequence, checksum: checksum)
            }
        }
        guard expected == seal else { return nil }
        guard let value else { return Row(key: key, entry: nil, sequence: sequence) }
        guard value.withUnsafeBytes({ Seals.checksum(of: $0) }) == checksum else { return nil }
        return Row(key: key, entry: Entry(value: value, version: EntryVersion(bytes: version)), sequence: sequence)
    }

    /// Key and sequence in a row that is not whole, as far as they can be believed.
    private static func suspect(_ cell: Cell) -> (key: [UInt8], sequence: Int64)? {
        guard cell.columns.count == 8, case .bytes(let key) = cell.columns[1] else { return nil }
        if case .integer(let sequence) = cell.columns[4] { return (key, sequence) }
        return (key, 0)
    }

    /// The key in a cell of the index, which has key and row number.
    private static func indexedKey(_ cell: Cell) -> [UInt8]? {
        guard cell.columns.count == 2, case .bytes(let key) = cell.columns[0], case .integer = cell.columns[1] else {
            return nil
        }
        return key
    }
}
