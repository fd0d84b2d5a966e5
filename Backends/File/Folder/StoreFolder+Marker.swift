import SyncCore

/// The marker file `store.format`, and the errors for a missing or damaged marker.
///
/// A lost marker is never recreated while the folder holds entries, because their format is unknown.
extension StoreFolder {
    /// The content of the marker; `nil` if it does not exist.
    func marker() throws(BackendError) -> [UInt8]? {
        try ifThere { () throws(FileSystemError) in
            try fileSystem.withFile(path(of: Self.markerName), .read) { (file) throws(FileSystemError) in
                try fileSystem.bytes(of: file, limit: 256)
            }
        }
    }

    /// Returns the state of the folder according to its marker.
    func inspectMarked() throws(BackendError) -> State {
        while true {
            if let marker = try marker() {
                try check(marker)
                return .store
            }
            guard let names = try names() else { return .missing }
            // Another process may have created the store since the read above.
            if names.contains(Self.markerName) { continue }
            guard !names.contains(Placeholder.name(for: Self.markerName)) else {
                throw Placeholder.error(path(of: Self.markerName))
            }
            guard
                names.allSatisfy({ [Self.lockName, Self.changesName].contains($0) || Self.pendingNames.contains($0) })
            else {
                guard !holdsEntry() else {
                    // Only a file store has a lock or change log. Without them, a file-sync tool may share the folder.
                    let isFileStore = names.contains(Self.lockName) || names.contains(Self.changesName)
                    throw lostMarker(
                        "this file is missing, but the folder holds entries",
                        advice: isFileStore ? "" : "; for a folder that a file-sync tool shares, use folder:DIR")
                }
                throw BackendError(
                    .notAStore,
                    message: "\(root): the folder has other files and no \(Self.markerName); choose an empty folder")
            }
            return .empty
        }
    }

    /// Returns `.store` if the folder holds entries, whatever its marker says; otherwise the state according to its
    /// marker.
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

    private func lostMarker(_ problem: String, advice: String = "") -> BackendError {
        BackendError(
            .damaged,
            message: "\(path(of: Self.markerName)): \(problem); restore this file from a backup, or copy the entries "
                + "to a new store with syncd store recover\(advice)")
    }

    /// Returns `true` if there is an entry in the folder or below. This distinguishes a store without its marker from
    /// an unrelated folder.
    ///
    /// - Parameter folderCount: The maximum number of folders to examine. An unrelated folder may be a whole disk.
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
                // Ignored, because the error to report is that of the marker.
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
