import Entitlements
import Foundation
import SyncAgent

/// The files of a store on this machine, with their owners. Reading them changes nothing.
struct StoreFiles {
    struct Item {
        let path: String
        let owner: uid_t
        let group: gid_t
        fileprivate let mode: mode_t

        /// Examines the item at `path`, without following a link; `nil` if there is none.
        init?(path: String) throws(Failure) {
            var status = stat()
            guard lstat(path, &status) == 0 else {
                guard errno != ENOENT, errno != ENOTDIR else { return nil }
                throw Failure(.failed, "\(path): \(String(cString: strerror(errno)))")
            }
            self.path = path
            (owner, group, mode) = (status.st_uid, status.st_gid, status.st_mode)
        }

        var isFolder: Bool { mode & S_IFMT == S_IFDIR }
        /// `true` for folders such as /tmp, in which every user has files.
        fileprivate var isPublic: Bool { mode & 0o002 != 0 }
    }

    /// The folder in which the store is; `nil` if it does not exist.
    let parent: Item?
    let parentPath: String
    /// The store's folder or database; `nil` if there is no store.
    let root: Item?
    /// The store's files and folders, ``root`` included, and the files beside it.
    let items: [Item]

    /// - Parameter location: the location of the store.
    init(_ location: StoreLocation) throws {
        let path = location.path
        parentPath = URL(filePath: path).deletingLastPathComponent().path(percentEncoded: false)
        parent = try Item(path: parentPath)
        root = try Item(path: path)
        let beside = location.sidecarPaths + [StoreLock.path(ofStore: path)]
        var paths = beside
        if let root {
            paths.insert(path, at: 0)
            if root.isFolder { paths += try Self.contents(of: path) }
        }
        items = try paths.compactMap { path in try Item(path: path) }
    }

    private static func contents(of folder: String) throws -> [String] {
        var failure: (any Error)?
        let names = FileManager.default.enumerator(
            at: URL(filePath: folder), includingPropertiesForKeys: nil, options: [],
            errorHandler: { _, error in
                failure = error
                return false
            })
        let paths = names?.compactMap { ($0 as? URL)?.path(percentEncoded: false) } ?? []
        if let failure {
            throw Failure(.failed, "\(folder): cannot be listed: \(systemReason(of: failure))")
        }
        return paths.map { $0.hasSuffix("/") ? String($0.dropLast()) : $0 }
    }

    /// The user to whom the store belongs. In a user's folder, that is this user even if the store is root's.
    var owner: uid_t { Self.owner(root, in: parent)?.owner ?? 0 }

    /// The group of the store.
    var group: gid_t { Self.owner(root, in: parent)?.group ?? 0 }

    /// The item that decides to whom a store belongs; `nil` if that is root.
    private static func owner(_ root: Item?, in parent: Item?) -> Item? {
        if let root, root.owner != 0 { return root }
        return parent.flatMap { !$0.isPublic && $0.owner != 0 ? $0 : nil }
    }

    /// The owner of a store and its group, without a look at the store's contents; `nil` if that is root.
    static func owner(of location: StoreLocation) throws(Failure) -> (user: uid_t, group: gid_t)? {
        let path = location.path
        let parent = try Item(path: URL(filePath: path).deletingLastPathComponent().path(percentEncoded: false))
        return owner(try Item(path: path), in: parent).map { ($0.owner, $0.group) }
    }

    /// The files that belong to another user than ``owner`` and are not shared with the group of the store.
    var foreign: [Item] {
        items.filter { item in
            guard item.owner != owner else { return false }
            let bits: mode_t = item.isFolder ? 0o070 : 0o060
            return item.group != root?.group || item.mode & bits != bits
        }
    }
}
