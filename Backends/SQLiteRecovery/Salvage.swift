import SQLiteStorage
import SyncCore

/// Copies the intact rows from the pages of a damaged store to a new store.
struct Salvage {
    let pages: PageSource

    /// Fills the new store.
    func run(into draft: inout StoreDraft) throws -> RecoveryReport {
        var recovery = Recovery()
        for number in stride(from: 1, through: pages.pageCount, by: 1) {
            let (isTable, cells) = Cell.cells(onPage: number, of: pages)
            for cell in cells {
                if let row = cell.flatMap(Self.row), isTable {
                    try recovery.put(row, into: &draft)
                } else if let change = cell.flatMap(Self.change) {
                    recovery.record(change)
                } else if let cell {
                    recovery.record(cell)
                } else {
                    recovery.damagedRowCount += 1
                }
            }
        }
        try recovery.dropOutdated(from: draft)
        let missed = recovery.missed
        if !missed.isEmpty {
            for number in stride(from: 1, through: pages.pageCount, by: 1) {
                let rows = Cell.suspectedCells(onPage: number, of: pages).compactMap(Self.row)
                for row in rows where missed.contains(row.key) { try recovery.put(row, into: &draft) }
            }
            try recovery.dropOutdated(from: draft)
        }
        guard pages.isStore || !recovery.isEmpty else {
            throw BackendError(.notAStore, message: "\(pages.path): the file has no part of a store")
        }
        return RecoveryReport(
            recoveredCount: recovery.liveCount,
            lostKeys: recovery.missed.sorted { $0.lexicographicallyPrecedes($1) }.map { EntryTable.readable($0) },
            missingCount: recovery.missingCount, damagedRowCount: recovery.damagedRowCount)
    }

    /// The change in `cell`, if it is intact.
    private static func change(_ cell: Cell) -> Recovery.Change? {
        // The sequence is null in the record, because it is the row number.
        guard cell.columns.count == 4, cell.columns[0] == .null, let sequence = cell.rowID,
            case .integer(let tag) = cell.columns[1], case .integer(let entry) = cell.columns[2],
            case .integer(let expected) = cell.columns[3],
            expected == RowChecksums.checksum(sequence: sequence, tag: tag, entry: entry)
        else { return nil }
        return Recovery.Change(sequence: sequence, entry: entry)
    }

    /// The row in `cell`, if it is intact.
    private static func row(_ cell: Cell) -> Recovery.Row? {
        // The ID is null in the record, because it is the row number.
        guard cell.columns.count == 8, case .bytes(let key) = cell.columns[1],
            case .integer(let sequence) = cell.columns[4], case .integer(let checksum) = cell.columns[5],
            case .integer(let expected) = cell.columns[6], let text = String(validating: key, as: UTF8.self),
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
        let actual = key.withUnsafeBytes { key in
            version.withUnsafeBytes { version in
                RowChecksums.checksum(key: key, version: version, sequence: sequence, checksum: checksum)
            }
        }
        guard actual == expected else { return nil }
        guard let value else { return Recovery.Row(key: key, entry: nil, sequence: sequence) }
        guard value.withUnsafeBytes({ RowChecksums.checksum(of: $0) }) == checksum else { return nil }
        return Recovery.Row(
            key: key, entry: Entry(value: value, version: EntryVersion(bytes: version)), sequence: sequence)
    }
}
