import GRDB
import SyncCore

/// What has come back so far of a damaged store, in the new one; and what is known to be missed.
struct Recovery {
    /// A row of `entry` whose seal and checksum are right.
    struct Row {
        let key: [UInt8]
        /// `nil` where the key was deleted.
        let entry: Entry?
        let sequence: Int64
    }

    /// A row of `change` whose seal is right: there is a row `entry` whose key had this sequence once.
    struct Change {
        let sequence: Int64
        let entry: Int64
    }

    /// How many rows were found that cannot be believed.
    var damagedRowCount = 0
    private let db: Database
    private let entries: EntryTable
    private let changes: ChangeTable
    /// The sequence, in the damaged store, of what came back.
    private var recovered: [[UInt8]: (sequence: Int64, isLive: Bool)] = [:]
    /// The sequence of the latest row of a key that is not whole.
    private var damaged: [[UInt8]: Int64] = [:]
    /// The latest sequence of every row that the table of changes knows, in the damaged store.
    private var latest: [Int64: Int64] = [:]
    /// The keys that the index names.
    private var named: Set<[UInt8]> = []
    private var sequence: Int64 = 0

    init(db: Database, file: StoreFile) {
        self.db = db
        entries = EntryTable(db: db, file: file)
        changes = ChangeTable(db: db, file: file)
    }

    /// How many keys have an entry again.
    var liveCount: Int { recovered.values.count { $0.isLive } }

    /// Whether nothing of a store was found.
    var isEmpty: Bool {
        recovered.isEmpty && damaged.isEmpty && named.isEmpty && latest.isEmpty && damagedRowCount == 0
    }

    /// How many keys there were of which neither entry nor name is left.
    var missingCount: Int {
        // A row has the number of its key's hash, unless two keys have one hash.
        let known = Set(recovered.keys.map { RowChecksums.number(of: $0) } + missed.map { RowChecksums.number(of: $0) })
        return latest.keys.count { !known.contains($0) }
    }

    /// The keys that are known to have been there and did not come back.
    var missed: Set<[UInt8]> { named.union(damaged.keys).filter { recovered[$0] == nil } }

    /// Takes `row`, unless a later one of its key has come back.
    mutating func put(_ row: Row, tag: UInt64) throws {
        if let known = recovered[row.key], known.sequence >= row.sequence { return }
        recovered[row.key] = (row.sequence, row.entry != nil)
        sequence += 1
        let place = try entries.lookup().locate(row.key)
        try entries.put(row.entry, under: row.key, at: place, sequence: sequence)
        try changes.append(sequence: sequence, tag: tag, entry: place.number, superseding: 0)
        if place.sequence > 0 { try forget(change: place.sequence) }
    }

    /// Notes what a cell that is no whole row says of keys: a row that is not, or an entry of the index.
    mutating func note(_ cell: Cell) {
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

    /// Notes what a row of `change` says.
    mutating func note(_ change: Change) {
        latest[change.entry] = max(latest[change.entry] ?? 0, change.sequence)
    }

    /// Gives up what is older than a row that is not whole: it is not what was stored last.
    mutating func dropOutdated() throws {
        // A row in the unused part of a page may be whole and of old. The changes know the key's last sequence.
        for (key, row) in recovered {
            if let last = latest[RowChecksums.number(of: key)], last > row.sequence {
                damaged[key] = max(damaged[key] ?? 0, last)
            }
        }
        for (key, sequence) in damaged {
            guard let known = recovered[key], known.sequence < sequence else { continue }
            recovered[key] = nil
            let place = try entries.lookup().locate(key)
            try db.change("DELETE FROM entry WHERE id = ?", .integer(place.number))
            try forget(change: place.sequence)
        }
    }

    private func forget(change sequence: Int64) throws {
        try db.change("DELETE FROM change WHERE sequence = ?", .integer(sequence))
    }
}
