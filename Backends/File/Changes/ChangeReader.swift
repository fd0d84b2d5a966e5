import SyncCore
import Synchronization

/// Reads the log of changes, and believes it only after it was compared with the folder.
///
/// The comparison is needed once a process, since only a power cut or a hand in the folder can set the two apart, and
/// neither goes unnoticed by a running process but this: an entry's file that is put back or removed by hand while
/// processes run is told by those that start later.
///
/// From then on it reads without a lock what was appended. Only the last record can be of a change that is not visible
/// yet: it is left for later while its writer is at work, since a cursor behind it would hide the change.
final class ChangeReader: Sendable {
    private struct State: Sendable {
        /// The log's header, in which it has a random name.
        var header: [UInt8]
        /// Where the next record will be, and the checksum that it hands on.
        var end: Int
        var link: UInt64
        var sequence: ChangeSequence
    }

    private enum Following {
        /// Read on to the end.
        case current
        /// Read on to a last record that is not visible yet.
        case waiting
        /// The log is another one, or is torn, or has a change of a writer that died.
        case lost
    }

    private let folder: StoreFolder
    private let state = Mutex<State?>(nil)

    init(folder: StoreFolder) {
        self.folder = folder
    }

    /// A page of the visible changes; `nil` when the log must be loaded first. O(what was appended + changes after
    /// `cursor`).
    func page(since cursor: ChangeCursor?, limit: Int) throws(BackendError) -> ChangePage? {
        try state.withLock { (state) throws(BackendError) in
            guard var known = state else { return nil }
            // Held once only, so that appending copies nothing.
            state = nil
            var following: Following
            do throws(BackendError) {
                following = try follow(&known)
                // Whatever was acknowledged before this call is in front of what a second look finds at the end. And
                // a writer may be done just between the looks at its change and at its lock: it did not die then.
                for _ in 0..<3 where following != .current { following = try follow(&known) }
            } catch {
                state = known
                throw error
            }
            if following == .lost { return nil }
            state = known
            return try known.sequence.page(since: cursor, limit: limit)
        }
    }

    /// Compares the log with the folder, mends it, and answers all changes. Wants the store's lock to be held.
    /// O(entries).
    func load(lock: OpenFile) throws(BackendError) -> ChangeSequence {
        try folder.raiseFormat(lock: lock)
        let found = try folder.wholeLog()
        // What is told here may be the ground of an answer, see `confirmDurable`.
        if let last = found?.records.last, !last.isSettled { try folder.synchronize(KeyFileName(last.record.key)) }
        var sequence = ChangeSequence(recognisedCount: folder.changePolicy.recognisedCount)
        for located in found?.records ?? [] { sequence.append(located.record) }
        let corrections = try folder.corrections(of: sequence)
        let records = (found?.records.map(\.record) ?? []) + corrections
        for record in corrections { sequence.append(record) }
        let news: State
        if let found, found.isWhole {
            let (bytes, link) = ChangeFile.encode(corrections, after: found.link)
            if !bytes.isEmpty { try folder.appendToLog(bytes, at: found.byteCount) }
            news = State(header: found.header, end: found.byteCount + bytes.count, link: link, sequence: sequence)
        } else {
            let (bytes, link) = folder.newLog(of: records)
            folder.fileSystem.close(try folder.replaceLog(with: bytes))
            news = State(
                header: Array(bytes.prefix(ChangeFile.headerByteCount)), end: bytes.count, link: link,
                sequence: sequence)
        }
        state.withLock { $0 = news }
        return sequence
    }

    private func follow(_ state: inout State) throws(BackendError) -> Following {
        let start = state.end
        let bytes = try folder.newBytesOfLog(from: start, after: state.link, header: state.header)
        guard let bytes else { return .lost }
        for located in ChangeFile.records(in: bytes, at: start, after: state.link) {
            if located.range.upperBound == start + bytes.count, try !folder.isVisible(located) {
                return try isWriting() ? .waiting : .lost
            }
            state.sequence.append(located.record)
            state.end = located.range.upperBound
            state.link = located.link
        }
        if state.end == start + bytes.count { return .current }
        // Half a record: it is being written, or was torn.
        return try isWriting() ? .waiting : .lost
    }

