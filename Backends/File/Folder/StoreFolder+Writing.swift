import SyncCore
import Synchronization

/// Changes to a store. The caller of each function must hold the store's lock.
extension StoreFolder {
    /// Makes an empty folder a store. Throws, without changing anything, if the folder has other content.
    func makeStore() throws(BackendError) {
        guard try inspect() != .store, !isToolShared else { return }
        known.withLock { $0.durableFolders.removeAll() }
        try replace(Self.markerName, inFolder: root, with: Self.marker(of: Self.firstFormat))
        // A process may have been killed after it created the folder and before it synced the parent.
        do {
            try fileSystem.synchronizeFolder(Self.parent(of: root))
        } catch {
            let error = BackendError(error)
            // If the parent may not be opened, this process cannot have created the folder.
            if error.kind != .permissionDenied { throw error }
        }
    }

    /// Raises the format, so that versions of this software without the change log reject the store.
    func raiseFormat(lock: OpenFile) throws(BackendError) {
        guard try marker() == Self.marker(of: Self.firstFormat) else { return }
        try clearLeftover(in: [], lock: lock)
        try replace(Self.markerName, inFolder: root, with: Self.marker(of: Self.formatWithChanges))
    }

    /// Creates the root folder and its missing parents, and syncs the parent of each created folder.
    func makeRoot() throws(BackendError) {
        var missing: [String] = []
        var path = root
        // Ascends to the first folder that exists or can be created, and descends again. A bound is needed, because
        // some file systems always report "missing".
        while true {
            do {
                try makeFolder(path, synchronizingParentWhenNew: true)
                break
            } catch {
                let parent = Self.parent(of: path)
                guard error.isMissing, parent != path else { throw BackendError(error) }
                missing.append(path)
                path = parent
            }
        }
        for path in missing.reversed() {
            do {
                try makeFolder(path, synchronizingParentWhenNew: true)
            } catch {
                throw error.isMissing && isThere(Self.parent(of: path))
                    ? BackendError(makingFolderIn: error) : BackendError(error)
            }
        }
    }

    private func isThere(_ path: String) -> Bool {
        do {
            _ = try fileSystem.identity(at: path)
            return true
        } catch {
            return false
        }
    }

    /// Writes `entry` under `key` if `precondition` holds.
    func write(
        _ entry: Entry, to key: EntryKey, if precondition: Precondition, lock: OpenFile
    ) throws(BackendError) -> WriteOutcome {
        if let conflict = try conflict(at: key, with: precondition) { return conflict }
        let place = KeyFileName(key)
        if !isToolShared { try clearLeftover(in: place.folders, lock: lock) }
        _ = try hasPlainFolders(place.folders)
        try makeDurable(place.folders)
        try replace(
            place.file, inFolder: folderPath(of: place), with: EntryFile.encode(entry, key: key)
        ) { () throws(BackendError) in try announce(key, entry.version) }
        return .written(entry.version)
    }

    /// Deletes `key` if `precondition` holds. Its folders stay, because another process may be about to write into
    /// them.
    func delete(_ key: EntryKey, if precondition: Precondition) throws(BackendError) -> WriteOutcome {
        if let conflict = try conflict(at: key, with: precondition) { return conflict }
        let place = KeyFileName(key)
        guard try hasPlainFolders(place.folders), isEntryThere(place) else {
            try confirmDurable(place)
            return .deleted
        }
        try withNames(ofFolder: folderPath(of: place)) { (folder) throws(BackendError) in
            let change = try announce(key, nil)
            do throws(BackendError) {
                do throws(FileSystemError) {
                    try fileSystem.removeFile(path(of: place))
                } catch {
                    throw BackendError(renaming: error)
                }
                try synchronizeNames(folder)
            } catch {
                abandon(change)
                throw error
            }
            settle(change)
        }
        return .deleted
    }

    /// Returns `true` if the entry's file name is in use. An unreadable entry can be deleted too.
    private func isEntryThere(_ place: KeyFileName) -> Bool {
        do {
            fileSystem.close(try fileSystem.open(path(of: place), .read))
            return true
        } catch {
            return !error.isMissing
        }
    }

    private func conflict(at key: EntryKey, with precondition: Precondition) throws(BackendError) -> WriteOutcome? {
        // Under `any` the entry is not read, so that a damaged one can be replaced.
        if precondition == .any {
            try confirmDownloaded(path(of: KeyFileName(key)))
            return nil
        }
        let conflict: WriteOutcome
        switch (precondition, try entry(key, unless: precondition.version)) {
        case (.absent, .absent), (_, .unchanged): return nil
        case (_, .found(let entry)): conflict = .conflict(entry)
        case (_, .absent): conflict = .conflict(nil)
        }
        // The outcome must still be true after a power cut.
        try confirmDurable(KeyFileName(key))
        return conflict
    }

