import Crypto
import Foundation
import NIOPosix
import SyncProtocol
import Synchronization

/// The files of a web page, served from a folder at `/`.
///
/// Only regular files of at most 16 MiB are served, without folder listings. Names that begin with a dot are hidden,
/// and symbolic links are not followed, so that nothing outside the folder can be reached. Files are cached and read
/// again when they change.
package final class WebFolder: Sendable {
    /// The contents of a file and its header fields.
    struct File: Sendable {
        var bytes: [UInt8]
        var mediaType: String
        var tag: EntityTag
    }

    private struct Stamp: Hashable {
        var inode: UInt64
        var size: Int64
        var seconds: Int
        var nanoseconds: Int
    }

    private struct CachedFile {
        var stamp: Stamp
        var file: File
    }

    private static let fileByteCount: Int64 = 16 << 20
    private static let cacheByteCount = 64 << 20

    private let root: Int32
    private let cache = Mutex<(files: [String: CachedFile], byteCount: Int)>(([:], 0))

    /// Opens the folder at `path`, which may itself be a symbolic link.
    ///
    /// - Throws: ``ListenerError`` if the folder cannot be read.
    package init(path: String) throws(ListenerError) {
        root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard root >= 0 else { throw ListenerError("\(path): not a readable folder") }
    }

    deinit { close(root) }

    /// The file at the path of a request; `nil` if there is none or it is hidden.
    func file(at path: String) async -> File? {
        guard let parts = Self.parts(of: path) else { return nil }
        return try? await NIOThreadPool.singleton.runIfActive { self.read(parts) }
    }

    /// The percent-decoded components of a request path; `nil` if the path is invalid. A path that ends in a slash
    /// means `index.html` in that folder.
    static func parts(of path: String) -> [String]? {
        guard path.hasPrefix("/") else { return nil }
        var parts: [String] = []
        for part in path.dropFirst().split(separator: "/", omittingEmptySubsequences: false) {
            guard let name = part.removingPercentEncoding, isServable(name) else { return nil }
            parts.append(name)
        }
        if parts.last == "" { parts[parts.count - 1] = "index.html" }
        return parts.contains("") || parts.count > 32 ? nil : parts
    }

    /// Returns `true` if files of that name may be served.
    private static func isServable(_ name: String) -> Bool {
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
        // Without O_NONBLOCK, opening a named pipe would wait for a writer.
        let descriptor = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        guard let stamp = Self.stamp(of: descriptor) else { return nil }
        let path = parts.joined(separator: "/")
        if let known = cache.withLock({ $0.files[path] }), known.stamp == stamp { return known.file }
        guard let data = try? handle.read(upToCount: Int(stamp.size)) ?? Data(), data.count == Int(stamp.size) else {
            return nil
        }
        let digest = Array(SHA256.hash(data: data).prefix(16))
        let file = File(bytes: Array(data), mediaType: MediaTypes.of(name), tag: EntityTag(digest: digest))
        store(CachedFile(stamp: stamp, file: file), path)
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

    private func store(_ new: CachedFile, _ path: String) {
        cache.withLock { cache in
            if let old = cache.files.removeValue(forKey: path) { cache.byteCount -= old.file.bytes.count }
            if cache.byteCount + new.file.bytes.count > Self.cacheByteCount { cache = ([:], 0) }
            cache.files[path] = new
            cache.byteCount += new.file.bytes.count
        }
    }
}
