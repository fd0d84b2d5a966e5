import SyncCore

/// The sequence of changes in a log file, with the latest versions, from which pages are read.
struct ChangeSequence: Sendable {
    private var log: ChangeLog
    /// The keys that have an entry, with their versions.
    private(set) var versions: [EntryKey: EntryVersion] = [:]

    init(recognizedCount: Int = 0) { log = ChangeLog(recognizedCount: recognizedCount) }

    /// The sequence of the last change, 0 if there is none.
    var lastSequence: UInt64 { latestCursor?.sequence ?? 0 }

    /// Appends the next record of the file. Amortized O(1).
    mutating func append(_ record: ChangeFile.Record) {
        log.append(record.key, at: record.cursor)
        versions[record.key] = record.version
    }

    /// The position of the last change; `nil` if there is none.
    var latestCursor: ChangeCursor? { log.latestCursor }

    /// Returns the keys that begin with `prefix` and changed after `cursor`, at most `limit`, in the order of their
    /// latest change.
    func page(since cursor: ChangeCursor?, prefix: String, limit: Int) throws(BackendError) -> ChangePage {
        try log.page(since: cursor, prefix: prefix, limit: limit) { versions[$0] }
    }
}
