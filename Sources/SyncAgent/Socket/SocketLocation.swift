import Foundation

/// The location of the socket for local programs: a folder that only its user may enter, or also the members of a
/// group.
package struct SocketLocation: Sendable {
    package let path: String
    /// The group whose members may connect; `nil` for none.
    package let group: UInt32?

    /// The folder of the socket.
    package var folder: String {
        let parts = path.split(separator: "/", omittingEmptySubsequences: false).dropLast()
        return parts.count <= 1 ? "/" : parts.joined(separator: "/")
    }

    /// - Parameter path: The absolute path of the socket.
    package init(path: String, group: UInt32? = nil) throws(AgentError) {
        guard path.hasPrefix("/"), !path.hasSuffix("/") else {
            throw AgentError(.unsafe, "the socket needs an absolute path, not \"\(path)\"")
        }
        guard path.utf8.count <= SocketPath.maximumByteCount else {
            throw AgentError(
                .unsafe,
                "the socket's path must have at most \(SocketPath.maximumByteCount) bytes, not \(path.utf8.count): "
                    + "choose a shorter one")
        }
        (self.path, self.group) = (path, group)
    }

    /// Creates the folder, or checks that it is safe, and that no process listens at the path.
    package func prepare() throws(AgentError) {
        if mkdir(folder, 0o700) != 0, errno != EEXIST {
            throw AgentError(.failed, "\(folder): cannot be created: \(String(cString: strerror(errno)))")
        }
        try checkFolder()
        try openFolderToGroup()
        guard try occupant() != .listener else {
            throw AgentError(.alreadyRunning, "another program listens on \(path): stop it, or choose another path")
        }
    }

    /// Checks that the folder is safe, and changes nothing.
    package func checkFolder() throws(AgentError) {
        var status = stat()
        guard lstat(folder, &status) == 0 else {
            throw AgentError(.failed, "\(folder): \(String(cString: strerror(errno)))")
        }
        guard status.st_mode & S_IFMT == S_IFDIR else { throw AgentError(.unsafe, "\(folder) is not a folder") }
        guard status.st_uid == geteuid() else {
            throw AgentError(
                .unsafe, "\(folder) belongs to user \(status.st_uid), not to user \(geteuid()): choose another folder")
        }
        let others = status.st_mode & 0o077
        let isShared = group == status.st_gid && others & 0o027 == 0
        guard others == 0 || isShared else {
            throw AgentError(
                .unsafe,
                "\(folder): other users may enter this folder (mode \(String(status.st_mode & 0o777, radix: 8)))"
                    + "; chmod 700 \(folder)")
        }
    }

    /// Gives the bound socket its group and mode. Until then only its user may connect.
    package func open() throws(AgentError) {
        guard let group else { return }
        guard chown(path, ~0, gid_t(group)) == 0, chmod(path, 0o660) == 0 else {
            throw AgentError(.failed, "\(path): cannot be given to group \(group): \(String(cString: strerror(errno)))")
        }
    }

    /// Removes the socket.
    package func remove() { unlink(path) }

    private func openFolderToGroup() throws(AgentError) {
        guard let group else { return }
        guard chown(folder, ~0, gid_t(group)) == 0, chmod(folder, 0o710) == 0 else {
            throw AgentError(
                .failed, "\(folder): cannot be given to group \(group): \(String(cString: strerror(errno)))")
        }
    }

    /// The state of the path.
    package enum Occupant: Sendable {
        case none
        /// A socket on which a program listens.
        case listener
        /// A socket without a listener, left by a killed process. The next process replaces it.
        case stale
    }

    /// Examines the path by connecting to it.
    ///
    /// - Throws: ``AgentError`` if a file that is no socket is at the path.
    package func occupant() throws(AgentError) -> Occupant {
        var status = stat()
        guard lstat(path, &status) == 0 else { return .none }
        guard status.st_mode & S_IFMT == S_IFSOCK else {
            throw AgentError(.unsafe, "\(path) exists and is not a socket: remove it, or choose another path")
        }
        let descriptor = SocketPath.open(isStream: true)
        guard descriptor >= 0 else { return .stale }
        defer { close(descriptor) }
        let isAnswered = SocketPath.withAddress(path) { connect(descriptor, $0, $1) == 0 } ?? false
        return isAnswered ? .listener : .stale
    }
}
