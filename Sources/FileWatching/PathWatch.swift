import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Android)
import Android
#elseif canImport(Darwin)
import Darwin
#endif

/// Reports changes to files in a folder. The folder may not exist yet, and another folder may replace it at its path.
///
/// While the folder is missing, its nearest existing ancestor is watched instead. Nothing is watched before the first
/// ``follow()``.
package final class PathWatch: Sendable {
    /// The identity of a file or folder: its device and inode numbers.
    package struct Identity: Hashable, Sendable {
        private let device: UInt64
        private let number: UInt64

        package init(device: UInt64, number: UInt64) {
            (self.device, self.number) = (device, number)
        }
    }

    private struct State {
        var watch: FolderWatch?
        /// The path of the watched folder, and its identity when watching began.
        var folder: String?
        var identity: Identity?
    }

    private let folder: String
    private let names: [String]
    private let identify: @Sendable (String) -> Identity?
    private let onChange: @Sendable () -> Void
    private let state = Mutex(State())

    /// - Parameters:
    ///   - names: The names of the files to watch.
    ///   - identify: Returns the identity of the file or folder at a path, or `nil` if there is none. The default asks
    ///     the file system.
    ///   - onChange: Called serially on the watcher's own thread.
    package init(
        folder: String, names: [String], identify: @escaping @Sendable (String) -> Identity? = PathWatch.identity(at:),
        onChange: @escaping @Sendable () -> Void
    ) {
        (self.folder, self.names, self.identify, self.onChange) = (folder, names, identify, onChange)
    }

    /// True if the folder itself is watched, not an ancestor.
    package var isOnTarget: Bool { state.withLock { $0.watch != nil && $0.folder == folder } }

    /// Watches the folder, or its nearest existing ancestor.
    ///
    /// Call it again after each change and also periodically, since the folder may have been replaced. A call is cheap
    /// if the same folder is still there. If the system refuses the watch, for example because a limit is reached, no
    /// change is reported until a later call succeeds.
    package func follow() {
        state.withLock { state in
            // Repeats to verify the watch: a folder may appear or disappear between `nearest()` and the new watch.
            for _ in 0..<3 {
                let (path, names) = nearest()
                let identity = identify(path)
                let isLive = state.watch?.isLive == true
                if isLive, state.folder == path, state.identity == identity { return }
                state.watch = nil
                do throws(FolderWatchError) {
                    state.watch = try FolderWatch(folder: path, names: names, onChange: onChange)
                    (state.folder, state.identity) = (path, identity)
                } catch {
                    // The next iteration or the next call tries again.
                }
            }
        }
    }

    /// Stops watching until the next ``follow()``.
    package func rest() { state.withLock { $0.watch = nil } }

    /// The nearest existing folder, and the names to watch in it.
    private func nearest() -> (path: String, names: [String]) {
        var path = folder
        var names = names
        while identify(path) == nil {
            let parent = Self.parent(of: path)
            if parent == path { break }
            names = [path.split(separator: "/").last.map(String.init) ?? path]
            path = parent
        }
        return (path, names)
    }

    /// The path of the folder that contains `path`. `/` and `.` are their own parents.
    private static func parent(of path: String) -> String {
        let parts = path.split(separator: "/")
        let parent = parts.dropLast().joined(separator: "/")
        if path.hasPrefix("/") { return "/" + parent }
        return parent.isEmpty ? "." : parent
    }

    /// The identity of the file or folder at `path`, or `nil` if there is none.
    package static func identity(at path: String) -> Identity? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return Identity(
            device: UInt64(truncatingIfNeeded: status.st_dev), number: UInt64(truncatingIfNeeded: status.st_ino))
    }
}
