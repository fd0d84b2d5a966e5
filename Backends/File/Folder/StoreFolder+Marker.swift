import SyncCore

/// The marker `store.format`, and the errors if it is missing or damaged.
///
/// The marker is never created again beside existing entries, because their format is unknown.
extension StoreFolder {
    /// The content of the marker, `nil` if it does not exist.
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

    /// Determines the state of the folder by its marker.
    func inspectMarked() throws(BackendError) -> State {
        while true {
            if let marker = try marker() {
                try check(marker)
                return .store
            }
            guard let names = try names() else { return .missing }
            // Another process may have made its first write in between.
            if names.contains(Self.markerName) { continue }
            guard
                names.allSatisfy({ [Self.lockName, Self.changesName].contains($0) || Self.pendingNames.contains($0) })
            else {
                guard !holdsEntry() else {
                    // A lock or change log means that it is a store of this form. Otherwise it may be one of a sync
                    // tool.
                    let isOurs = names.contains(Self.lockName) || names.contains(Self.changesName)
                    throw lostMarker(
                        "this file is missing, but there are entries",
                        or: isOurs ? "" : "; for a folder that a file-sync tool shares, use folder:DIR")
                }
                throw BackendError(
                    .notAStore,
                    message: "\(root): the folder has other files and no \(Self.markerName); choose an empty folder")
            }
            return .empty
        }
    }

    /// Determines the state of the folder by its entries regardless of the marker, or by the marker if there are no
    /// entries.
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
            guard !holdsEntry() else { throw lostMarker("this file is damaged") }
            throw BackendError(
                .notAStore, message: "\(path): this is not the marker of a file store; choose another folder")
        }
        guard format <= Self.formatWithChanges else {
            throw BackendError(
                .newerFormat,
                message: "\(path): the store has format \(format), but this software supports up to "
                    + "\(Self.formatWithChanges); update it")
        }
        throw lostMarker("this file is damaged")
    }

    private func lostMarker(_ what: String, or otherAdvice: String = "") -> BackendError {
        BackendError(
            .damaged,
            message: "\(path(of: Self.markerName)): \(what); restore this file from a backup, or copy the entries "
                + "to a new store with syncd store recover\(otherAdvice)")
    }

    /// True if there is an entry below the folder. This distinguishes a store without its marker from an unrelated
    /// folder.
    ///
    /// - Parameter folderCount: The number of folders to examine at most; an unrelated folder may be a whole disk.
    private func holdsEntry(lookingInto folderCount: Int = 1_000) -> Bool {
        var pending = [root]
        for _ in 0..<folderCount {
            guard let folder = pending.popLast() else { return false }
            let names: [String]
            do {
                // The root may be a symbolic link, but the folders below it may not.
                if folder != root { fileSystem.close(try fileSystem.open(folder, .plainFolder)) }
                names = try fileSystem.names(inFolder: folder).sorted()
            } catch {
                // A folder that cannot be read is ignored, because the error of the marker is the one to report.
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
