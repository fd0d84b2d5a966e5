import FileWatching
import SyncCore
import Synchronization

/// Signals changes of a store, whichever process made them.
///
/// Every writer touches the log of changes in the store's own folder, also after the change is visible; so one watch of
/// that one file tells of all keys. Where the store is not there yet, the nearest folder on the way to it is watched
/// until it is. Nothing is watched before somebody subscribes.
final class StoreWatch: Sendable {
    private struct State {
        var watch: FolderWatch?
        /// The folder that is watched, and which one it was by that name.
        var folder: String?
        var identity: FileIdentity?
        /// The checksum of the last change that was signalled.
        var signalled: UInt64?
    }

    private let folder: StoreFolder
    private let hub = SignalHub()
    private let state = Mutex(State())

    init(folder: StoreFolder) {
        self.folder = folder
    }

    /// A stream that yields after each change from now on.
    func subscribe() -> AsyncStream<Void> {
        let stream = hub.subscribe()
        state.withLock { follow(&$0) }
        return stream
    }

    /// After a change that this object made: the watch tells of it, where there is one.
    func changed() {
        guard hub.subscriberCount > 0 else { return }
        let isWatched = state.withLock { state in
            let isWatched = state.watch != nil && state.folder == folder.root
            // The first write makes the store.
            follow(&state)
            return isWatched
        }
        if !isWatched { hub.signal() }
    }

    private func somethingHappened() {
        let isNews = state.withLock { state in
            guard hub.subscriberCount > 0 else {
                state.watch = nil
                return false
            }
            follow(&state)
            return hasNews(&state)
        }
        if isNews { hub.signal() }
    }

    /// Whether the log's last change is visible and not signalled yet. A writer touches the log several times.
    private func hasNews(_ state: inout State) -> Bool {
        do throws(BackendError) {
            guard let last = try folder.lastChange() else {
                state.signalled = nil
                return true
            }
            if last.link == state.signalled { return false }
            // Its writer is at work and touches the log again; or it died, and nothing has changed.
            if try !folder.isVisible(last) { return false }
            state.signalled = last.link
            return true
        } catch {
            // Whoever is woken up finds the error by himself.
            return true
        }
    }

    /// Watches the store's folder, or the nearest that is there.
    ///
    /// Where the system refuses (it gives out only so many watches), changes of this object are signalled all the same,
    /// and it is tried again with the next one.
    private func follow(_ state: inout State) {
        // Once more when a folder on the way came or went in between.
        for _ in 0..<3 {
            let (path, name) = nearest()
            let identity = identity(at: path)
            if state.watch != nil, state.folder == path, state.identity == identity { return }
            state.watch = nil
            do throws(FolderWatchError) {
                state.watch = try FolderWatch(folder: path, names: [name]) { [weak self] in self?.somethingHappened() }
                (state.folder, state.identity) = (path, identity)
            } catch {
                // Looked for again at once, or at the next change.
            }
        }
    }

    /// The folder to watch, and the name in it that matters.
    private func nearest() -> (path: String, name: String) {
        var path = folder.root
        var name = StoreFolder.changesName
        while identity(at: path) == nil {
            let parent = StoreFolder.parent(of: path)
            if parent == path { break }
            name = path.split(separator: "/").last.map(String.init) ?? path
            path = parent
        }
        return (path, name)
    }

    private func identity(at path: String) -> FileIdentity? {
        do { return try folder.fileSystem.identity(at: path) } catch { return nil }
    }
}
