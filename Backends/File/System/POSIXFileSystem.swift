import FileWatching

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Android)
import Android
#elseif canImport(Darwin)
import Darwin
#endif

/// The file system of the machine, through POSIX calls.
///
/// It repeats interrupted calls and continues short ones. A path that is too long for one call is walked folder by
/// folder. New files and folders get their final mode when they are created, never a wider one.
package struct POSIXFileSystem: FileSystem {
    private let access: FileBackend.Access

    /// - Parameter access: The users who may use the created files and folders.
    package init(access: FileBackend.Access = .owner) { self.access = access }

    package func open(_ path: String, _ mode: OpenMode) throws(FileSystemError) -> OpenFile {
        let flags =
            switch mode {
            case .read: O_RDONLY | Self.plainly
            case .createNew: O_WRONLY | O_CREAT | O_EXCL
            case .createShared: O_RDWR | O_CREAT | Self.plainly
            case .shared: O_RDWR | Self.plainly
            case .folder: O_RDONLY | O_DIRECTORY
            case .plainFolder: O_RDONLY | O_DIRECTORY | O_NOFOLLOW
            }
        let descriptor: Int32
        do throws(FileSystemError) {
            descriptor = try call("open", path) { folder, name in
                openat(folder, name, flags | O_CLOEXEC, access == .owner ? 0o600 : 0o660)
            }
        } catch {
            // The error for a socket, or for a device without hardware.
            guard error.code == ENXIO else { throw error }
            throw FileSystemError(call: error.call, path: error.path, code: FileSystemError.notRegular)
        }
        let file = OpenFile(descriptor: descriptor, path: path)
        do throws(FileSystemError) {
            switch mode {
            case .createNew: try openToGroup(file)
            case .createShared:
                try checkRegular(file)
                try openToGroup(file)
            case .read, .shared: try checkRegular(file)
            case .folder, .plainFolder: break
            }
            return file
        } catch {
            close(file)
            throw error
        }
    }

    /// Gives the group its permissions for a file of this user if the umask has removed them.
    private func openToGroup(_ file: OpenFile) throws(FileSystemError) {
        guard access == .group else { return }
        let status = try status(of: file)
        guard status.st_uid == geteuid(), status.st_mode & 0o660 != 0o660 else { return }
        let mode = status.st_mode & 0o7777 | 0o660
        _ = try retryingInterrupted("fchmod", file.path) { Int(fchmod(file.descriptor, mode)) }
    }

    /// Does not follow links, and does not wait for the other end of a pipe.
    private static let plainly = O_NOFOLLOW | O_NONBLOCK

    private func checkRegular(_ file: OpenFile) throws(FileSystemError) {
        switch try status(of: file).st_mode & S_IFMT {
        case S_IFREG: return
        case S_IFDIR: throw FileSystemError(call: "open", path: file.path, code: EISDIR)
        default: throw FileSystemError(call: "open", path: file.path, code: FileSystemError.notRegular)
        }
    }

    package func close(_ file: OpenFile) {
        // Not repeated when interrupted, because the descriptor may already belong to another thread.
        _ = systemClose(file.descriptor)
    }

    package func read(
        _ file: OpenFile, into buffer: UnsafeMutableRawBufferPointer, at offset: Int
    ) throws(FileSystemError) -> Int {
        var done = 0
        while done < buffer.count {
            let count = try retryingInterrupted("read", file.path) {
                pread(
                    file.descriptor, buffer.baseAddress.map { $0 + done }, buffer.count - done, off_t(offset + done))
            }
            if count == 0 { break }
            done += count
        }
        return done
    }

    package func write(
        _ file: OpenFile, _ bytes: UnsafeRawBufferPointer, at offset: Int
    ) throws(FileSystemError) {
        var done = 0
        while done < bytes.count {
            done += try retryingInterrupted("write", file.path) {
                pwrite(file.descriptor, bytes.baseAddress.map { $0 + done }, bytes.count - done, off_t(offset + done))
            }
        }
    }

    package func synchronize(_ file: OpenFile) throws(FileSystemError) {
        #if canImport(Darwin)
        // On Apple systems fsync leaves data in the cache of the drive. Volumes without F_FULLFSYNC reject the request.
        if fcntl(file.descriptor, F_FULLFSYNC) == 0 { return }
        guard [ENOTSUP, EINVAL, ENOTTY].contains(errno) else { throw failure("fsync", file.path) }
        #endif
        _ = try retryingInterrupted("fsync", file.path) { Int(fsync(file.descriptor)) }
    }

    package func tryLock(_ file: OpenFile) throws(FileSystemError) -> Bool {
        while flock(file.descriptor, LOCK_EX | LOCK_NB) != 0 {
            if errno == EWOULDBLOCK { return false }
            guard errno == EINTR else { throw failure("flock", file.path) }
        }
        return true
    }

    package func byteCount(of file: OpenFile) throws(FileSystemError) -> Int {
        Int(try status(of: file).st_size)
    }

    package func identity(of file: OpenFile) throws(FileSystemError) -> FileIdentity {
        FileIdentity(try status(of: file))
    }

    package func identity(at path: String) throws(FileSystemError) -> FileIdentity {
        var status = stat()
        _ = try call("stat", path) { folder, name in fstatat(folder, name, &status, 0) }
        return FileIdentity(status)
    }

    package func rename(_ source: String, to target: String) throws(FileSystemError) {
        let sourceName = source.split(separator: "/").last.map(String.init) ?? source
        _ = try call("rename", target) { folder, name in
            let folderOfName = String(decoding: name, upToLast: "/")
            return (folderOfName + sourceName).withCString {
                renameat(folder, $0, folder, name)
            }
        }
    }

    package func removeFile(_ path: String) throws(FileSystemError) {
        _ = try call("unlink", path) { folder, name in unlinkat(folder, name, 0) }
    }

    package func createFolder(_ path: String) throws(FileSystemError) {
        guard access == .group else {
            _ = try call("mkdir", path) { folder, name in mkdirat(folder, name, 0o700) }
            return
        }
        _ = try call("mkdir", path) { folder, name in mkdirat(folder, name, 0o770) }
        // The umask may have removed the group's permissions. The set-group-ID bit passes the folder's group on to new
        // files.
        var status = stat()
        _ = try call("stat", path) { folder, name in fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) }
        let mode = status.st_mode & 0o7777 | 0o2770
        _ = try call("chmod", path) { folder, name in fchmodat(folder, name, mode, 0) }
    }

    package func names(inFolder path: String) throws(FileSystemError) -> [String] {
        let file = try open(path, .folder)
        guard let folder = fdopendir(file.descriptor) else {
            let error = failure("opendir", path)
            close(file)
            throw error
        }
        defer { closedir(folder) }
        var names: [String] = []
        while true {
            errno = 0
            guard let item = readdir(folder) else { break }
            let name = withUnsafeBytes(of: &item.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name != ".", name != ".." { names.append(name) }
        }
        guard errno == 0 else { throw failure("readdir", path) }
        return names
    }
}

