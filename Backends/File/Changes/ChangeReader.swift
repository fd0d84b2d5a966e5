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
        case current(State)
        /// Read on to a last record that is not visible yet.
        case waiting(State)
        /// The log is another one, or is torn, or has a change of a writer that died.
        case lost
    }

    private let folder: StoreFolder
    private let state = Mutex<State?>(nil)

    init(folder: StoreFolder) {
        self.folder = folder
    }

    /// All visible changes; `nil` when the log must be loaded first.
    func current() throws(BackendError) -> ChangeSequence? {
        guard let known = state.withLock({ $0 }) else { return nil }
        var following = try follow(known)
        // Whatever was acknowledged before this call is in front of what a second look finds at the end.
        if case .waiting(let state) = following { following = try follow(state) }
        switch following {
        case .lost:
            return nil
        case .current(let news), .waiting(let news):
            keep(news)
            return news.sequence
        }
    }

    /// Compares the log with the folder, mends it, and answers all changes. Wants the store's lock to be held.
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
            try folder.replaceLog(with: bytes)
            news = State(
                header: Array(bytes.prefix(ChangeFile.headerByteCount)), end: bytes.count, link: link,
                sequence: sequence)
        }
        state.withLock { $0 = news }
        return sequence
    }

    private func keep(_ news: State) {
        state.withLock { state in
            // Another task may have read further meanwhile.
            if let kept = state, kept.header == news.header, kept.end > news.end { return }
            state = news
        }
    }

    private func follow(_ known: State) throws(BackendError) -> Following {
        guard
            let bytes = try folder.newBytesOfLog(
                from: known.end, after: known.link, header: known.header)
        else { return .lost }
        let records = ChangeFile.records(in: bytes, at: known.end, after: known.link)
        var news = known
        for located in records {
            if located.range.upperBound == known.end + bytes.count, try !folder.isVisible(located) {
                return try isWriting() ? .waiting(news) : .lost
            }
            news.sequence.append(located.record)
            news.end = located.range.upperBound
            news.link = located.link
        }
        if news.end == known.end + bytes.count { return .current(news) }
        // Half a record: it is being written, or was torn.
        return try isWriting() ? .waiting(news) : .lost
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
    fileprivate func corrections(of sequence: ChangeSequence) throws(BackendError) -> [ChangeFile.Record] {
        let told = sequence.versions
        let found = try page(prefix: "", after: nil, limit: .max).items
        let there = Set(found.map(\.key))
        let changed = found.filter { told[$0.key] != $0.version }.map { ($0.key, Optional($0.version)) }
        let removed = told.keys.filter { !there.contains($0) }.map { ($0, nil as EntryVersion?) }
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

    fileprivate func replaceLog(with bytes: [UInt8]) throws(BackendError) {
        try attempting { () throws(FileSystemError) in
            try forgetChanges()
            try fileSystem.withFile(path(of: Self.changesName), .createShared) { (log) throws(FileSystemError) in
                try fileSystem.write(log, bytes)
            }
        }
    }
}
