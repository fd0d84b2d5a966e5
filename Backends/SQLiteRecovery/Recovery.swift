import SQLiteStorage
import SyncCore

/// Writes recovered rows to the new store, and tracks which keys are missing.
struct Recovery {
    /// A row of `entry` with valid checksums.
    struct Row {
        let key: [UInt8]
        /// `nil` if the key was deleted.
        let entry: Entry?
        let sequence: Int64
    }

    /// A row of `change` with a valid row checksum. It implies that a row `entry` existed whose key had this sequence.
    struct Change {
        let sequence: Int64
        let entry: Int64
    }

    /// The number of damaged rows.
    var damagedRowCount = 0
    /// The recovered keys, with their sequences in the damaged store.
    private var recovered: [[UInt8]: (sequence: Int64, isLive: Bool)] = [:]
    /// The latest sequence found in a damaged row, for each key.
    private var damaged: [[UInt8]: Int64] = [:]
    /// The latest sequence of each row in the damaged store, from its table of changes.
    private var latest: [Int64: Int64] = [:]
    /// The keys that the index names.
    private var named: Set<[UInt8]> = []

    /// The number of keys with a recovered entry.
    var liveCount: Int { recovered.values.count { $0.isLive } }

    /// True if no part of a store was found.
    var isEmpty: Bool {
        recovered.isEmpty && damaged.isEmpty && named.isEmpty && latest.isEmpty && damagedRowCount == 0
    }

    /// The number of lost keys of which neither an entry nor the name was found.
    var missingCount: Int {
        // A row number is the hash of its key, unless two keys have the same hash.
        let known = Set(recovered.keys.map { RowChecksums.number(of: $0) } + missed.map { RowChecksums.number(of: $0) })
        return latest.keys.count { !known.contains($0) }
    }

    /// The keys that existed but were not recovered.
    var missed: Set<[UInt8]> { named.union(damaged.keys).filter { recovered[$0] == nil } }

    /// Stores `row`, unless a later one of its key was recovered.
    mutating func put(_ row: Row, into draft: inout StoreDraft) throws {
        if let known = recovered[row.key], known.sequence >= row.sequence { return }
        recovered[row.key] = (row.sequence, row.entry != nil)
        try draft.put(row.entry, under: row.key)
    }

    /// Records the key of a damaged row or of an index entry.
    mutating func record(_ cell: Cell) {
        switch cell.columns.count {
        case 8:
            guard case .bytes(let key) = cell.columns[1] else { return }
            damagedRowCount += 1
            let sequence = if case .integer(let number) = cell.columns[4] { number } else { Int64(0) }
            damaged[key] = max(damaged[key] ?? 0, sequence)
        case 2:
            if case .bytes(let key) = cell.columns[0], case .integer = cell.columns[1] { named.insert(key) }
        default: break
        }
    }

    /// Records a row of `change`.
    mutating func record(_ change: Change) {
        latest[change.entry] = max(latest[change.entry] ?? 0, change.sequence)
    }

    /// Drops recovered rows that are older than a damaged row of the same key, because they are outdated.
    mutating func dropOutdated(from draft: StoreDraft) throws {
        // The unused part of a page may have intact but outdated rows. The changes have the key's last sequence.
        for (key, row) in recovered {
            if let last = latest[RowChecksums.number(of: key)], last > row.sequence {
                damaged[key] = max(damaged[key] ?? 0, last)
            }
        }
        for (key, sequence) in damaged {
            guard let known = recovered[key], known.sequence < sequence else { continue }
            recovered[key] = nil
            try draft.remove(key)
        }
    }
}
