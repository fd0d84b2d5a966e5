import SyncCore

/// The sequence of changes in a log, from which pages are read.
struct ChangeSequence: Sendable {
    /// Sorted by sequence, with gaps where superseded changes were dropped.
    private var records: [ChangeFile.Record] = []
    private var latest: [EntryKey: (sequence: UInt64, version: EntryVersion?)] = [:]
    private let recognizedCount: Int

    init(recognizedCount: Int = 0) {
        self.recognizedCount = recognizedCount
    }

    /// The sequence of the last change, 0 if there is none.
    var lastSequence: UInt64 { records.last?.cursor.sequence ?? 0 }

    /// The keys that have an entry, with their versions.
    var versions: [EntryKey: EntryVersion] { latest.compactMapValues(\.version) }

    /// Appends the next record of the log. Amortized O(1).
    mutating func append(_ record: ChangeFile.Record) {
        records.append(record)
        latest[record.key] = (record.cursor.sequence, record.version)
        if records.count > 2 * (latest.count + recognizedCount) + 16 { dropSuperseded() }
    }

    /// The position of the last change; `nil` if there is none.
    var latestCursor: ChangeCursor? { records.last?.cursor }

    /// Returns the keys that begin with `prefix` and changed after `cursor`, at most `limit`, in the order of their
    /// latest change.
    func page(since cursor: ChangeCursor?, prefix: String, limit: Int) throws(BackendError) -> ChangePage {
        var draft = ChangePageDraft(since: cursor, prefix: prefix, limit: limit)
        for record in records[try startIndex(after: cursor)...] {
            if latest[record.key]?.sequence == record.cursor.sequence {
                let change = ChangePage.Change(key: record.key, version: record.version)
                guard draft.append(change, at: record.cursor) else { break }
            } else {
                draft.pass(record.cursor)
            }
        }
        return draft.page
    }

    private func startIndex(after cursor: ChangeCursor?) throws(BackendError) -> Int {
        guard let cursor else { return 0 }
        let index = records.partitioningIndex { $0.cursor.sequence >= cursor.sequence }
        guard index < records.count, records[index].cursor == cursor else {
            throw BackendError(
                .cursorExpired, operation: .changes,
                message: "this store has no change \(cursor.sequence) with this tag; read everything again")
        }
        return index + 1
    }

    private mutating func dropSuperseded() {
        let first = records.count - min(records.count, recognizedCount)
        records = records.enumerated().filter { index, record in
            index >= first || latest[record.key]?.sequence == record.cursor.sequence
        }.map(\.element)
    }
}
