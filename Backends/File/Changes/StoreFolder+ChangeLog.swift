import SyncCore

/// The change log, as writers maintain it. The caller of each function must hold the store's lock, unless stated
/// otherwise.
///
/// **Order of a write.** A writer appends its record to `store.changes` after the new entry was synced to a temporary
/// file and before it is renamed. After the rename was synced too, it marks the record as settled. Writers take turns,
/// so only the last record can lack its change, while its writer is running or after it was killed. The next writer
/// recognizes that record by the missing mark and settles it. So a log that was never torn has every change, in every
/// process and after any kill. It costs two small writes to the page cache and no sync.
///
/// **After a power cut** the log may lack changes that are on the disk, or have some that are not. It is then used only
/// after a comparison with the folder: the first request for changes compares each key's last record with the entry
/// (see `ChangeReader`) and appends what is missing. The readable part of the log is a prefix of what was written, so a
/// cursor within it is answered completely, and a cursor beyond it is not recognized.
///
/// **Compaction.** A new log gets the records of the previous one that are worth keeping. It must get all of them: a
/// key may have no later record, so its change would be missing for readers with an earlier cursor. Therefore these
/// records are synced before the header is written, the only sync of a log. A log without a header is not trusted.
/// Writers append to it, and the next request for changes creates it again from the folder.
///
/// **The log may be deleted at any time.** Cursors then expire, and it is created again from the folder. So neither a
/// full disk nor a bad sector in the log prevents a write.
extension StoreFolder {
    static let changesName = "store.changes"

    /// A change that was appended to the log and is not durable yet.
    struct AnnouncedChange {
        let log: OpenFile
        let noteOffset: Int
    }

    /// Appends a change to the log; `nil` if there is no log.
    func announce(_ key: EntryKey, _ version: EntryVersion?) throws(BackendError) -> AnnouncedChange? {
        guard !isToolShared else { return nil }
        do throws(BackendError) {
            let (log, end) = try openLog()
            do throws(BackendError) {
                let cursor = ChangeCursor(sequence: end.sequence + 1, tag: randomBits())
                let record = ChangeFile.Record(cursor: cursor, key: key, version: version)
                let (bytes, _) = ChangeFile.encode(record, after: end.link, isSettled: false)
                try attempting { () throws(FileSystemError) in
                    try fileSystem.write(log, end.missing + bytes, at: end.offset)
                }
                return AnnouncedChange(log: log, noteOffset: end.offset + end.missing.count + bytes.count - 5)
            } catch {
                fileSystem.close(log)
                throw error
            }
        } catch {
            guard error.isOfFullOrBrokenDisk else { throw error }
            try attempting { () throws(FileSystemError) in try removeLog() }
            return nil
        }
    }

    /// Marks the change as durable and closes the log. The mark also notifies those who watch the log.
    func settle(_ change: AnnouncedChange?) {
        guard let change else { return }
        do {
            try fileSystem.write(change.log, [1], at: change.noteOffset)
        } catch {
            // The change is durable. Without the mark, the next writer examines it.
        }
        fileSystem.close(change.log)
    }

    /// Closes the log after a failed change. The next writer determines its outcome.
    func abandon(_ change: AnnouncedChange?) {
        if let change { fileSystem.close(change.log) }
    }

    /// Removes the log, so that all cursors expire. The removal need not be durable, because a log is always compared
    /// with the folder first.
    func removeLog() throws(FileSystemError) {
        do {
            try fileSystem.removeFile(path(of: Self.changesName))
        } catch {
            if !error.isMissing { throw error }
        }
    }

    /// Ensures that the visible state at `place` is durable, before an outcome is based on it.
    ///
    /// The writer that renamed it may have been killed before it synced the folder. If the log's last change is
    /// settled, all earlier ones are durable.
    func confirmDurable(_ place: KeyFileName) throws(BackendError) {
        if try !isLastChangeSettled() { try synchronize(place) }
    }

    /// Syncs the names in an entry's folder.
    func synchronize(_ place: KeyFileName) throws(BackendError) {
        try attempting { () throws(FileSystemError) in
            do throws(FileSystemError) {
                try fileSystem.synchronizeFolder(folderPath(of: place))
            } catch {
                // Without a folder there is no entry, and folders are never removed.
                if !error.isMissing { throw error }
            }
        }
    }

    private func isLastChangeSettled() throws(BackendError) -> Bool {
        guard !isToolShared else { return false }
        return try lastChange()?.isSettled ?? false
    }

    /// The last readable change of the log; `nil` if there is none. Needs no lock.
    func lastChange() throws(BackendError) -> ChangeFile.Located? {
        try withLog { (log) throws(FileSystemError) in
            try lastRecord(of: log, byteCount: fileSystem.byteCount(of: log))
        }
    }

    /// Returns `true` if the change is visible to readers. Needs no lock.
    func isVisible(_ change: ChangeFile.Located) throws(BackendError) -> Bool {
        if change.isSettled { return true }
        return try version(of: change.record.key) == change.record.version
    }
}

extension StoreFolder {
    /// The place of the next record.
    private struct LogEnd {
        var offset: Int
        var sequence: UInt64
        var link: UInt64
        /// The bytes that must be written before the next record.
        var missing: [UInt8] = []
    }

