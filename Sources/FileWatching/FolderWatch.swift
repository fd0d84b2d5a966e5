/// Reports changes to the files of one folder, whichever process made them.
///
/// Notifications come from inotify on Linux and from kqueue on Apple's systems; nothing is polled. Several changes may
/// share one notification, and a notification may be spurious (for example after a file was closed without a write), so
/// the caller must check the files itself. On a network file system only changes made by this machine are reported.
///
/// On Apple's systems a kqueue event of a folder covers added, removed and replaced names, but not the content of its
/// files. There each file in `names` is watched as well; without `names` only the folder itself is watched.
///
/// ```swift
/// for await _ in FolderWatch.changes(inFolder: "/var/lib/example", names: ["store.db"]) { look() }
/// ```
package final class FolderWatch: Sendable {
    private let subscription: WatchSubscription

    /// Calls `onChange` after each change until the object is released or ``cancel()`` is called.
    ///
    /// - Parameters:
    ///   - folder: An existing folder.
    ///   - names: The names of the files to watch, which need not exist yet; `nil` for all files. The content of
    ///     subfolders is not watched.
    ///   - onChange: Called serially on the watcher's own thread. It should return quickly.
    /// - Throws: ``FolderWatchError`` if the folder does not exist or the system has no watches left.
    package init(
        folder: String, names: [String]? = nil, onChange: @escaping @Sendable () -> Void
    ) throws(FolderWatchError) {
        subscription = try WatchSubscription(folder: folder, names: names, onChange: onChange)
    }

    deinit { subscription.cancel() }

    /// `false` once the system has reported that the watched folder is gone. A new folder at the same path may reuse
    /// the old one's inode number, so comparing numbers is not enough.
    package var isLive: Bool { subscription.isLive }

    /// Stops watching. A call of `onChange` may still be running when this returns.
    package func cancel() { subscription.cancel() }

    /// A stream that yields after changes to the files called `names` in `folder`, or to any of its files if `names` is
    /// `nil`. Several changes may share one element. Watching begins with this call and ends with the stream.
    ///
    /// - Throws: The same errors as ``init(folder:names:onChange:)``.
    package static func changes(
        inFolder folder: String, names: [String]? = nil
    ) throws(FolderWatchError) -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let watch = try FolderWatch(folder: folder, names: names) { continuation.yield() }
        continuation.onTermination = { _ in watch.cancel() }
        return stream
    }
}

/// The error of a folder that cannot be watched.
package struct FolderWatchError: Error, CustomStringConvertible {
    /// The path of the folder.
    package let folder: String
    /// The system's error number (`errno`).
    package let code: Int32

    /// A one-line message.
    package var description: String { "\(folder): cannot be watched (error \(code))" }
}
