import SyncCore

/// The log of changes, as writers keep it. Every function here wants the store's lock to be held.
///
/// **The rule.** A writer appends its change to `store.changes` when the new entry is on the disk beside the old one
/// and before it gets the name. When the name is on the disk too, it notes so in the record. Writers take turns, so at
/// most the last record is without its change, and only while its writer is at work or after it died; the next one
/// finds that record by the missing note and sets it right. So a log that was never torn tells every change, in every
/// process, through any kill, and costs two small writes into the page cache and no synchronisation.
///
/// **After a power cut** the log may lack changes that are on the disk, or tell some that are not. Nobody believes it
/// then without a look at the folder: whoever asks for changes first compares each key's last record with the entry
/// (see `ChangeReader`) and appends what is missing. What is still readable of the log is a beginning of what was
/// written, so whoever has a cursor in it knows exactly what it says up to there; a cursor behind it is not recognised.
///
/// **A log that is made anew** has the changes worth keeping of the one before. Half of these would not do: of a key
/// whose last change is missing there may be no other, so nobody whose cursor is before it would be told. So they are
/// on the disk before the log has its header: the one synchronisation of a log. One without a header is believed by
/// nobody; writers go on with it, and who asks for changes next makes it anew out of the folder.
///
/// **The log may be thrown away at any time**: then cursors expire, and it is made anew out of the folder. So a full
/// disk or a bad block in it hinders no write.
extension StoreFolder {
    static let changesName = "store.changes"

    /// A change that is in the log and not yet on the disk.
    struct AnnouncedChange {
        let log: OpenFile
        let noteOffset: Int
    }

    /// Appends a change to the log; `nil` where there is none to append to.
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
            try attempting { () throws(FileSystemError) in try forgetChanges() }
            return nil
        }
    }

    /// Notes that the change is on the disk, and lets go of the log. This is also what wakes those who watch it.
    func settle(_ change: AnnouncedChange?) {
        guard let change else { return }
        do {
            try fileSystem.write(change.log, [1], at: change.noteOffset)
        } catch {
            // The change is durable. Without the note the next writer looks for itself.
        }
        fileSystem.close(change.log)
    }

    /// Lets go of the log when the change failed; the next writer finds out what became of it.
    func abandon(_ change: AnnouncedChange?) {
        if let change { fileSystem.close(change.log) }
    }

    /// Removes the log: all cursors expire. Durably or not, since a log is never believed without a look at the folder.
    func forgetChanges() throws(FileSystemError) {
        do {
            try fileSystem.removeFile(path(of: Self.changesName))
        } catch {
            if !error.isMissing { throw error }
        }
    }

    /// Makes sure that what a reader sees under `place` is on the disk, before an answer rests on it.
    ///
    /// Whoever renamed it may have died before it synchronised the folder. If the log's last change is on the disk, so
    /// are all before it.
    func confirmDurable(_ place: KeyFileName) throws(BackendError) {
        if try !isLastChangeSettled() { try synchronize(place) }
    }

    /// Brings the names in an entry's folder to the disk.
    func synchronize(_ place: KeyFileName) throws(BackendError) {
        try attempting { () throws(FileSystemError) in
            do throws(FileSystemError) {
                try fileSystem.synchronizeFolder(folderPath(of: place))
            } catch {
                // Where there is no folder there is no entry either, and nobody removes folders.
                if !error.isMissing { throw error }
            }
        }
    }

    private func isLastChangeSettled() throws(BackendError) -> Bool {
        guard !isToolShared else { return false }
        return try lastChange()?.isSettled ?? false
    }

    /// The last change of the log, `nil` when there is none that can be read. Wants no lock.
    func lastChange() throws(BackendError) -> ChangeFile.Located? {
        do {
            return try fileSystem.withFile(path(of: Self.changesName), .read) { (log) throws(FileSystemError) in
                try lastRecord(of: log, byteCount: fileSystem.byteCount(of: log))
            }
        } catch {
            guard error.isMissing else { throw BackendError(error) }
            return nil
        }
    }

    /// Whether readers see the change, or what came after it. Wants no lock.
    func isVisible(_ change: ChangeFile.Located) throws(BackendError) -> Bool {
        if change.isSettled { return true }
        return try version(of: change.record.key) == change.record.version
    }
}

