import Foundation

/// The location of a store on this machine, for recognizing paths that lead to the same store by links or mounts.
struct StoreLocation {
    /// The path components from the root, without `.`, `..` and symbolic links. The last ones need not exist.
    private let names: [String]
    /// The identity of each existing file or folder on the path, outermost first.
    private let identities: [Identity]
    private let isDatabase: Bool
    /// `true` if the store existed when this value was created.
    private let exists: Bool

    /// The device and inode numbers of a file or folder.
    private struct Identity: Hashable {
        let device: UInt64
        let number: UInt64
    }

    /// The location of the store at `path`.
    ///
    /// - Parameter isDatabase: `true` for an SQLite database, which may have ``sidecars``.
    init(path: String, isDatabase: Bool) {
        names = Self.names(of: path)
        self.isDatabase = isDatabase
        let names = names
        identities = (0...names.count).compactMap { Self.identity(at: "/" + names[..<$0].joined(separator: "/")) }
        exists = Self.identity(at: "/" + names.joined(separator: "/")) != nil
    }

    /// The absolute path, without symbolic links.
    var path: String { "/" + names.joined(separator: "/") }

    /// Returns `true` if both locations are the same file or folder.
    func isSame(as other: StoreLocation) -> Bool {
        if names == other.names { return true }
        return exists && other.exists && identities.last == other.identities.last
    }

    /// Returns `true` if `other` is this folder or inside it, or if it is a sidecar of this database.
    func contains(_ other: StoreLocation) -> Bool {
        if isDatabase {
            return Self.sidecars.contains { other.path == path + $0 }
        }
        if other.names.starts(with: names) { return true }
        guard exists, let identity = identities.last else { return false }
        return other.identities.contains(identity)
    }

    /// The paths of the files that SQLite may keep beside the store; empty for a folder.
    var sidecarPaths: [String] { isDatabase ? Self.sidecars.map { path + $0 } : [] }

    /// The suffixes of the files that SQLite keeps beside a database.
    private static let sidecars = ["-wal", "-shm", "-journal"]

    private static func identity(at path: String) -> Identity? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return Identity(
            device: UInt64(truncatingIfNeeded: status.st_dev), number: UInt64(truncatingIfNeeded: status.st_ino))
    }

    /// Resolves the path component by component. `realpath` would fail if its last components do not exist.
    private static func names(of path: String) -> [String] {
        let start = path.hasPrefix("/") ? path : "\(FileManager.default.currentDirectoryPath)/\(path)"
        var pending = Array(start.split(separator: "/").map(String.init).reversed())
        var names: [String] = []
        // Follows at most 40 links, like Linux, so that a cycle ends. Opening the store then reports the cycle.
        var links = 0
        while let name = pending.popLast() {
            if name == "." { continue }
            if name == ".." {
                _ = names.popLast()
                continue
            }
            names.append(name)
            let path = "/" + names.joined(separator: "/")
            guard links < 40, let target = try? FileManager.default.destinationOfSymbolicLink(atPath: path) else {
                continue
            }
            links += 1
            if target.hasPrefix("/") { names.removeAll() } else { names.removeLast() }
            pending += target.split(separator: "/").map(String.init).reversed()
        }
        return names
    }
}

extension StoreURL {
    /// The store's location; `nil` for memory and servers.
    var location: StoreLocation? {
        path.map { StoreLocation(path: $0, isDatabase: isDatabase) }
    }

    /// Throws if copying to `target` would change the source: both are the same store, or one contains the other.
    func refuseOverlap(with target: StoreURL) throws(Failure) {
        if case .postgreSQL = place, place == target.place {
            throw Failure(.usage, "\(text) and \(target.text) are the same store: choose another target")
        }
        guard let location, let other = target.location else { return }
        guard !location.isSame(as: other) else {
            throw Failure(.usage, "\(text) and \(target.text) are the same store: choose another target")
        }
        guard !location.contains(other) else {
            throw Failure(.usage, "\(target.text) is inside \(text): choose a target outside it")
        }
        guard !other.contains(location) else {
            throw Failure(.usage, "\(text) is inside \(target.text): choose a target that does not contain it")
        }
    }
}