    /// Replaces an entry atomically: writes a temporary file beside the old one, syncs it, and renames it.
    ///
    /// - Parameter announcing: Appends the change to the change log, just before the rename.
    private func replace(
        _ name: String, inFolder folder: String, with bytes: [UInt8],
        announcing: () throws(BackendError) -> AnnouncedChange? = { nil }
    ) throws(BackendError) {
        let pending = "\(folder)/\(pendingName)"
        try attempting { () throws(FileSystemError) in
            let file = try openPending(pending)
            do throws(FileSystemError) {
                defer { fileSystem.close(file) }
                try fileSystem.write(file, bytes)
                try fileSystem.synchronize(file)
            } catch {
                removePending(pending)
                throw error
            }
        }
        var isRenamed = false
        do throws(BackendError) {
            try withNames(ofFolder: folder) { (names) throws(BackendError) in
                let change = try announcing()
                do throws(BackendError) {
                    do throws(FileSystemError) {
                        try fileSystem.rename(pending, to: "\(folder)/\(name)")
                    } catch {
                        throw BackendError(renaming: error)
                    }
                    isRenamed = true
                    try synchronizeNames(names)
                } catch {
                    abandon(change)
                    throw error
                }
                settle(change)
            }
        } catch {
            if !isRenamed { removePending(pending) }
            throw error
        }
    }

    /// Opens the folder before anything in it is changed, so that a lack of file descriptors is reported in time.
    private func withNames(
        ofFolder path: String, _ body: (OpenFile) throws(BackendError) -> Void
    ) throws(BackendError) {
        let folder = try attempting { () throws(FileSystemError) in try fileSystem.open(path, .folder) }
        defer { fileSystem.close(folder) }
        try body(folder)
    }

    private func openPending(_ pending: String) throws(FileSystemError) -> OpenFile {
        do {
            return try fileSystem.open(pending, .createNew)
        } catch {
            guard error.isExisting else {
                if error.isMissing { known.withLock { $0.durableFolders.removeAll() } }
                throw error
            }
            // This process has the lock, so the writer of this file was killed.
            try fileSystem.removeFile(pending)
            return try fileSystem.open(pending, .createNew)
        }
    }

    private func removePending(_ pending: String) {
        do {
            try fileSystem.removeFile(pending)
        } catch {
            // The original error is the one to report. The next writer removes the file.
        }
    }

    private func synchronizeNames(_ folder: OpenFile) throws(BackendError) {
        do {
            try fileSystem.synchronize(folder)
        } catch {
            // All readers see the change already, but a power cut could still undo it.
            throw BackendError(error, disposition: .outcomeUnknown)
        }
    }

    /// Creates the folders above an entry and syncs their names.
    ///
    /// An existing folder may have been created by a process that was killed before it synced the parent. Therefore
    /// each process does this once for every folder.
    private func makeDurable(_ folders: [String]) throws(BackendError) {
        let deepest = ([root] + folders).joined(separator: "/")
        if known.withLock({ $0.durableFolders.contains(deepest) }) { return }
        var path = root
        for folder in folders {
            let parent = path
            path += "/" + folder
            if known.withLock({ $0.durableFolders.contains(path) }) { continue }
            try attempting { () throws(FileSystemError) in
                try makeFolder(path, synchronizingParentWhenNew: false)
                try fileSystem.synchronizeFolder(parent)
            }
            known.withLock { known in
                // This only bounds the memory. Adding a folder again costs a few calls.
                if known.durableFolders.count >= 10_000 { known.durableFolders.removeAll() }
                known.durableFolders.insert(path)
            }
        }
    }

    private func makeFolder(_ path: String, synchronizingParentWhenNew: Bool) throws(FileSystemError) {
        do {
            try fileSystem.createFolder(path)
        } catch {
            if error.isExisting { return }
            throw error
        }
        if synchronizingParentWhenNew { try fileSystem.synchronizeFolder(Self.parent(of: path)) }
    }

    /// Removes the temporary file of a killed writer from the folder in which it wrote, and records the current folder
    /// for the next writer.
    ///
    /// Without this record, a temporary file would remain until the next write to its own folder.
    private func clearLeftover(in folders: [String], lock: OpenFile) throws(BackendError) {
        let note = folders.joined(separator: "/")
        try attempting { () throws(FileSystemError) in
            let content = try fileSystem.bytes(of: lock, limit: 8_192)
            let last = content.prefix { $0 != UInt8(ascii: "\n") }
            if last.count < content.count {
                if last.elementsEqual(note.utf8) { return }
                let lastFolders = String(decoding: last, as: UTF8.self).split(separator: "/").map(String.init)
                // A record with names that this backend never creates is ignored.
                if lastFolders.allSatisfy({ KeyFileName.Part(folderName: $0) != nil }) {
                    removePending(([root] + lastFolders + [pendingName]).joined(separator: "/"))
                }
            }
            try fileSystem.write(lock, Array("\(note)\n".utf8))
        }
    }

    static func parent(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }
}

extension Precondition {
    /// The version in the outcome.
    fileprivate var version: EntryVersion? {
        if case .matches(let version) = self { version } else { nil }
    }
}
