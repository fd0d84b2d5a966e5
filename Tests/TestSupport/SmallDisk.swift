import Foundation

/// A small file system in memory, mounted at `disk` in a temporary folder, and unmounted with the object. Needs the
/// permission to mount.
public final class SmallDisk: Sendable {
    /// True if this process can mount a file system.
    public static let isPossible: Bool = {
        do {
            return try withExtendedLifetime(SmallDisk(kilobytes: 64)) { _ in true }
        } catch {
            return false
        }
    }()

    /// The mount point.
    public let path: String
    /// Kept alive, because the folder can be removed only after unmounting.
    private let parent: TemporaryFolder

    /// Mounts an empty file system.
    ///
    /// - Parameter parent: The folder in which to mount it; `nil` for a new one.
    public init(kilobytes: Int, in parent: TemporaryFolder? = nil) throws {
        self.parent = try parent ?? TemporaryFolder()
        path = self.parent.path(of: "disk")
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        try ProcessEnd.run("/bin/mount", "-t", "tmpfs", "-o", "size=\(kilobytes)k", "none", path)
    }

    deinit {
        do { try ProcessEnd.run("/bin/umount", "-l", path) } catch { print("left mounted: \(path): \(error)") }
    }

    /// The path of an item on the disk.
    public func path(of name: String) -> String { "\(path)/\(name)" }

    /// Uses up all remaining bytes.
    public func fill() throws {
        let ballast = URL(filePath: path(of: "ballast"))
        try Data().write(to: ballast)
        let file = try FileHandle(forWritingTo: ballast)
        do {
            while true { try file.write(contentsOf: Data(repeating: 1, count: 512)) }
        } catch {
            // The disk is full, as intended.
        }
        try file.close()
    }

    /// Frees the bytes that ``fill()`` has used.
    public func empty() throws { try FileManager.default.removeItem(atPath: path(of: "ballast")) }

    /// Mounts the disk for reading only.
    public func makeReadOnly() throws { try ProcessEnd.run("/bin/mount", "-o", "remount,ro", path) }
}