extension POSIXFileSystem {
    /// Well below `PATH_MAX`, which is 1,024 on Apple systems and 4,096 on Linux.
    private static let longestPath = 1_000

    /// Calls `body` with a folder and a relative path that is short enough for one system call.
    private func call(
        _ name: String, _ path: String, _ body: (Int32, UnsafePointer<CChar>) -> Int32
    ) throws(FileSystemError) -> Int32 {
        var folder = AT_FDCWD
        defer { if folder != AT_FDCWD { _ = systemClose(folder) } }
        var rest = Substring(path)
        while rest.utf8.count > Self.longestPath,
            let slash = rest.utf8.prefix(Self.longestPath).lastIndex(of: UInt8(ascii: "/")), slash > rest.startIndex
        {
            let next = try retryingInterrupted(name, path) {
                String(rest[..<slash]).withCString { Int(openat(folder, $0, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) }
            }
            if folder != AT_FDCWD { _ = systemClose(folder) }
            folder = Int32(next)
            rest = rest[slash...].drop { $0 == "/" }
        }
        let result = try retryingInterrupted(name, path) { String(rest).withCString { Int(body(folder, $0)) } }
        return Int32(result)
    }

    private func status(of file: OpenFile) throws(FileSystemError) -> stat {
        var status = stat()
        _ = try retryingInterrupted("fstat", file.path) { Int(fstat(file.descriptor, &status)) }
        return status
    }

    private func retryingInterrupted(_ name: String, _ path: String, _ body: () -> Int) throws(FileSystemError) -> Int {
        while true {
            let result = body()
            if result >= 0 { return result }
            guard errno == EINTR else { throw failure(name, path) }
        }
    }

    private func failure(_ call: String, _ path: String) -> FileSystemError {
        FileSystemError(call: call, path: path, code: errno)
    }
}

extension FileIdentity {
    fileprivate init(_ status: stat) {
        self.init(device: UInt64(truncatingIfNeeded: status.st_dev), number: UInt64(truncatingIfNeeded: status.st_ino))
    }
}

extension String {
    /// Decodes the C string up to and including the last `separator`; empty if it has none.
    fileprivate init(decoding name: UnsafePointer<CChar>, upToLast separator: Unicode.Scalar) {
        let bytes = UnsafeRawBufferPointer(start: name, count: strlen(name))
        let end = bytes.lastIndex { $0 == UInt8(ascii: separator) }.map { $0 + 1 } ?? 0
        self.init(decoding: bytes[..<end], as: UTF8.self)
    }
}

/// The system's message for an error number.
func systemMessage(_ code: Int32) -> String {
    var buffer = [CChar](repeating: 0, count: 256)
    guard strerror_r(code, &buffer, buffer.count) == 0 else { return "error \(code)" }
    return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
}

private func systemClose(_ descriptor: Int32) -> Int32 {
    close(descriptor)
}
