/// The sequence of a store's changes, each with a random tag, from which a page of changes since a cursor is read.
///
/// The latest change of every key is kept for good, deletions too, because a reader may start from nothing. Changes
/// that a later one of the same key has superseded only serve to recognise old cursors; the newest
/// ``recognisedCount`` are recognised at least, older cursors may be answered with
/// ``BackendError/Kind/cursorExpired``. So the log holds O(keys ever used + recognised) records, however many writes.
package struct ChangeLog: Sendable {
    private struct Record {
        var cursor: ChangeCursor
        var key: EntryKey
    }

    /// In ascending order of sequence, with gaps where superseded changes were dropped.
    private var records: [Record] = []
    private var latestSequences: [EntryKey: UInt64] = [:]
    private var lastSequence: UInt64 = 0

    /// Cursors at the newest so many changes are recognised.
    package let recognisedCount: Int

    package init(recognisedCount: Int = 10_000) {
        precondition(recognisedCount >= 0, "a number of changes is not negative")
        self.recognisedCount = recognisedCount
    }

    /// How many records are held.
    package var count: Int { records.count }

    /// Notes that `key` changed. Amortised O(1).
    package mutating func append(_ key: EntryKey, tag: UInt64) {
        lastSequence += 1
        records.append(Record(cursor: ChangeCursor(sequence: lastSequence, tag: tag), key: key))
        latestSequences[key] = lastSequence
        if records.count > 2 * (latestSequences.count + recognisedCount) { dropSuperseded() }
    }

    /// The keys that changed after `cursor`, at most `limit`, in the order of their latest change.
    ///
    /// - Parameter version: the version that a key holds now, `nil` when it was deleted.
    package func page(
        since cursor: ChangeCursor?, limit: Int, version: (EntryKey) -> EntryVersion?
    ) throws(BackendError) -> ChangePage {
        precondition(limit >= 1, "a page holds 1 change or more")
        var changes: [ChangePage.Change] = []
        var position = cursor
        for record in records[try startIndex(after: cursor)...] {
            if latestSequences[record.key] == record.cursor.sequence {
                if changes.count == limit {
                    return ChangePage(changes: changes, cursor: position, hasMore: true)
                }
                changes.append(ChangePage.Change(key: record.key, version: version(record.key)))
            }
            position = record.cursor
        }
        return ChangePage(changes: changes, cursor: position, hasMore: false)
    }

    private func startIndex(after cursor: ChangeCursor?) throws(BackendError) -> Int {
        guard let cursor else { return 0 }
        let index = records.partitioningIndex { $0.cursor.sequence >= cursor.sequence }
        guard index < records.count, records[index].cursor == cursor else {
            throw BackendError(
                .cursorExpired, operation: .changes,
                message: "this store has no change \(cursor.sequence) with that tag; read everything again")
        }
        return index + 1
    }

    private mutating func dropSuperseded() {
        let threshold = lastSequence - min(lastSequence, UInt64(recognisedCount))
        records.removeAll { record in
            record.cursor.sequence <= threshold && latestSequences[record.key] != record.cursor.sequence
        }
    }
}

extension RandomAccessCollection where Index == Int {
    /// The first index whose element satisfies `isInSecondPart`, when those that do all come last. O(log n).
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
