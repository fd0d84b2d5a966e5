import Foundation

/// The space that this user may still take on a file system.
struct DiskSpace {
    /// Below this number of bytes, writes are about to fail: the log of SQLite alone grows to 16 MiB.
    static let least: UInt64 = 16 << 20
    /// Below this number of bytes there is a warning.
    static let comfortable: UInt64 = 256 << 20

    let path: String
    var freeByteCount: UInt64
    /// The number of files that can be created; `nil` if the file system has no such limit.
    let freeFileCount: UInt64?

    init(at path: String) throws(Failure) {
        var status = statvfs()
        guard statvfs(path, &status) == 0 else {
            throw Failure(.failed, "\(path): the free space is unknown: \(String(cString: strerror(errno)))")
        }
        self.path = path
        freeByteCount = UInt64(status.f_bavail) * UInt64(status.f_frsize)
        freeFileCount = status.f_files == 0 ? nil : UInt64(status.f_favail)
    }

    var verdict: Verdict {
        let free = "\(path): \(freeByteCount >> 20) MiB free"
        let remedy = "free some space: du -xh \(quoted(path)) | sort -h shows what takes it"
        if freeByteCount < Self.least { return .failed("\(free), less than \(Self.least >> 20) MiB", remedy: remedy) }
        if freeFileCount == 0 {
            return .failed("\(path): no more files can be created (inodes)", remedy: "remove files that are not needed")
        }
        if freeByteCount < Self.comfortable {
            return .warning("\(free), less than \(Self.comfortable >> 20) MiB", remedy: remedy)
        }
        return .ok(free)
    }
}
