import SyncCore

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// An open journal file. The lock on it lasts until the object is released.
///
/// The file begins with 24 bytes: `Journal1`, the number of bytes that have been written completely, and the bitwise
/// complement of that number.
final class JournalFile: Sendable {
    struct Identity: Equatable {
        let device: dev_t
        let node: ino_t
    }

    static let headByteCount = 24
    private static let magic = Array("Journal1".utf8)

    let path: String
    private let descriptor: Int32

    private init(path: String, descriptor: Int32) {
        self.path = path
        self.descriptor = descriptor
    }

    deinit { close(descriptor) }

    /// Opens the file; `nil` if it does not exist.
    static func open(_ path: String, writing: Bool) throws(BackendError) -> JournalFile? {
        let descriptor = openFile(path, (writing ? O_RDWR : O_RDONLY) | O_CLOEXEC, 0)
        if descriptor < 0, errno == ENOENT { return nil }
        return JournalFile(path: path, descriptor: try check(descriptor, "open", path))
    }

    /// Creates an empty journal unless the file exists. The file is written under another name and then linked, because
    /// a file that is too short counts as damaged.
    static func make(_ path: String, name: UInt64) throws(BackendError) {
        guard access(path, F_OK) != 0 else { return }
        let draft = "\(path).\(String(name, radix: 16)).new"
        let descriptor = openFile(draft, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        let file = JournalFile(path: draft, descriptor: try check(descriptor, "open", draft))
        defer { unlink(draft) }
        try file.write(head(committed: headByteCount), at: 0)
        try file.synchronize()
        if link(draft, path) != 0, errno != EEXIST { throw failure("link", path) }
        let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
        try JournalFile(
            path: folder, descriptor: check(openFile(folder, O_RDONLY | O_CLOEXEC, 0), "open", folder)
        ).synchronize()
    }

    func tryLock(writing: Bool) throws(BackendError) -> Bool {
        if flock(descriptor, (writing ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0 { return true }
        guard errno == EWOULDBLOCK || errno == EINTR else { throw Self.failure("flock", path) }
        return false
    }

    /// Returns `true` if the path still names this file. After a backup is put in its place, writes to this file would
    /// be lost.
    func isStillNamed() throws(BackendError) -> Bool {
        var status = stat()
        guard stat(path, &status) == 0 else { return false }
        return try identityAndSize().0 == Identity(device: status.st_dev, node: status.st_ino)
    }

    func identityAndSize() throws(BackendError) -> (Identity, size: Int) {
        var status = stat()
        _ = try Self.check(fstat(descriptor, &status), "fstat", path)
        return (Identity(device: status.st_dev, node: status.st_ino), Int(status.st_size))
    }

    /// Returns the number of bytes that have been written completely.
    func committed() throws(BackendError) -> Int {
        let head = try bytes(0..<Self.headByteCount)
        guard head.count < 8 || head.starts(with: Self.magic) else {
            throw BackendError(.notAStore, message: "\(path) is not a journal, or its first bytes are damaged")
        }
        guard head.count == Self.headByteCount, UInt64(head[8..<16]) == ~UInt64(head[16..<24]),
            let count = Int(exactly: UInt64(head[8..<16]))
        else { throw damage("its first \(Self.headByteCount) bytes are damaged") }
        return count
    }

    /// Reads the bytes of `range`; fewer if the file ends earlier.
    func bytes(_ range: Range<Int>) throws(BackendError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: range.count)
        var done = 0
        while done < range.count {
            let count = bytes.withUnsafeMutableBytes { buffer in
                pread(
                    descriptor, buffer.baseAddress.map { $0 + done }, range.count - done, off_t(range.lowerBound + done)
                )
            }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw Self.failure("pread", path) }
            if count == 0 { break }
            done += count
        }
        return Array(bytes[..<done])
    }

    /// Writes `record` at `end`, over the remains of a crash, and synchronizes the file.
    func append(_ record: [UInt8], at end: Int) throws(BackendError) {
        _ = try Self.check(ftruncate(descriptor, off_t(end)), "ftruncate", path)
        do throws(BackendError) {
            try write(record, at: end)
        } catch {
            // If this fails too, readers ignore the incomplete record.
            ftruncate(descriptor, off_t(end))
            throw error
        }
        do throws(BackendError) {
            try synchronize()
        } catch {
            throw BackendError(error.kind, disposition: .outcomeUnknown, message: error.message)
        }
        // The record is durable already. The updated head lets readers distinguish damage from a crash.
        try? write(Self.head(committed: end + record.count), at: 0)
    }

    func synchronize() throws(BackendError) { _ = try Self.check(fsync(descriptor), "fsync", path) }

    func damage(_ what: String) -> BackendError {
        BackendError(.damaged, message: "\(path): \(what); restore it from a backup")
    }

    private static func head(committed: Int) -> [UInt8] {
        magic + UInt64(committed).bytes + (~UInt64(committed)).bytes
    }

    private func write(_ bytes: [UInt8], at offset: Int) throws(BackendError) {
        var done = 0
        while done < bytes.count {
            let count = bytes.withUnsafeBytes { buffer in
                pwrite(descriptor, buffer.baseAddress.map { $0 + done }, bytes.count - done, off_t(offset + done))
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw Self.failure("pwrite", path) }
            done += count
        }
    }

    private static func check(_ result: Int32, _ call: String, _ path: String) throws(BackendError) -> Int32 {
        guard result >= 0 else { throw failure(call, path) }
        return result
    }

    private static func failure(_ call: String, _ path: String) -> BackendError {
        let code = errno
        let kind: BackendError.Kind =
            switch code {
            case ENOSPC, EDQUOT, EFBIG: .full
            case EACCES, EPERM, EROFS: .permissionDenied
            case ENOENT: .missing
            case EMFILE, ENFILE: .busy
            case EISDIR, ENOTDIR: .notAStore
            default: .other
            }
        return BackendError(kind, message: "\(path): \(call): \(String(cString: strerror(code)))")
    }
}

private func openFile(_ path: String, _ flags: Int32, _ permissions: mode_t) -> Int32 {
    open(path, flags, permissions)
}
