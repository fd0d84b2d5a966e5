import GRDB
import SyncCore

/// A write or delete with everything needed to evaluate it, possibly more than once.
struct PreparedWrite: Sendable {
    let key: EntryKey
    /// The new entry, or `nil` to delete the key.
    let entry: Entry?
    let precondition: Precondition
    /// The tag of the resulting change.
    let tag: UInt64

    var operation: BackendError.Operation { entry == nil ? .delete : .write }
}

/// Performs writes and deletes in order, in one open transaction.
struct StoreTransaction {
    private let entries: EntryTable
    private let lookup: EntryLookup
    private let changes: ChangeTable
    /// The latest change of this transaction; `nil` if there is none.
    private(set) var latest: ChangeCursor?
    /// The sequence of the latest change before the transaction.
    private let start: Int64
    private var sequence: Int64

    init(db: Database, file: StoreFile) throws {
        entries = EntryTable(db: db, file: file)
        lookup = try entries.lookup()
        changes = ChangeTable(db: db, file: file)
        start = try changes.latest().map { Int64(bitPattern: $0.sequence) } ?? 0
        sequence = start
    }

    /// Performs `write` if its precondition holds.
    ///
    /// - Throws: A `BackendError` if nothing of this write was done; any other error if it was interrupted halfway.
    mutating func perform(_ write: PreparedWrite) throws -> WriteOutcome {
        let key = Array(write.key.text.utf8)
        let place = try lookup.locate(key)
        switch (place.content, write.precondition) {
        case (.damaged(_, isOurs: true), .any):
            // The damaged entry could not be read anyway, and the write makes the key readable again.
            break
        default:
            let current = try place.version()
            if current == nil { try entries.confirmAbsence(of: write.key) }
            guard write.precondition.holds(for: current) else { return .conflict(try entry(of: write.key)) }
            if current == nil, write.entry == nil { return .deleted }
        }
        sequence += 1
        try entries.put(write.entry, under: key, at: place, sequence: sequence)
        try changes.append(sequence: sequence, tag: write.tag, entry: place.number, superseding: place.sequence)
        latest = ChangeCursor(sequence: UInt64(bitPattern: sequence), tag: write.tag)
        return write.entry.map { .written($0.version) } ?? .deleted
    }

    /// Completes the work of the transaction before its commit.
    func finish() throws { try changes.sweep(from: start, to: sequence) }

    private func entry(of key: EntryKey) throws -> Entry? {
        if case .found(let entry) = try lookup.read(key, unless: nil) { entry } else { nil }
    }
}