    /// Opens the log, and returns its end after the last change was settled or corrected.
    private func openLog() throws(BackendError) -> (OpenFile, LogEnd) {
        let log = try openLogFile()
        do throws(BackendError) {
            let byteCount = try attempting { () throws(FileSystemError) in try fileSystem.byteCount(of: log) }
            if byteCount == 0 { return (log, emptyEnd()) }
            let last = try attempting { () throws(FileSystemError) in try lastRecord(of: log, byteCount: byteCount) }
            if let last, !last.isSettled || !last.crosses(multiplesOf: changePolicy.compactionByteCount) {
                if let end = try settledEnd(of: log, after: last) { return (log, end) }
            } else {
                let bytes = try attempting { () throws(FileSystemError) in
                    try fileSystem.bytes(of: log, limit: byteCount)
                }
                let link = ChangeFile.link(ofHeader: bytes)
                if let link, byteCount == ChangeFile.headerByteCount {
                    return (log, LogEnd(offset: byteCount, sequence: 0, link: link))
                }
                let kept = changePolicy.kept(of: ChangeFile.records(inFile: bytes))
                let compacted = newLog(of: kept.map(\.record))
                let file = try replaceLog(with: compacted.bytes)
                fileSystem.close(log)
                let sequence = kept.last?.record.cursor.sequence ?? 0
                return (file, LogEnd(offset: compacted.bytes.count, sequence: sequence, link: compacted.link))
            }
        } catch {
            fileSystem.close(log)
            throw error
        }
        fileSystem.close(log)
        try attempting { () throws(FileSystemError) in try removeLog() }
        return (try openLogFile(), emptyEnd())
    }

    private func openLogFile() throws(BackendError) -> OpenFile {
        try attempting { () throws(FileSystemError) in
            try fileSystem.open(path(of: Self.changesName), .createShared)
        }
    }

    /// The end of an empty file.
    private func emptyEnd() -> LogEnd {
        let (header, link) = newLog(of: [])
        return LogEnd(offset: 0, sequence: 0, link: link, missing: header)
    }

    /// Replaces the log with `bytes`. The header is written last, after the rest was synced.
    func replaceLog(with bytes: [UInt8]) throws(BackendError) -> OpenFile {
        try attempting { () throws(FileSystemError) in
            try removeLog()
            let log = try fileSystem.open(path(of: Self.changesName), .createShared)
            do throws(FileSystemError) {
                let count = ChangeFile.headerByteCount
                if bytes.count > count {
                    try fileSystem.write(log, Array(bytes[count...]), at: count)
                    try fileSystem.synchronize(log)
                }
                try fileSystem.write(log, Array(bytes[..<count]))
                return log
            } catch {
                fileSystem.close(log)
                throw error
            }
        }
    }

    /// Encodes a new log of `records`, all of which are durable.
    func newLog(of records: [ChangeFile.Record]) -> (bytes: [UInt8], link: UInt64) {
        let name = (0..<2).flatMap { _ in withUnsafeBytes(of: randomBits().bigEndian) { Array($0) } }
        let header = ChangeFile.header(name: name)
        return ChangeFile.encode(records, behind: header)
    }

    /// The end of the log after `last`, whose change is durable now or was corrected; `nil` if its outcome cannot be
    /// determined.
    private func settledEnd(of log: OpenFile, after last: ChangeFile.Located) throws(BackendError) -> LogEnd? {
        var end = LogEnd(offset: last.range.upperBound, sequence: last.record.cursor.sequence, link: last.link)
        if last.isSettled { return end }
        // Its writer was killed, or could not determine the outcome of its change.
        try synchronize(KeyFileName(last.record.key))
        // A damaged entry of one key must not prevent writes to others, so it has a version too.
        let standing = try standing(of: last.record.key)
        guard standing?.isCertain != false else { return nil }
        let version = standing?.version
        if version == last.record.version {
            try attempting { () throws(FileSystemError) in try fileSystem.write(log, [1], at: last.noteOffset) }
            return end
        }
        end.sequence += 1
        let cursor = ChangeCursor(sequence: end.sequence, tag: randomBits())
        let correction = ChangeFile.Record(cursor: cursor, key: last.record.key, version: version)
        (end.missing, end.link) = ChangeFile.encode(correction, after: last.link, isSettled: true)
        return end
    }

    private func lastRecord(of log: OpenFile, byteCount: Int) throws(FileSystemError) -> ChangeFile.Located? {
        let offset = max(ChangeFile.headerByteCount, byteCount - ChangeFile.maximumRecordByteCount)
        guard offset < byteCount else { return nil }
        let bytes = try fileSystem.bytes(of: log, from: offset, limit: byteCount - offset)
        return ChangeFile.lastRecord(in: bytes, at: offset)
    }
}

extension ChangeFile.Located {
    /// Returns `true` if the record contains a multiple of `byteCount`, so that the log should be compacted.
    fileprivate func crosses(multiplesOf byteCount: Int) -> Bool {
        range.lowerBound / byteCount != range.upperBound / byteCount
    }
}

/// The limits of a change log.
///
/// The latest change of each key is kept permanently, deletions included, because a reader may start without a cursor.
/// Of the other changes only the newest are kept, so that their cursors are recognized.
package struct ChangePolicy: Sendable {
    /// The number of newest changes whose cursors are recognized.
    package var recognizedCount = 10_000
    /// The growth of the file, in bytes, after which superseded changes are dropped.
    package var compactionByteCount = 4 << 20

    package init(recognizedCount: Int = 10_000, compactionByteCount: Int = 4 << 20) {
        precondition(
            recognizedCount >= 0 && compactionByteCount >= 1,
            "recognizedCount must be 0 or more, and compactionByteCount 1 or more")
        self.recognizedCount = recognizedCount
        self.compactionByteCount = compactionByteCount
    }

    /// The records of a log that are worth keeping.
    func kept(of records: [ChangeFile.Located]) -> [ChangeFile.Located] {
        var latest: [EntryKey: UInt64] = [:]
        for located in records { latest[located.record.key] = located.record.cursor.sequence }
        let first = records.count - min(records.count, recognizedCount)
        return records.enumerated().filter { index, located in
            index >= first || latest[located.record.key] == located.record.cursor.sequence
        }.map(\.element)
    }
}
