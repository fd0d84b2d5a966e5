import Foundation

/// Where a store is on this machine, by whatever path, link or mount it is named.
struct StoreLocation {
    /// The names on the way from the root, without `.`, `..` and symbolic links; the last ones may not exist.
    private let names: [String]
    /// The file or folder that each path on the way leads to, outermost first, as far as they exist.
    private let identities: [Identity]
    private let isDatabase: Bool

    private struct Identity: Hashable {
        let device: UInt64
        let number: UInt64
    }

    /// The location of the store at `path`.
    ///
    /// - Parameter isDatabase: whether it is a file that has others beside it, see ``sidecars``.
    init(path: String, isDatabase: Bool) {
        names = Self.names(of: path)
        self.isDatabase = isDatabase
        let names = names
        identities = (0...names.count).compactMap { Self.identity(at: "/" + names[..<$0].joined(separator: "/")) }
        isThere = Self.identity(at: "/" + names.joined(separator: "/")) != nil
    }

    private let isThere: Bool

    /// The absolute path, without symbolic links.
    var path: String { "/" + names.joined(separator: "/") }

    /// Whether both are the same file or folder.
    func isSame(as other: StoreLocation) -> Bool {
        if names == other.names { return true }
        return isThere && other.isThere && identities.last == other.identities.last
    }

    /// Whether the other store is in this folder, or is one of the files of this database.
    func contains(_ other: StoreLocation) -> Bool {
        if isDatabase {
            return Self.sidecars.contains { other.path == path + $0 }
        }
        if other.names.starts(with: names) { return true }
        guard isThere, let identity = identities.last else { return false }
        return other.identities.contains(identity)
    }

    /// What SQLite keeps beside a database.
    private static let sidecars = ["-wal", "-shm", "-journal"]

    private static func identity(at path: String) -> Identity? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return Identity(
            device: UInt64(truncatingIfNeeded: status.st_dev), number: UInt64(truncatingIfNeeded: status.st_ino))
    }

    /// Follows the path name by name, because its end may not be there yet, nor what a link points to.
    private static func names(of path: String) -> [String] {
        let start = path.hasPrefix("/") ? path : "\(FileManager.default.currentDirectoryPath)/\(path)"
        var pending = Array(start.split(separator: "/").map(String.init).reversed())
        var names: [String] = []
        // As many as systems follow; a circle ends here, and is refused by whoever opens it.
        var links = 0
        while let name = pending.popLast() {
            if name == "." { continue }
            if name == ".." {
                _ = names.popLast()
                continue
            }
            names.append(name)
            guard links < 40, let target = link(at: "/" + names.joined(separator: "/")) else { continue }
            links += 1
            if target.hasPrefix("/") { names.removeAll() } else { names.removeLast() }
            pending += target.split(separator: "/").map(String.init).reversed()
        }
        return names
    }

    /// What the symbolic link at `path` says, `nil` where there is none.
    private static func link(at path: String) -> String? {
        let bytes = [UInt8](unsafeUninitializedCapacity: 4_096) { buffer, count in
            let pointer = UnsafeMutableRawBufferPointer(buffer).bindMemory(to: CChar.self)
            count = pointer.baseAddress.map { max(0, readlink(path, $0, pointer.count)) } ?? 0
        }
        return bytes.isEmpty ? nil : String(decoding: bytes, as: UTF8.self)
    }
}

extension StoreURL {
    /// Where it is; `nil` for memory.
    var location: StoreLocation? {
        let isDatabase = if case .sqlite = place { true } else { false }
        return path.map { StoreLocation(path: $0, isDatabase: isDatabase) }
    }

    /// Throws where the two are one store, or one is inside the other: copying would change what is copied.
    func refuseOverlap(with target: StoreURL) throws(Failure) {
        guard let location, let other = target.location else { return }
        guard !location.isSame(as: other) else {
            throw Failure(.usage, "\(text) and \(target.text) are one store: name another to copy to")
        }
        guard !location.contains(other) else {
            throw Failure(.usage, "\(target.text) is inside \(text): name a place outside of it")
        }
        guard !other.contains(location) else {
            throw Failure(.usage, "\(text) is inside \(target.text): name a place that does not hold it")
        }
    }
}
