import SyncCore

/// What the records say together: the latest of each key, and the order of all.
struct JournalIndex: Sendable {
    /// Where the next record begins.
    private(set) var end = JournalFile.headByteCount
    private var identity: JournalFile.Identity?
    /// The latest record of each key, and its number, counted from 1.
    private var latest: [EntryKey: (number: Int, record: JournalRecord)] = [:]
    private var history: [(tag: UInt64, key: EntryKey)] = []

    /// The record that holds what is under `key`, `nil` for nothing.
    func latest(_ key: EntryKey) -> JournalRecord? {
        guard let record = latest[key]?.record, !record.isDeletion else { return nil }
        return record
    }

    /// Reads the records that were appended since the last time; all of them if it is another file.
    ///
    /// What `committed` covers has been acknowledged and must be whole. Behind it there may be a record that a crash
    /// cut off: it was acknowledged to nobody, is left out, and the next writer writes over it.
    mutating func catchUp(with file: JournalFile) throws(BackendError) {
        let (identity, size) = try file.identityAndSize()
        if self.identity != identity || size < end { self = JournalIndex() }
        let committed = try file.committed()
        guard committed <= size else {
            throw file.damage("it ends at byte \(size) and had \(committed)")
        }
        while end < size {
            let head = try file.bytes(end..<min(size, end + JournalRecord.maximumHeadByteCount))
            let record = JournalRecord(head, at: end).flatMap { $0.valueRange.upperBound <= size ? $0 : nil }
            if end < committed {
                guard let record else { throw file.damage("no record begins at byte \(end)") }
                take(record)
            } else {
                // Whole, but its writer may have died before it was on the disk.
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

    func changes(since cursor: ChangeCursor?, limit: Int) throws(BackendError) -> ChangePage {
        let known = cursor.flatMap { Int(exactly: $0.sequence) } ?? 0
        if let cursor, !(1...max(1, history.count)).contains(known) || history[safe: known - 1]?.tag != cursor.tag {
            throw BackendError(.cursorExpired, message: "no change \(cursor.sequence) here is the one that was meant")
        }
        var page = ChangePage(changes: [], cursor: cursor, hasMore: false)
        for number in (known + 1)..<(history.count + 1) {
            let (tag, key) = history[number - 1]
            if latest[key]?.number == number {
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
