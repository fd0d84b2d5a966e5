import SyncCore
import Synchronization

/// Changes to a store. Every function here wants the store's lock to be held.
extension StoreFolder {
    /// Makes the folder a store if it is empty; throws, having changed nothing, if it is something else.
    func makeStore() throws(BackendError) {
        guard try inspect() != .store, !isToolShared else { return }
        known.withLock { $0.durableFolders.removeAll() }
        try replace(Self.markerName, inFolder: root, with: Self.marker(of: Self.firstFormat))
        // A process may have died between making the folder and synchronising its parent.
        do {
            try fileSystem.synchronizeFolder(Self.parent(of: root))
        } catch {
            let error = BackendError(error)
            // A parent that we may not open is one in which we cannot have made the folder.
            if error.kind != .permissionDenied { throw error }
        }
    }

    /// Keeps out versions of this software that write without telling the log of changes.
    func raiseFormat(lock: OpenFile) throws(BackendError) {
        guard try marker() == Self.marker(of: Self.firstFormat) else { return }
        try clearLeftover(in: [], lock: lock)
        try replace(Self.markerName, inFolder: root, with: Self.marker(of: Self.formatWithChanges))
    }

    /// Makes the root folder, with its parents where they are missing, and synchronises the parent of each it made.
    func makeRoot() throws(BackendError) {
        var missing: [String] = []
        var path = root
        // Up to the first that can be made or is there, and down again: an odd file system says "missing" for ever.
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

    /// Puts `entry` under `key` if `precondition` holds.
    func write(
        _ entry: Entry, to key: EntryKey, if precondition: Precondition, lock: OpenFile
    ) throws(BackendError) -> WriteOutcome {
        if let conflict = try conflict(at: key, with: precondition) { return conflict }
        let place = KeyFileName(key)
        if !isToolShared { try clearLeftover(in: place.folders, lock: lock) }
        _ = try isOnPlainWay(place.folders)
        try makeDurable(place.folders)
        try replace(
            place.file, inFolder: folderPath(of: place), with: EntryFile.encode(entry, key: key)
        ) { () throws(BackendError) in try announce(key, entry.version) }
        return .written(entry.version)
    }

    /// Removes `key` if `precondition` holds. Its folders stay: another process may be about to write into them.
    func delete(_ key: EntryKey, if precondition: Precondition) throws(BackendError) -> WriteOutcome {
        if let conflict = try conflict(at: key, with: precondition) { return conflict }
        let place = KeyFileName(key)
        guard try isOnPlainWay(place.folders), isEntryThere(place) else {
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

    /// Whether the entry's name is taken, by whatever: what cannot be read can be deleted all the same.
    private func isEntryThere(_ place: KeyFileName) -> Bool {
        do {
            fileSystem.close(try fileSystem.open(path(of: place), .read))
            return true
        } catch {
            return !error.isMissing
        }
    }

    private func conflict(at key: EntryKey, with precondition: Precondition) throws(BackendError) -> WriteOutcome? {
        // Under `any` the entry is not even looked at, so that a damaged one can be replaced.
        if precondition == .any { return nil }
        let conflict: WriteOutcome
        switch (precondition, try entry(key, unless: precondition.version)) {
        case (.absent, .absent), (_, .unchanged): return nil
        case (_, .found(let entry)): conflict = .conflict(entry)
        case (_, .absent): conflict = .conflict(nil)
        }
        // The answer says what holds, also after a power cut.
        try confirmDurable(KeyFileName(key))
        return conflict
    }

    /// The atomic replacement: a new file beside the old one, on the disk before it gets the name, and then the name.
    ///
    /// - Parameter announcing: puts the change into the log, just before the name is given.
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

    /// Opens the folder before anything in it is changed: a system that is short of files says so while there is time.
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
            // We hold the lock, so whoever wrote this is dead.
            try fileSystem.removeFile(pending)
            return try fileSystem.open(pending, .createNew)
        }
    }

    private func removePending(_ pending: String) {
        do {
            try fileSystem.removeFile(pending)
        } catch {
            // The error that brought us here is the one to report; the next writer removes the file.
        }
    }

    private func synchronizeNames(_ folder: OpenFile) throws(BackendError) {
        do {
            try fileSystem.synchronize(folder)
        } catch {
            // Every reader sees the change already; only a power cut can still undo it.
            throw BackendError(error, disposition: .outcomeUnknown)
        }
    }

    /// Makes the folders on the way to an entry and sees to it that their names survive a power cut.
    ///
    /// A folder that is there may have been made a moment ago by a process that died before it synchronised the
    /// parent. So that is done for every folder once a process, whoever made it.
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
                // A bound, not a cache policy: forgetting costs a few calls each.
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

    /// Removes what a writer that died left in the folder that it wrote to, and notes ours for the next one.
    ///
    /// Without the note a leftover would stay until the next write to its own folder; with it, until the next write.
    private func clearLeftover(in folders: [String], lock: OpenFile) throws(BackendError) {
        let note = folders.joined(separator: "/")
        try attempting { () throws(FileSystemError) in
            let content = try fileSystem.bytes(of: lock, limit: 8_192)
            let last = content.prefix { $0 != UInt8(ascii: "\n") }
            if last.count < content.count {
                if last.elementsEqual(note.utf8) { return }
                let lastFolders = String(decoding: last, as: UTF8.self).split(separator: "/").map(String.init)
                // A note that we would not have written leads nowhere.
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
    /// The version that it names.
    fileprivate var version: EntryVersion? {
        if case .matches(let version) = self { version } else { nil }
    }
}
