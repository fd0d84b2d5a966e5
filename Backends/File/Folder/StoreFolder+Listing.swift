import SyncCore

extension StoreFolder {
    /// A page of the keys that begin with `prefix`, in ascending order of their bytes.
    ///
    /// Walks the folders in key order, so memory is bounded by the largest folders on one path and the page, whatever
    /// the size of the store.
    ///
    /// - Throws: where a folder cannot be read, an error that names it as a key, which ends in a slash. What comes
    ///   before it is a page first.
    func page(prefix: String, after cursor: EntryKey?, limit: Int) throws(BackendError) -> KeyPage {
        try page(prefix: prefix, after: cursor, limit: limit, skipping: nil)
    }

    /// All keys, and the beginnings of those of which nobody can know, because their folder cannot be read.
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

    /// - Parameter skipping: is told of a folder that cannot be read: the beginning of its keys, and why. Without it,
    ///   the page ends there.
    private func page(
        prefix: String, after cursor: EntryKey?, limit: Int,
        skipping: (([UInt8], BackendError) throws(BackendError) -> Void)?
    ) throws(BackendError) -> KeyPage {
        precondition(limit >= 1, "a page holds 1 key or more")
        let range = KeyRange(prefix: Array(prefix.utf8), cursor: cursor.map { Array($0.text.utf8) })
        var items: [KeyPage.Item] = []
        // A stack of our own: keys may be a thousand folders deep.
        var pending = try places(inFolder: [], below: [], in: range)
        while let place = pending.popLast() {
            guard place.isEntry else {
                do throws(BackendError) {
                    guard try isOnPlainWay(place.folders) else { continue }
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
            // One that is gone again is skipped.
            if let version = try version(of: key) { items.append(KeyPage.Item(key: key, version: version)) }
        }
        return KeyPage(items: items, next: nil)
    }

    /// What is in a folder and may belong to the page, last first.
    private func places(
        inFolder folders: [String], below start: [UInt8], in range: KeyRange
    ) throws(BackendError) -> [Place] {
        let names: [String]
        do {
            names = try fileSystem.names(inFolder: ([root] + folders).joined(separator: "/"))
        } catch {
            // Removed since its parent was read.
            if error.isMissing { return [] }
            throw BackendError(error)
        }
        var places = names.compactMap { name -> Place? in
            guard let (bytes, isEntry) = part(named: name, below: start) else { return nil }
            let place = Place(folders: folders + [name], keyBytes: start + bytes, isEntry: isEntry)
            return range.mayContain(place) ? place : nil
        }
        places.sort { $1.keyBytes.lexicographicallyPrecedes($0.keyBytes) }
        return places
    }

    /// What a name in a folder adds to a key, and whether it is an entry; `nil` for what is none of the store's.
    private func part(named name: String, below start: [UInt8]) -> (bytes: [UInt8], isEntry: Bool)? {
        if let part = KeyFileName.Part(fileName: name) ?? KeyFileName.Part(folderName: name) {
            return (part.sortKey, part.isEntry)
        }
        let endsComponent = start.isEmpty || start.last == UInt8(ascii: "/")
        return isToolShared && endsComponent && ConflictCopy.isName(name) ? (Array(name.utf8), true) : nil
    }
}

/// A file or folder with the key, or the beginning of the keys, that it stands for.
private struct Place {
    /// The names on the way to it from the store's folder, its own included.
    let folders: [String]
    let keyBytes: [UInt8]
    let isEntry: Bool
}

/// The keys that begin with `prefix` and come after `cursor`.
private struct KeyRange {
    let prefix: [UInt8]
    let cursor: [UInt8]?

    func mayContain(_ place: Place) -> Bool {
        let bytes = place.keyBytes
        guard bytes.starts(with: prefix) || (!place.isEntry && prefix.starts(with: bytes)) else { return false }
        guard let cursor, !cursor.lexicographicallyPrecedes(bytes) else { return true }
        // A folder is done with when no key below it can come after the cursor.
        return !place.isEntry && cursor.starts(with: bytes)
            && cursor.lexicographicallyPrecedes(EntryKey.last(beginningWith: bytes))
    }
}
