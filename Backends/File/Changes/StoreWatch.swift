import FileWatching
import SyncCore
import Synchronization

/// Signals changes of a store, whichever process made them.
///
/// Every writer touches the log of changes in the store's own folder, also after the change is visible; so one watch of
/// that one file tells of all keys. Where the store is not there yet, the nearest folder on the way to it is watched
/// until it is. Nothing is watched before somebody subscribes.
final class StoreWatch: Sendable {
    private let folder: StoreFolder
    private let hub = SignalHub()
    /// The checksum of the last change that was signalled, or was visible before anybody listened.
    private let signalled = Mutex<UInt64?>(nil)
    private let watch = Mutex<PathWatch?>(nil)

    init(folder: StoreFolder) {
        self.folder = folder
    }

    /// A stream that yields after each change from now on.
    func subscribe() -> AsyncStream<Void> {
        let stream = hub.subscribe()
        let isNew = watch.withLock { $0 == nil }
        follow()
        if isNew { _ = signalled.withLock { hasNews(&$0) } }
        return stream
    }

    /// After a change that this object made: the watch tells of it, where there is one.
    func changed() {
        guard hub.subscriberCount > 0 else { return }
        let isWatched = watch.withLock { $0?.isOnTarget ?? false }
        // The first write makes the store.
        follow()
        if !isWatched { hub.signal() }
    }

    private func somethingHappened() {
        guard hub.subscriberCount > 0 else {
            watch.withLock { $0 }?.rest()
            // Somebody may have subscribed in between.
            if hub.subscriberCount > 0 { follow() }
            return
        }
        follow()
        if signalled.withLock({ hasNews(&$0) }) { hub.signal() }
    }

    /// Whether there is a visible change that is not signalled yet. A writer touches the log several times.
    private func hasNews(_ signalled: inout UInt64?) -> Bool {
        do throws(BackendError) {
            guard let last = try folder.lastChange() else {
                signalled = nil
                return true
            }
            // The writer of one that is not visible is at work and touches the log again; or it died, and nothing has
            // changed. The one before is visible, and news where one writer follows another without a pause.
            let visible = try folder.isVisible(last) ? last.link : last.previousLink
            if visible == signalled { return false }
            signalled = visible
            return true
        } catch {
            // Whoever is woken up finds the error by himself.
            return true
        }
    }

    /// Where the system refuses to watch, changes of this object are signalled all the same.
    private func follow() {
        let watch = watch.withLock { watch in
            if let watch { return watch }
            let made = PathWatch(
                folder: folder.root, names: [StoreFolder.changesName],
                identify: { [folder] path in folder.identity(at: path) },
                onChange: { [weak self] in self?.somethingHappened() })
            watch = made
            return made
        }
        watch.follow()
    }
}

extension StoreFolder {
    fileprivate func identity(at path: String) -> PathWatch.Identity? {
        do throws(FileSystemError) {
            let identity = try fileSystem.identity(at: path)
            return PathWatch.Identity(device: identity.device, number: identity.number)
        } catch {
            return nil
        }
    }
}
