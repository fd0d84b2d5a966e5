/// The sequence of a store's changes, each with a random tag, read in pages from a cursor.
///
/// The latest change of every key is kept for ever, deletions included, because a reader may start from nothing. A
/// change that was superseded by a later one of the same key is kept only to recognize old cursors. At least the newest
/// ``recognizedCount`` cursors are recognized; older ones may get ``BackendError/Kind/cursorExpired``. The log
/// therefore holds O(keys ever used + recognized) records, for any number of writes.
package struct ChangeLog: Sendable {
    private struct Record {
        var cursor: ChangeCursor
        var key: EntryKey
    }

    /// In ascending order of sequence, with gaps where superseded changes were dropped.
    private var records: [Record] = []
    private var latestSequences: [EntryKey: UInt64] = [:]

    /// The number of newest changes whose cursors are always recognized.
    package let recognizedCount: Int

    package init(recognizedCount: Int = 10_000) {
        precondition(recognizedCount >= 0, "recognizedCount must be 0 or more, not \(recognizedCount)")
        self.recognizedCount = recognizedCount
    }

    /// The number of records in the log.
    package var count: Int { records.count }

    /// Records a change of `key` with the next sequence. Amortised O(1).
    package mutating func append(_ key: EntryKey, tag: UInt64) {
        append(key, at: ChangeCursor(sequence: (latestCursor?.sequence ?? 0) + 1, tag: tag))
    }

    /// Records a change of `key` with a sequence that is greater than all before. Amortised O(1).
    package mutating func append(_ key: EntryKey, at cursor: ChangeCursor) {
        records.append(Record(cursor: cursor, key: key))
        latestSequences[key] = cursor.sequence
        if records.count > 2 * (latestSequences.count + recognizedCount) { dropSuperseded() }
    }

    /// The position of the latest change; `nil` if nothing has ever changed.
    package var latestCursor: ChangeCursor? { records.last?.cursor }

    /// Returns the keys that begin with `prefix` and changed after `cursor`, in the order of their latest change.
    ///
    /// - Parameters:
    ///   - limit: The maximum number of changes to return, 1 or more.
    ///   - version: Returns the current version of a key; `nil` if it was deleted.
    /// - Throws: ``BackendError/Kind/cursorExpired`` if `cursor` is not recognized.
    package func page(
        since cursor: ChangeCursor?, prefix: String, limit: Int, version: (EntryKey) -> EntryVersion?
    ) throws(BackendError) -> ChangePage {
        var draft = ChangePageDraft(since: cursor, prefix: prefix, limit: limit)
        for record in records[try startIndex(after: cursor)...] {
            if latestSequences[record.key] == record.cursor.sequence {
                let change = ChangePage.Change(key: record.key, version: version(record.key))
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
                message: "this store has no change \(cursor.sequence) with the cursor's tag; read everything again")
        }
        return index + 1
    }

    private mutating func dropSuperseded() {
        let latest = latestCursor?.sequence ?? 0
        let threshold = latest - min(latest, UInt64(recognizedCount))
        records.removeAll { record in
            record.cursor.sequence <= threshold && latestSequences[record.key] != record.cursor.sequence
        }
    }
}

extension RandomAccessCollection where Index == Int {
    /// The first index whose element satisfies `isInSecondPart`, provided that all elements that satisfy it come last.
    /// O(log n).
    package func partitioningIndex(where isInSecondPart: (Element) throws -> Bool) rethrows -> Int {
        var low = startIndex
        var high = endIndex
        while low < high {
            let middle = low + (high - low) / 2
            if try isInSecondPart(self[middle]) {
                high = middle
            } else {
                low = middle + 1
            }
        }
        return low
    }
}