extension StoreFolder {
    /// Where the next record goes.
    private struct LogEnd {
        var offset: Int
        var sequence: UInt64
        var link: UInt64
        /// What must be written before it.
        var missing: [UInt8] = []
    }

    /// The log, and its end behind a change that is on the disk or is corrected.
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
                let anew = newLog(of: kept.map(\.record))
                let file = try replaceLog(with: anew.bytes)
                fileSystem.close(log)
                let sequence = kept.last?.record.cursor.sequence ?? 0
                return (file, LogEnd(offset: anew.bytes.count, sequence: sequence, link: anew.link))
            }
        } catch {
            fileSystem.close(log)
            throw error
        }
        fileSystem.close(log)
        try attempting { () throws(FileSystemError) in try forgetChanges() }
        return (try openLogFile(), emptyEnd())
    }

    private func openLogFile() throws(BackendError) -> OpenFile {
        try attempting { () throws(FileSystemError) in
            try fileSystem.open(path(of: Self.changesName), .createShared)
        }
    }

    /// The end of a file that is empty.
    private func emptyEnd() -> LogEnd {
        let (header, link) = newLog(of: [])
        return LogEnd(offset: 0, sequence: 0, link: link, missing: header)
    }

    /// Puts a file of these bytes in the place of the log; the header comes last, when the rest is on the disk.
    func replaceLog(with bytes: [UInt8]) throws(BackendError) -> OpenFile {
        try attempting { () throws(FileSystemError) in
            try forgetChanges()
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

    /// The bytes of a new log of `records`, all of which are on the disk.
    func newLog(of records: [ChangeFile.Record]) -> (bytes: [UInt8], link: UInt64) {
        let name = (0..<2).flatMap { _ in withUnsafeBytes(of: randomBits().bigEndian) { Array($0) } }
        let header = ChangeFile.header(name: name)
        return ChangeFile.encode(records, behind: header)
    }

    /// The end of the log behind `last`, whose change is on the disk now or is corrected; `nil` when nobody can know.
    private func settledEnd(of log: OpenFile, after last: ChangeFile.Located) throws(BackendError) -> LogEnd? {
        var end = LogEnd(offset: last.range.upperBound, sequence: last.record.cursor.sequence, link: last.link)
        if last.isSettled { return end }
        // Its writer died, or could not tell what became of its change.
        try synchronize(KeyFileName(last.record.key))
        // A damaged entry of one key hinders no write of another: it has a version too.
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
    /// Whether a multiple of `byteCount` lies in the record: then it is time to look what the log still needs.
    fileprivate func crosses(multiplesOf byteCount: Int) -> Bool {
        range.lowerBound / byteCount != range.upperBound / byteCount
    }
}

/// How long a log of changes grows.
///
/// The latest change of every key is kept for good, deletions too, because a reader may begin with nothing. Of the
/// others only the newest are, so that their cursors are recognised.
package struct ChangePolicy: Sendable {
    /// Cursors at the newest so many changes are recognised.
    package var recognisedCount = 10_000
    /// Superseded changes are dropped each time the file has grown by so much.
    package var compactionByteCount = 4 << 20

    package init(recognisedCount: Int = 10_000, compactionByteCount: Int = 4 << 20) {
        precondition(recognisedCount >= 0 && compactionByteCount >= 1, "a number of changes is not negative")
        self.recognisedCount = recognisedCount
        self.compactionByteCount = compactionByteCount
    }

    /// The records of a log that are worth keeping.
    func kept(of records: [ChangeFile.Located]) -> [ChangeFile.Located] {
        var latest: [EntryKey: UInt64] = [:]
        for located in records { latest[located.record.key] = located.record.cursor.sequence }
        let first = records.count - min(records.count, recognisedCount)
        return records.enumerated().filter { index, located in
            index >= first || latest[located.record.key] == located.record.cursor.sequence
        }.map(\.element)
    }
}
