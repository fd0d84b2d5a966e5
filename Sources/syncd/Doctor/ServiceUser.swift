import Entitlements
import Foundation
import SyncAgent

/// The user who runs the server, for whom root checks it.
///
/// Root may read and write everything, so its own access says nothing about a server that runs as another user.
struct ServiceUser: Sendable {
    let id: uid_t
    /// All groups of the user.
    let groups: Set<gid_t>
    /// The user in words, for findings.
    let description: String
    /// The folders that systemd mounts for the user. The modes on the path to them do not matter.
    var ownFolders: [String] = []
    /// The folders that the user does not see.
    var hiddenFolders: [String] = []
    /// The folders below which the user may write; `nil` if only modes decide.
    var writableFolders: [String]?

    init(id: uid_t, groups: Set<gid_t>, description: String) {
        (self.id, self.groups, self.description) = (id, groups, description)
    }

    /// The owner of a store; `nil` if that is root.
    init?(ownerOfStore location: StoreLocation) {
        // A store that cannot be examined fails a check of its own.
        guard let (id, group) = try? StoreFiles.owner(of: location) else { return nil }
        self.init(
            id: id, groups: Set(LocalUsers.groups(of: id) + [group]),
            description: "user \(userName(id)) (the owner of the store)")
    }

    /// The reason why the user has no access, and the remedy.
    struct Obstacle: Equatable {
        let reason: String
        let remedy: String
    }

    /// The obstacle to access of the kind `mode` to the existing file or folder at `path`; `nil` if there is access.
    func obstacle(to path: String, _ mode: Int32) -> Obstacle? {
        guard let real = resolvedPath(path) else {
            return Obstacle(reason: String(cString: strerror(errno)), remedy: "correct the path")
        }
        let moving = "choose another place for it"
        if let folder = hiddenFolders.first(where: { Self.isAt(real, orIn: $0) }) {
            return Obstacle(reason: "the unit hides \(folder)", remedy: moving)
        }
        if mode & W_OK != 0, let writableFolders, !writableFolders.contains(where: { Self.isAt(real, orIn: $0) }) {
            return Obstacle(
                reason: "the unit may not write there", remedy: "set ReadWritePaths=\(real) with systemctl edit syncd")
        }
        let start = ownFolders.first { Self.isAt(real, orIn: $0) } ?? ""
        let names = real.dropFirst(start.count).split(separator: "/")
        // The folders on the way, of which systemd opens its own.
        var folders = names.indices.dropLast().map { start + "/" + names[...$0].joined(separator: "/") }
        if start.isEmpty { folders.insert("/", at: 0) }
        if let reason = folders.lazy.compactMap({ refusal(at: $0, X_OK) }).first {
            return Obstacle(reason: reason, remedy: moving)
        }
        return refusal(at: real, mode).map { reason in
            // A dynamic user has a number from the first start of its unit on.
            let remedy =
                id == .max
                ? "start the unit once, then check again" : "sudo chown \(chownArguments) \(quoted(real))"
            return Obstacle(reason: reason, remedy: remedy)
        }
    }

    /// The mistake that the user cannot read the existing file or folder at `path`, with the remedy.
    func unreadable(_ path: String) -> String? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        let isFolder = status.st_mode & S_IFMT == S_IFDIR
        guard let obstacle = obstacle(to: path, isFolder ? R_OK | X_OK : R_OK) else { return nil }
        return "\(description) cannot read \(path.singleLine): \(obstacle.reason); \(obstacle.remedy)"
    }

    /// The reason why the mode of the file or folder at `path` does not give the user the right `needed`.
    private func refusal(at path: String, _ needed: Int32) -> String? {
        var status = stat()
        guard stat(path, &status) == 0 else { return String(cString: strerror(errno)) }
        let shift: mode_t = status.st_uid == id ? 6 : groups.contains(status.st_gid) ? 3 : 0
        let bits = Int32(status.st_mode >> shift & 7)
        // An access control list, which is not read here, can give more than the mode.
        guard id != 0, bits & needed != needed, !Self.hasAccessList(path) else { return nil }
        return "\(path) has mode \(modeText(status)) and belongs to user \(userName(status.st_uid))"
    }

    private static func hasAccessList(_ path: String) -> Bool {
        #if os(Linux)
        typealias Function =
            @convention(c) (UnsafePointer<CChar>, UnsafePointer<CChar>, UnsafeMutableRawPointer?, Int) -> Int
        // Swift's module of the C library lacks <sys/xattr.h>.
        guard let symbol = dlsym(nil, "getxattr") else { return false }
        return unsafeBitCast(symbol, to: Function.self)(path, "system.posix_acl_access", nil, 0) > 0
        #else
        return false
        #endif
    }

    private static func isAt(_ path: String, orIn folder: String) -> Bool {
        path == folder || path.hasPrefix(folder.hasSuffix("/") ? folder : folder + "/")
    }

    /// The arguments of chown(1) that give files to the user.
    var chownArguments: String {
        ownFolders.first.map { "--reference=\(quoted($0))" } ?? Self.chownArguments(id, group: groups.first ?? id)
    }

    /// The arguments of chown(1) for a user, who may have no name, and then has no default group.
    static func chownArguments(_ id: uid_t, group: gid_t) -> String {
        let name = userName(id)
        return name == String(id) ? "\(id):\(group)" : "\(name):"
    }
}
