/// Tells when files of one folder change, whichever process changed them.
///
/// The system says so: inotify on Linux, kqueue on Apple's systems; nothing is polled. Several changes may be told
/// once, and what is told may turn out to be no change at all (a file that was closed without a write): look before
/// believing. On a network file system only changes made by this machine are told.
///
/// On Apple's systems kqueue tells of a folder that names came, went or were replaced, and of a file its content; so
/// there each of `names` is watched as well, and without names only the folder itself.
///
/// ```swift
/// for await _ in FolderWatch.changes(inFolder: "/var/lib/example", names: ["store.db"]) { look() }
/// ```
package final class FolderWatch: Sendable {
    private let subscription: WatchSubscription

    /// Calls `onChange` after each change until the object is gone or ``cancel()`` was called.
    ///
    /// - Parameters:
    ///   - folder: an existing folder.
    ///   - names: of the files in it that matter, whether they exist now or not; `nil` for all. Subfolders do not
    ///     belong to it.
    ///   - onChange: is called on a thread of the watcher's own, one call after the other; it should not take long.
    /// - Throws: where the folder cannot be watched: it does not exist, or the system has no watches left.
    package init(
        folder: String, names: [String]? = nil, onChange: @escaping @Sendable () -> Void
    ) throws(FolderWatchError) {
        subscription = try WatchSubscription(folder: folder, names: names, onChange: onChange)
    }

    deinit { subscription.cancel() }

    /// Whether the folder that is watched still exists, as far as the system has told. A new folder may have the old
    /// one's number.
    package var isLive: Bool { subscription.isLive }

    /// Ends it. A call of `onChange` may still be under way.
    package func cancel() { subscription.cancel() }

    /// A stream that yields after changes of the files called `names` in `folder`, or of any file in it; several
    /// changes may share one element. Watching begins with this call and ends with the stream.
    ///
    /// - Throws: as the initializer does.
    package static func changes(
        inFolder folder: String, names: [String]? = nil
    ) throws(FolderWatchError) -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let watch = try FolderWatch(folder: folder, names: names) { continuation.yield() }
        continuation.onTermination = { _ in watch.cancel() }
        return stream
    }
}

/// A folder could not be watched.
package struct FolderWatchError: Error, CustomStringConvertible {
    /// The folder.
    package let folder: String
    /// The system's error number.
    package let code: Int32

    /// One line.
    package var description: String { "\(folder): cannot be watched (error \(code))" }
}
