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

/// Tells when files of a folder change that may not be there yet, or be replaced by another of its name.
///
/// Where the folder is missing, the nearest one on the way to it is watched until it is there. Nothing is watched
/// before the first ``follow()``.
package final class PathWatch: Sendable {
    /// Which folder it is that a path leads to.
    package struct Identity: Hashable, Sendable {
        private let device: UInt64
        private let number: UInt64

        package init(device: UInt64, number: UInt64) {
            (self.device, self.number) = (device, number)
        }
    }

    private struct State {
        var watch: FolderWatch?
        /// The folder that is watched, and which one it was by that name.
        var folder: String?
        var identity: Identity?
    }

    private let folder: String
    private let names: [String]
    private let identify: @Sendable (String) -> Identity?
    private let onChange: @Sendable () -> Void
    private let state = Mutex(State())

    /// - Parameters:
    ///   - names: of the files in the folder that matter.
    ///   - identify: which folder a path leads to, `nil` for none; by default what the system says.
    ///   - onChange: is called on a thread of the watcher's own, one call after the other.
    package init(
        folder: String, names: [String], identify: @escaping @Sendable (String) -> Identity? = PathWatch.identity(at:),
        onChange: @escaping @Sendable () -> Void
    ) {
        (self.folder, self.names, self.identify, self.onChange) = (folder, names, identify, onChange)
    }

    /// Whether it is the folder itself that is watched.
    package var isOnTarget: Bool { state.withLock { $0.watch != nil && $0.folder == folder } }

    /// Watches the folder, or the nearest that is there; to be called again after each change, and now and then, since
    /// the folder may be another by now. Cheap when it is the same.
    ///
    /// Where the system refuses (it gives out only so many watches), nothing is told until a later call.
    package func follow() {
        state.withLock { state in
            // Once more when a folder on the way came or went in between.
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
                    // Looked for again at once, or at the next call.
                }
            }
        }
    }

    /// Watches nothing until the next ``follow()``.
    package func rest() { state.withLock { $0.watch = nil } }

    /// The folder to watch, and the names in it that matter.
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

    /// The path of the folder that `path` is in; `/` and `.` are their own.
    private static func parent(of path: String) -> String {
        let parts = path.split(separator: "/")
        let parent = parts.dropLast().joined(separator: "/")
        if path.hasPrefix("/") { return "/" + parent }
        return parent.isEmpty ? "." : parent
    }

    /// Which folder, or other file, is at `path`.
    package static func identity(at path: String) -> Identity? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return Identity(
            device: UInt64(truncatingIfNeeded: status.st_dev), number: UInt64(truncatingIfNeeded: status.st_ino))
    }
}
