import SyncCore

/// An index of the records: the latest record of each key, and the order of all records.
struct JournalIndex: Sendable {
    /// The offset of the next record.
    private(set) var end = JournalFile.headByteCount
    private var identity: JournalFile.Identity?
    /// The latest record of each key, and its number, counted from 1.
    private var latest: [EntryKey: (number: Int, record: JournalRecord)] = [:]
    private var history: [(tag: UInt64, key: EntryKey)] = []

    /// Returns the latest record of `key`; `nil` if the key is absent or deleted.
    func latest(_ key: EntryKey) -> JournalRecord? {
        guard let record = latest[key]?.record, !record.isDeletion else { return nil }
        return record
    }

    /// Reads the records that were appended since the last call; all records if the file was replaced.
    ///
    /// Records before `committed` were acknowledged, so they must be intact. The record after it may have been cut off
    /// by a crash before it was acknowledged: it is ignored, and the next write replaces it.
    mutating func catchUp(with file: JournalFile) throws(BackendError) {
        let (identity, size) = try file.identityAndSize()
        if self.identity != identity || size < end { self = JournalIndex() }
        let committed = try file.committed()
        guard committed <= size else {
            throw file.damage("it has \(size) bytes and must have \(committed)")
        }
        while end < size {
            let head = try file.bytes(end..<min(size, end + JournalRecord.maximumHeadByteCount))
            let record = JournalRecord(head, at: end).flatMap { $0.valueRange.upperBound <= size ? $0 : nil }
            if end < committed {
                guard let record else { throw file.damage("there is no intact record at byte \(end)") }
                take(record)
            } else {
                // The record is complete, but its writer may have crashed before synchronizing the file.
                guard let record, (try? record.entry(in: file)) != nil else { break }
                try file.synchronize()
                take(record)
            }
        }
        self.identity = identity
    }

    private mutating func take(_ record: JournalRecord) {
        history.append((record.tag, record.key))
        latest[record.key] = (history.count, record)
        end = record.valueRange.upperBound
    }

    func page(prefix: String, after cursor: EntryKey?, limit: Int) -> KeyPage {
        let keys = latest.keys.filter { key in
            key.hasPrefix(prefix) && latest(key) != nil && (cursor.map { $0 < key } ?? true)
        }.sorted()
        let items = keys.prefix(limit).compactMap { key in
            latest(key).map { KeyPage.Item(key: key, version: $0.version) }
        }
        return KeyPage(items: items, next: keys.count > limit ? items.last?.key : nil)
    }

    var latestCursor: ChangeCursor? {
        history.last.map { ChangeCursor(sequence: UInt64(history.count), tag: $0.tag) }
    }

    func changes(since cursor: ChangeCursor?, prefix: String, limit: Int) throws(BackendError) -> ChangePage {
        let known = cursor.flatMap { Int(exactly: $0.sequence) } ?? 0
        if let cursor, !(1...max(1, history.count)).contains(known) || history[safe: known - 1]?.tag != cursor.tag {
            throw BackendError(
                .cursorExpired, message: "change \(cursor.sequence) is not in this journal; start without a cursor")
        }
        var page = ChangePage(changes: [], cursor: cursor, hasMore: false)
        for number in (known + 1)..<(history.count + 1) {
            let (tag, key) = history[number - 1]
            if latest[key]?.number == number, key.hasPrefix(prefix) {
                page.hasMore = page.changes.count == limit
                if page.hasMore { break }
                page.changes.append(ChangePage.Change(key: key, version: latest(key)?.version))
            }
            page.cursor = ChangeCursor(sequence: UInt64(number), tag: tag)
        }
        return page
    }
}

extension Array {
    fileprivate subscript(safe index: Int) -> Element? { indices.contains(index) ? self[index] : nil }
}
