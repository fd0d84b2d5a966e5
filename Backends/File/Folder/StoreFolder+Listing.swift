import SyncCore

extension StoreFolder {
    /// Returns a page of the keys that begin with `prefix`, in ascending byte order.
    ///
    /// It walks the folders in key order, so memory is bounded by the page and the largest folders on one path,
    /// regardless of the size of the store.
    ///
    /// - Throws: If a folder cannot be read, an error that names the folder as a key, which ends in a slash. The keys
    ///   before it are returned as a page first.
    func page(prefix: String, after cursor: EntryKey?, limit: Int) throws(BackendError) -> KeyPage {
        try page(prefix: prefix, after: cursor, limit: limit, skipping: nil)
    }

    /// Returns all keys, and the prefixes of the unknown keys in folders that cannot be read.
    func everything() throws(BackendError) -> (items: [KeyPage.Item], unknown: [[UInt8]]) {
        var unknown: [[UInt8]] = []
        let page = try page(
            prefix: "", after: nil, limit: .max,
            skipping: { (folder, error) throws(BackendError) in
                guard error.disposition == .permanent else { throw error }
                unknown.append(folder)
            })
        return (page.items, unknown)
    }

    /// - Parameter skipping: Called with the key prefix and the error of a folder that cannot be read. Without it, the
    ///   page ends there.
    private func page(
        prefix: String, after cursor: EntryKey?, limit: Int,
        skipping: (([UInt8], BackendError) throws(BackendError) -> Void)?
    ) throws(BackendError) -> KeyPage {
        precondition(limit >= 1, "limit must be 1 or more, not \(limit)")
        let range = KeyRange(prefix: Array(prefix.utf8), cursor: cursor.map { Array($0.text.utf8) })
        var items: [KeyPage.Item] = []
        // An explicit stack, because keys may be a thousand folders deep.
        var pending = try places(inFolder: [], below: [], in: range)
        while let place = pending.popLast() {
            guard place.isEntry else {
                do throws(BackendError) {
                    guard try hasPlainFolders(place.folders) else { continue }
                    pending += try places(inFolder: place.folders, below: place.keyBytes, in: range)
                } catch {
                    if let skipping {
                        try skipping(place.keyBytes, error)
                    } else if let last = items.last {
                        return KeyPage(items: items, next: last.key)
                    } else {
                        throw error.during(.list, key: EntryKey(utf8: place.keyBytes))
                    }
                }
                continue
            }
            guard let key = EntryKey(utf8: place.keyBytes) else { continue }
            if items.count == limit { return KeyPage(items: items, next: items.last?.key) }
            // An entry that was removed meanwhile is skipped.
            if let version = try version(of: key) { items.append(KeyPage.Item(key: key, version: version)) }
        }
        return KeyPage(items: items, next: nil)
    }

    /// The entries and folders in a folder that may belong to the page, in descending order.
    private func places(
        inFolder folders: [String], below start: [UInt8], in range: KeyRange
    ) throws(BackendError) -> [Place] {
        // The folder may have been removed after its parent was read.
        let names = try ifThere { () throws(FileSystemError) in
            try fileSystem.names(inFolder: ([root] + folders).joined(separator: "/"))
        }
        var places = (names ?? []).compactMap { name -> Place? in
            guard let (bytes, isEntry) = part(named: name, below: start) else { return nil }
            let place = Place(folders: folders + [name], keyBytes: start + bytes, isEntry: isEntry)
            return range.mayContain(place) ? place : nil
        }
        places.sort { $1.keyBytes.lexicographicallyPrecedes($0.keyBytes) }
        return places
    }

    /// The part of a key that a name in a folder represents, and `true` for an entry; `nil` for the name of another
    /// file.
    private func part(named name: String, below start: [UInt8]) -> (bytes: [UInt8], isEntry: Bool)? {
        if let part = KeyFileName.Part(fileName: name) ?? KeyFileName.Part(folderName: name) {
            return (part.sortKey, part.isEntry)
        }
        // The version of an entry that is not downloaded is unknown, so the listing fails.
        if !isToolShared, let part = Placeholder.original(of: name).flatMap(KeyFileName.Part.init(fileName:)) {
            return (part.sortKey, true)
        }
        let endsComponent = start.isEmpty || start.last == UInt8(ascii: "/")
        return isToolShared && endsComponent && ConflictCopy.isName(name) ? (Array(name.utf8), true) : nil
    }
}

/// A file or folder with its key, or with the prefix of the keys in it.
private struct Place {
    /// The names on the path from the store's folder, including the last one.
    let folders: [String]
    let keyBytes: [UInt8]
    let isEntry: Bool
}

/// The range of keys that begin with `prefix` and come after `cursor`.
private struct KeyRange {
    let prefix: [UInt8]
    let cursor: [UInt8]?

    func mayContain(_ place: Place) -> Bool {
        let bytes = place.keyBytes
        guard bytes.starts(with: prefix) || (!place.isEntry && prefix.starts(with: bytes)) else { return false }
        guard let cursor, !cursor.lexicographicallyPrecedes(bytes) else { return true }
        // A folder can be skipped if all keys in it come before the cursor.
        return !place.isEntry && cursor.starts(with: bytes)
            && cursor.lexicographicallyPrecedes(EntryKey.last(beginningWith: bytes))
    }
}
