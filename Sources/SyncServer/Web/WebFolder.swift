import Crypto
import Foundation
import NIOPosix
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// The files of a web page in a folder, below `/`.
///
/// Files only, no listings; nothing whose name begins with a dot; no symbolic link is followed, so that nothing outside
/// of the folder can be reached. Files are read again when they change; a file has at most 16 MiB.
public final class WebFolder: Sendable {
    /// A file as it is sent.
    struct File: Sendable {
        var bytes: [UInt8]
        var mediaType: String
        /// A strong entity tag, with its quotation marks.
        var tag: String
    }

    private struct Stamp: Hashable {
        var inode: UInt64
        var size: Int64
        var seconds: Int
        var nanoseconds: Int
    }

    private struct Kept {
        var stamp: Stamp
        var file: File
    }

    private static let fileByteCount: Int64 = 16 << 20
    private static let keptByteCount = 64 << 20

    private let root: Int32
    private let kept = Mutex<(files: [String: Kept], byteCount: Int)>(([:], 0))

    /// The files in the folder at `path`, which may be a symbolic link itself.
    ///
    /// - Throws: ``ListenerError`` where there is no folder that can be read.
    public init(path: String) throws(ListenerError) {
        root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard root >= 0 else { throw ListenerError("\(path): this is no folder that can be read") }
    }

    deinit { close(root) }

    /// The file that `path` of a request names; `nil` where there is none to be seen.
    func file(at path: String) async -> File? {
        guard let parts = Self.parts(of: path) else { return nil }
        return try? await NIOThreadPool.singleton.runIfActive { self.read(parts) }
    }

    /// The names from the folder to the file, decoded once; `nil` for a path that names none. A path with a slash at
    /// its end names the `index.html` there.
    static func parts(of path: String) -> [String]? {
        guard path.hasPrefix("/") else { return nil }
        var parts: [String] = []
        for part in path.dropFirst().split(separator: "/", omittingEmptySubsequences: false) {
            guard let name = part.removingPercentEncoding, isPlain(name) else { return nil }
            parts.append(name)
        }
        if parts.last == "" { parts[parts.count - 1] = "index.html" }
        return parts.contains("") || parts.count > 32 ? nil : parts
    }

    /// Whether a file of that name is shown.
    private static func isPlain(_ name: String) -> Bool {
        let others: [UInt8] = [UInt8(ascii: "/"), UInt8(ascii: "\\"), 0x7F]
        return !name.hasPrefix(".") && name.utf8.count <= 255
            && name.utf8.allSatisfy { byte in byte >= 0x20 && !others.contains(byte) }
    }

    private func read(_ parts: [String]) -> File? {
        var folder = root
        defer { if folder != root { close(folder) } }
        for part in parts.dropLast() {
            let next = openat(folder, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
            if folder != root { close(folder) }
            folder = next
            guard folder >= 0 else {
                folder = root
                return nil
            }
        }
        guard let name = parts.last else { return nil }
        // Opening a pipe would wait for its writer.
        let descriptor = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        guard let stamp = Self.stamp(of: descriptor) else { return nil }
        let path = parts.joined(separator: "/")
        if let known = kept.withLock({ $0.files[path] }), known.stamp == stamp { return known.file }
        guard let data = try? handle.read(upToCount: Int(stamp.size)) ?? Data(), data.count == Int(stamp.size) else {
            return nil
        }
        let digest = SHA256.hash(data: data).prefix(16).map { String(UInt16($0) + 256, radix: 16).dropFirst() }
        let file = File(bytes: Array(data), mediaType: MediaTypes.of(name), tag: "\"\(digest.joined())\"")
        keep(Kept(stamp: stamp, file: file), path)
        return file
    }

    private static func stamp(of descriptor: Int32) -> Stamp? {
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_size <= fileByteCount
        else { return nil }
        #if canImport(Darwin)
        let time = status.st_mtimespec
        #else
        let time = status.st_mtim
        #endif
        return Stamp(
            inode: UInt64(status.st_ino), size: Int64(status.st_size), seconds: Int(time.tv_sec),
            nanoseconds: Int(time.tv_nsec))
    }

    private func keep(_ new: Kept, _ path: String) {
        kept.withLock { kept in
            if let old = kept.files.removeValue(forKey: path) { kept.byteCount -= old.file.bytes.count }
            if kept.byteCount + new.file.bytes.count > Self.keptByteCount { kept = ([:], 0) }
            kept.files[path] = new
            kept.byteCount += new.file.bytes.count
        }
    }
}