    /// Whether somebody holds the store's lock.
    private func isWriting() throws(BackendError) -> Bool {
        let lock: OpenFile
        do {
            lock = try folder.fileSystem.open(folder.path(of: StoreFolder.lockName), .shared)
        } catch {
            if error.isMissing { return false }
            throw BackendError(error)
        }
        defer { folder.fileSystem.close(lock) }
        let isFree = try attempting { () throws(FileSystemError) in try folder.fileSystem.tryLock(lock) }
        return !isFree
    }
}

/// What a reader does with the files.
extension StoreFolder {
    /// A log as it lies in its file.
    fileprivate struct WholeLog {
        let header: [UInt8]
        let byteCount: Int
        let records: [ChangeFile.Located]
        /// The checksum of the last record.
        let link: UInt64
        /// Whether nothing follows the records.
        let isWhole: Bool
    }

    /// All of the log that can be read; `nil` when nothing can.
    fileprivate func wholeLog() throws(BackendError) -> WholeLog? {
        let bytes = try withLog { (log) throws(FileSystemError) in
            try fileSystem.bytes(of: log, limit: fileSystem.byteCount(of: log))
        }
        guard let bytes, let headerLink = ChangeFile.link(ofHeader: bytes) else { return nil }
        let records = ChangeFile.records(inFile: bytes)
        return WholeLog(
            header: Array(bytes[..<ChangeFile.headerByteCount]), byteCount: bytes.count, records: records,
            link: records.last?.link ?? headerLink,
            isWhole: (records.last?.range.upperBound ?? ChangeFile.headerByteCount) == bytes.count)
    }

    /// What came after the record that ends at `offset` and has the checksum `link`, in the log that begins with
    /// `header`; `nil` when it is another log, or an earlier state of this one that has gone on otherwise.
    fileprivate func newBytesOfLog(
        from offset: Int, after link: UInt64, header: [UInt8]
    ) throws(BackendError) -> [UInt8]? {
        try withLog { (log) throws(FileSystemError) in
            guard try fileSystem.bytes(of: log, limit: header.count) == header else { return nil }
            // The header's checksum is its end, a record's is not quite.
            let start = offset - (offset == header.count ? 8 : ChangeFile.byteCountFromLink)
            let byteCount = try fileSystem.byteCount(of: log)
            guard byteCount >= offset else { return nil }
            let bytes = try fileSystem.bytes(of: log, from: start, limit: byteCount - start)
            guard bytes.count >= 8, UInt64(bigEndianAt: 0, in: bytes) == link else { return nil }
            return Array(bytes.dropFirst(offset - start))
        }
    }

    private func withLog<Result>(
        _ body: (OpenFile) throws(FileSystemError) -> Result?
    ) throws(BackendError) -> Result? {
        do {
            return try fileSystem.withFile(path(of: Self.changesName), .read, body)
        } catch {
            guard error.isMissing else { throw BackendError(error) }
            return nil
        }
    }

    /// The changes that the folder has seen and `sequence` has not, in the order of their keys.
    ///
    /// A damaged entry has changed, to a version that says so. Of one that the disk does not give, and of a folder that
    /// cannot be read, nobody knows whether they changed: the log stays as it is.
    fileprivate func corrections(of sequence: ChangeSequence) throws(BackendError) -> [ChangeFile.Record] {
        let told = sequence.versions
        let (found, unknown) = try everything()
        let there = Set(found.map(\.key))
        var changed: [(EntryKey, EntryVersion?)] = []
        for item in found where told[item.key] != item.version {
            // Looked at again, because a disk that failed once may have made the difference.
            let standing = try standing(of: item.key)
            guard told[item.key] != standing?.version, standing?.isCertain != false || told[item.key] == nil
            else { continue }
            changed.append((item.key, standing?.version))
        }
        let removed = told.keys.filter { key in
            !there.contains(key) && !unknown.contains { key.text.utf8.starts(with: $0) }
        }.map { ($0, nil as EntryVersion?) }
        return (changed + removed).sorted { $0.0 < $1.0 }.enumerated().map { index, change in
            let cursor = ChangeCursor(sequence: sequence.lastSequence + UInt64(index) + 1, tag: randomBits())
            return ChangeFile.Record(cursor: cursor, key: change.0, version: change.1)
        }
    }

    fileprivate func appendToLog(_ bytes: [UInt8], at offset: Int) throws(BackendError) {
        try attempting { () throws(FileSystemError) in
            try fileSystem.withFile(path(of: Self.changesName), .shared) { (log) throws(FileSystemError) in
                try fileSystem.write(log, bytes, at: offset)
            }
        }
    }
}
