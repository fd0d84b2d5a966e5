import FileWatching
import SyncCore
import Synchronization

/// Signals changes of a store, regardless of the process that made them.
///
/// Every writer touches the change log in the store's folder, also after the change is visible. So one watch on this
/// file covers all keys. If the store does not exist yet, its nearest existing ancestor folder is watched.
/// Watching starts with the first subscriber.
final class StoreWatch: Sendable {
    private let folder: StoreFolder
    private let hub = SignalHub()
    /// The checksum of the last change that was signalled, or that was visible before the first subscription.
    private let signalled = Mutex<UInt64?>(nil)
    private let watch = Mutex<PathWatch?>(nil)

    init(folder: StoreFolder) {
        self.folder = folder
    }

    /// A stream that yields after each later change.
    func subscribe() -> AsyncStream<Void> {
        let stream = hub.subscribe()
        let isNew = watch.withLock { $0 == nil }
        follow()
        if isNew { _ = signalled.withLock { hasUnsignalledChange(&$0) } }
        return stream
    }

    /// Signals a change made by this object, unless the watch reports it.
    func changed() {
        guard hub.subscriberCount > 0 else { return }
        let isWatched = watch.withLock { $0?.isOnTarget ?? false }
        // The first write creates the store, which can be watched only then.
        follow()
        if !isWatched { hub.signal() }
    }

    private func logFileChanged() {
        guard hub.subscriberCount > 0 else {
            watch.withLock { $0 }?.rest()
            // A subscriber may have been added in between.
            if hub.subscriberCount > 0 { follow() }
            return
        }
        follow()
        if signalled.withLock({ hasUnsignalledChange(&$0) }) { hub.signal() }
    }

    /// Returns `true` if a visible change has not been signalled yet. A writer touches the log several times for each
    /// change.
    private func hasUnsignalledChange(_ signalled: inout UInt64?) -> Bool {
        do throws(BackendError) {
            guard let last = try folder.lastChange() else {
                signalled = nil
                return true
            }
            // If the last change is not visible, its writer is still running and will touch the log again, or it was
            // killed and nothing has changed. The change before it is visible, and may be new if writers follow each
            // other without a pause.
            let visible = try folder.isVisible(last) ? last.link : last.previousLink
            if visible == signalled { return false }
            signalled = visible
            return true
        } catch {
            // A subscriber that is notified gets the error itself.
            return true
        }
    }

    /// Watches the log, or the nearest existing folder. If the system refuses to watch, changes of this object are
    /// still signalled.
    private func follow() {
        let watch = watch.withLock { watch in
            if let watch { return watch }
            let created = PathWatch(
                folder: folder.root, names: [StoreFolder.changesName],
                identify: { [folder] path in try? folder.fileSystem.identity(at: path) },
                onChange: { [weak self] in self?.logFileChanged() })
            watch = created
            return created
        }
        watch.follow()
    }
}
