import SyncCore
import Synchronization

/// Reads the change log after comparing it once with the folder.
///
/// Each process compares once, because only a power cut or a manual change of the folder can make the two differ. A
/// running process detects both, with one exception: an entry file that is restored or removed by hand is noticed only
/// by processes that start later.
///
/// Later reads take no lock and read only the appended part. Only the last record can belong to a change that is not
/// yet visible. It is not reported while its writer is running, because a cursor after it would hide the change.
final class ChangeReader: Sendable {
    private struct State: Sendable {
        /// The header of the log, which includes its random name.
        var header: [UInt8]
        /// The offset of the next record, and the checksum that it must repeat.
        var end: Int
        var link: UInt64
        var sequence: ChangeSequence
    }

    private enum Following {
        /// All records were read.
        case current
        /// All records were read except the last one, which is not visible yet.
        case waiting
        /// The log was replaced or torn, or has a change of a killed writer.
        case lost
    }

    private let folder: StoreFolder
    private let state = Mutex<State?>(nil)

    init(folder: StoreFolder) {
        self.folder = folder
    }

    /// Reads the sequence of the visible changes; `nil` if the log must be loaded first. O(appended bytes), besides the
    /// work of `read`.
    func current<Result: Sendable>(
        _ read: (ChangeSequence) throws(BackendError) -> Result
    ) throws(BackendError) -> Result? {
        try state.withLock { (state) throws(BackendError) in
            guard var known = state else { return nil }
            // Releases the other reference, so that appending does not copy the sequence.
            state = nil
            var following: Following
            do throws(BackendError) {
                following = try follow(&known)
                // All changes acknowledged before this call are before the end that a second attempt finds. A writer
                // may also finish between the checks of its change and of its lock, and has not been killed then.
                for _ in 0..<3 where following != .current { following = try follow(&known) }
            } catch {
                state = known
                throw error
            }
            if following == .lost { return nil }
            state = known
            return try read(known.sequence)
        }
    }

    /// Compares the log with the folder, repairs it, and returns all changes. The caller must hold the store's lock.
    /// O(entries).
    func load(lock: OpenFile) throws(BackendError) -> ChangeSequence {
        try folder.raiseFormat(lock: lock)
        let found = try folder.wholeLog()
        // An outcome may depend on this record, so it must be durable (see `confirmDurable`).
        if let last = found?.records.last, !last.isSettled { try folder.synchronize(KeyFileName(last.record.key)) }
        var sequence = ChangeSequence(recognizedCount: folder.changePolicy.recognizedCount)
        for located in found?.records ?? [] { sequence.append(located.record) }
        let corrections = try folder.corrections(of: sequence)
        let records = (found?.records.map(\.record) ?? []) + corrections
        for record in corrections { sequence.append(record) }
        let loaded: State
        if let found, found.isWhole {
            let (bytes, link) = ChangeFile.encode(corrections, after: found.link)
            if !bytes.isEmpty { try folder.appendToLog(bytes, at: found.byteCount) }
            loaded = State(header: found.header, end: found.byteCount + bytes.count, link: link, sequence: sequence)
        } else {
            let (bytes, link) = folder.newLog(of: records)
            folder.fileSystem.close(try folder.replaceLog(with: bytes))
            loaded = State(
                header: Array(bytes.prefix(ChangeFile.headerByteCount)), end: bytes.count, link: link,
                sequence: sequence)
        }
        state.withLock { $0 = loaded }
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
        // An incomplete record is being written, or was torn.
        return try isWriting() ? .waiting : .lost
    }

    /// Returns `true` if a writer holds the store's lock.
    private func isWriting() throws(BackendError) -> Bool {
        let file = try ifThere { () throws(FileSystemError) in
            try folder.fileSystem.open(folder.path(of: StoreFolder.lockName), .shared)
        }
        guard let lock = file else { return false }
        defer { folder.fileSystem.close(lock) }
        let isFree = try attempting { () throws(FileSystemError) in try folder.fileSystem.tryLock(lock) }
        return !isFree
    }
}

/// The file operations of a reader.
extension StoreFolder {
    /// The readable part of a log file.
    fileprivate struct WholeLog {
        let header: [UInt8]
        let byteCount: Int
        let records: [ChangeFile.Located]
        /// The checksum of the last record.
        let link: UInt64
        /// True if no bytes follow the records.
        let isWhole: Bool
    }

    /// Reads the whole log; `nil` if it does not exist or has no valid header.
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

    /// The bytes after the record that ends at `offset` with the checksum `link`, in the log with `header`; `nil` if it
    /// is another log, or if this log has continued differently.
    fileprivate func newBytesOfLog(
        from offset: Int, after link: UInt64, header: [UInt8]
    ) throws(BackendError) -> [UInt8]? {
        try withLog { (log) throws(FileSystemError) in
            guard try fileSystem.bytes(of: log, limit: header.count) == header else { return nil }
            // A checksum is at the end of the header, but not quite at the end of a record.
            let start = offset - (offset == header.count ? 8 : ChangeFile.byteCountFromLink)
            let byteCount = try fileSystem.byteCount(of: log)
            guard byteCount >= offset else { return nil }
            let bytes = try fileSystem.bytes(of: log, from: start, limit: byteCount - start)
            guard bytes.count >= 8, UInt64(bigEndianAt: 0, in: bytes) == link else { return nil }
            return Array(bytes.dropFirst(offset - start))
        }
    }

    func withLog<Result>(
        _ body: (OpenFile) throws(FileSystemError) -> Result?
    ) throws(BackendError) -> Result? {
        try ifThere { () throws(FileSystemError) in
            try fileSystem.withFile(path(of: Self.changesName), .read, body)
        } ?? nil
    }

    /// The changes of the folder that `sequence` does not have, in the order of their keys.
    ///
    /// A damaged entry counts as changed, to a version that identifies the damage. For an entry that the disk cannot
    /// read, and for a folder that cannot be read, the log is left unchanged, because their state is unknown.
    fileprivate func corrections(of sequence: ChangeSequence) throws(BackendError) -> [ChangeFile.Record] {
        let logged = sequence.versions
        let (found, unknown) = try everything()
        let listed = Set(found.map(\.key))
        var changed: [(EntryKey, EntryVersion?)] = []
        for item in found where logged[item.key] != item.version {
            // Read again, because the difference may be due to a temporary error of the disk.
            let standing = try standing(of: item.key)
            guard logged[item.key] != standing?.version, standing?.isCertain != false || logged[item.key] == nil
            else { continue }
            changed.append((item.key, standing?.version))
        }
        let removed = logged.keys.filter { key in
            !listed.contains(key) && !unknown.contains { key.text.utf8.starts(with: $0) }
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
