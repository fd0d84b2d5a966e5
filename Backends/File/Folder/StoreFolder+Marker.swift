import SyncCore

/// The marker `store.format`, and what is said where it is missing or damaged.
///
/// It is never made anew beside entries: nobody can know then which format they had.
extension StoreFolder {
    /// The marker's content, `nil` when there is none.
    func marker() throws(BackendError) -> [UInt8]? {
        do {
            return try fileSystem.withFile(path(of: Self.markerName), .read) { (file) throws(FileSystemError) in
                try fileSystem.bytes(of: file, limit: 256)
            }
        } catch {
            guard error.isMissing else { throw BackendError(error) }
            return nil
        }
    }

    /// What a folder is by its marker.
    func inspectMarked() throws(BackendError) -> State {
        while true {
            if let marker = try marker() {
                try check(marker)
                return .store
            }
            guard let names = try names() else { return .missing }
            // Another process may have made its first write between the two looks.
            if names.contains(Self.markerName) { continue }
            guard
                names.allSatisfy({ [Self.lockName, Self.changesName].contains($0) || Self.pendingNames.contains($0) })
            else {
                guard !holdsEntry() else {
                    // Where writers took turns there is their lock; without, it may be the other form of a store.
                    let isOurs = names.contains(Self.lockName) || names.contains(Self.changesName)
                    throw lostMarker(
                        "missing, and entries are there",
                        or: isOurs ? "" : "; a folder that a file-sync tool shares is named folder:DIR")
                }
                throw BackendError(
                    .notAStore,
                    message: "\(root): the folder has other files and no \(Self.markerName); choose an empty folder")
            }
            return .empty
        }
    }

    /// What a folder is by its entries, whatever became of the marker; by the marker where there are none.
    func inspectUnmarked() throws(BackendError) -> State {
        holdsEntry(lookingInto: 100_000) ? .store : try inspectMarked()
    }

    private func check(_ marker: [UInt8]) throws(BackendError) {
        let formats = [Self.firstFormat, Self.formatWithChanges]
        if formats.contains(where: { marker == Self.marker(of: $0) }) { return }
        let path = path(of: Self.markerName)
        let start = Array(Self.markerStart.utf8)
        let digits = marker.dropFirst(start.count).prefix { $0 != UInt8(ascii: "\n") }
        guard marker.starts(with: start), let format = Int(String(decoding: digits, as: UTF8.self)) else {
            guard !holdsEntry() else { throw lostMarker("damaged") }
            throw BackendError(.notAStore, message: "\(path): this is no file store's; choose another folder")
        }
        guard format <= Self.formatWithChanges else {
            throw BackendError(
                .newerFormat,
                message: "\(path): the store has format \(format), this software knows up to "
                    + "\(Self.formatWithChanges); update it")
        }
        throw lostMarker("damaged")
    }

    private func lostMarker(_ what: String, or otherAdvice: String = "") -> BackendError {
        BackendError(
            .damaged,
            message: "\(path(of: Self.markerName)): \(what); put this file back from a backup, or bring the entries "
                + "into a new store with syncd store recover\(otherAdvice)")
    }

    /// Whether there is an entry of ours below the folder, which tells a store that lost its marker from a folder of
    /// somebody else's.
    ///
    /// - Parameter folderCount: it gives up after so many folders; a foreign one may be a whole disk.
    private func holdsEntry(lookingInto folderCount: Int = 1_000) -> Bool {
        var pending = [root]
        for _ in 0..<folderCount {
            guard let folder = pending.popLast() else { return false }
            let names: [String]
            do {
                // The root may be a symbolic link, what is below it may not.
                if folder != root { fileSystem.close(try fileSystem.open(folder, .plainFolder)) }
                names = try fileSystem.names(inFolder: folder).sorted()
            } catch {
                // What cannot be looked at tells nothing; the error to report is the marker's.
                continue
            }
            if names.contains(where: { isEntry("\(folder)/\($0)", named: $0) }) { return true }
            pending += names.filter { KeyFileName.Part(folderName: $0) != nil }.map { "\(folder)/\($0)" }
        }
        return false
    }

    private func isEntry(_ path: String, named name: String) -> Bool {
        guard KeyFileName.Part(fileName: name) != nil else { return false }
        do {
            return try fileSystem.withFile(path, .read) { (file) throws(FileSystemError) in
                EntryFile.isBegun(by: try fileSystem.bytes(of: file, limit: EntryFile.fixedByteCount))
            }
        } catch {
            return false
        }
    }
}
