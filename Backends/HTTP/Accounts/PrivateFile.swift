package import SyncCore

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Android)
import Android
#elseif canImport(Darwin)
import Darwin
#endif

/// A file with secrets that only its owner may access, such as a session or a password.
package struct PrivateFile: Sendable {
    /// The path of the file.
    package let path: String

    /// The limit for the content, far above that of every session.
    static let maximumByteCount = 1 << 20

    /// - Parameter path: The path of the file, which need not exist.
    package init(_ path: String) { self.path = path }

    /// Reads the file; `nil` for a missing one.
    ///
    /// - Throws: `permissionDenied` if it is not a regular file that only the current user may access, `damaged` if it
    ///   is larger than 1 MiB, `unavailable` if it cannot be read.
    package func read() throws(BackendError) -> [UInt8]? {
        // Opening a pipe does not wait for its other end.
        let file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard file >= 0 else {
            if errno == ENOENT { return nil }
            throw failure(.read, "cannot be read", errno)
        }
        defer { close(file) }
        var status = stat()
        guard fstat(file, &status) == 0 else { throw failure(.read, "cannot be read", errno) }
        guard status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid(), status.st_mode & 0o077 == 0 else {
            throw BackendError(
                .permissionDenied, operation: .read,
                message:
                    "\(path) must be your own file, which other users cannot access: chmod 600 it; if they may have "
                    + "read it, change the password in it, or log out everywhere")
        }
        return try content(of: file)
    }

    private func content(of file: Int32) throws(BackendError) -> [UInt8] {
        var bytes: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 4_096)
        while bytes.count <= Self.maximumByteCount {
            let count = pread(file, &part, part.count, off_t(bytes.count))
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw failure(.read, "cannot be read", errno) }
            if count == 0 { return bytes }
            bytes += part[..<count]
        }
        throw BackendError(
            .damaged, operation: .read, message: "\(path): must have at most 1 MiB: use the right file")
    }

    /// Replaces the content durably and in one atomic step. The caller holds the lock; see ``tryLock()``.
    ///
    /// - Throws: `full` without space, `permissionDenied` without permission, `unavailable` otherwise. The old content
    ///   stays, except if only the confirmation of the disk failed.
    package func replace(with bytes: [UInt8]) throws(BackendError) {
        let new = path + ".new"
        // A file left by a crash has no owner, because the caller holds the lock.
        guard unlink(new) == 0 || errno == ENOENT else { throw failure(.write, "cannot be replaced", errno) }
        let file = open(new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard file >= 0 else { throw failure(.write, "cannot be written", errno) }
        var code = Self.write(bytes, to: file)
        close(file)
        if code == 0, rename(new, path) != 0 { code = errno }
        guard code == 0 else {
            unlink(new)
            throw failure(.write, "cannot be written", code)
        }
        try synchronizeFolder(.write)
    }

    /// Removes the file durably. The caller holds the lock; see ``tryLock()``.
    ///
    /// - Throws: As ``replace(with:)``.
    package func remove() throws(BackendError) {
        guard unlink(path) == 0 || errno == ENOENT else { throw failure(.delete, "cannot be removed", errno) }
        try synchronizeFolder(.delete)
    }

    /// Takes the lock `FILE.lock`, which excludes all other descriptors in this process and in others.
    ///
    /// Creates the folder with mode 0700 if it is missing. The lock file is never removed. Otherwise two processes
    /// could lock two files of one name.
    ///
    /// - Returns: A descriptor whose closing releases the lock; `nil` if the lock is taken.
    package func tryLock() throws(BackendError) -> Int32? {
        let name = path + ".lock"
        let flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK
        var lock = open(name, flags, 0o600)
        if lock < 0, errno == ENOENT {
            try PrivateFile(folder).createFolder()
            lock = open(name, flags, 0o600)
        }
        guard lock >= 0 else { throw failure(.open, "the lock cannot be opened", errno) }
        while flock(lock, LOCK_EX | LOCK_NB) != 0 {
            let code = errno
            if code == EINTR { continue }
            close(lock)
            if code == EWOULDBLOCK { return nil }
            throw failure(.open, "cannot be locked", code)
        }
        // If a user removed the lock file meanwhile, other processes lock its successor.
        var (locked, named) = (stat(), stat())
        guard fstat(lock, &locked) == 0, stat(name, &named) == 0, locked.st_ino == named.st_ino,
            locked.st_dev == named.st_dev
        else {
            close(lock)
            return nil
        }
        return lock
    }
}

extension PrivateFile {
    private var folder: String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    /// Creates a folder at the path, and those above it, with mode 0700.
    private func createFolder() throws(BackendError) {
        if mkdir(path, 0o700) != 0 {
            if errno == EEXIST { return }
            guard errno == ENOENT, folder != path else { throw failure(.open, "cannot be created", errno) }
            try PrivateFile(folder).createFolder()
            guard mkdir(path, 0o700) == 0 || errno == EEXIST else { throw failure(.open, "cannot be created", errno) }
        }
        try synchronizeFolder(.open)
    }

    /// Makes the names in the folder of the file durable.
    private func synchronizeFolder(_ operation: BackendError.Operation) throws(BackendError) {
        let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure(operation, "the folder cannot be opened", errno) }
        defer { close(descriptor) }
        guard Self.synchronize(descriptor) else { throw failure(operation, "the folder cannot be written", errno) }
    }

    /// Writes all bytes durably. Returns the system's error number, or 0.
    private static func write(_ bytes: [UInt8], to file: Int32) -> Int32 {
        var done = 0
        while done < bytes.count {
            let count = bytes.withUnsafeBytes { buffer in
                pwrite(file, buffer.baseAddress.map { $0 + done }, buffer.count - done, off_t(done))
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return count < 0 ? errno : EIO }
            done += count
        }
        return synchronize(file) ? 0 : errno
    }

    private static func synchronize(_ descriptor: Int32) -> Bool {
        #if canImport(Darwin)
        // On Apple systems fsync leaves data in the cache of the drive. Volumes without F_FULLFSYNC reject the request.
        if fcntl(descriptor, F_FULLFSYNC) == 0 { return true }
        #endif
        while fsync(descriptor) != 0 { guard errno == EINTR else { return false } }
        return true
    }

    /// The error of a system call.
    func failure(_ operation: BackendError.Operation, _ problem: String, _ code: Int32) -> BackendError {
        let (kind, advice): (BackendError.Kind, String) =
            switch code {
            case EACCES, EPERM: (.permissionDenied, "give this user access to it")
            case EROFS: (.permissionDenied, "mount the file system for writing")
            case ELOOP: (.permissionDenied, "use a file that is not a symbolic link")
            case ENOSPC, EDQUOT: (.full, "free some space")
            case EEXIST, EISDIR, ENOTDIR, ENXIO: (.unavailable, "move what is in its place, or use another path")
            case EMFILE, ENFILE, ENOMEM: (.unavailable, "close some files or programs")
            default: (.unavailable, "check the disk")
            }
        return BackendError(
            kind, operation: operation, disposition: .permanent,
            message: "\(path): \(problem): \(String(cString: strerror(code))); \(advice)")
    }
}
