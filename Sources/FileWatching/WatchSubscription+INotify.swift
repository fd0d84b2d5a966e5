#if os(Linux) || os(Android)
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Android)
import Android
#endif

/// A subscription to the changes of one folder.
final class WatchSubscription: Sendable {
    private let id: UInt64

    init(folder: String, names: [String]?, onChange: @escaping @Sendable () -> Void) throws(FolderWatchError) {
        id = try INotify.shared.add(
            INotify.Subscriber(folder: folder, names: names.map { $0.map { Array($0.utf8) } }, onChange: onChange))
    }

    /// False once the system has ended the watch because the folder is gone.
    var isLive: Bool { INotify.shared.isLive(id) }

    func cancel() { INotify.shared.remove(id) }
}

/// The inotify instance of this process.
///
/// Linux grants a user only about a hundred instances, so all folders share one. The instance and its thread exist only
/// while there are subscribers.
private final class INotify: Sendable {
    static let shared = INotify()

    /// The pause after each batch of events, in milliseconds. It combines rapid changes into one notification.
    private static let pause: Int32 = 2

    struct Subscriber: Sendable {
        let folder: String
        let names: [[UInt8]]?
        let onChange: @Sendable () -> Void

        func matches(_ name: ArraySlice<UInt8>) -> Bool {
            guard let names else { return true }
            // An event without a name concerns the folder itself.
            return name.isEmpty || names.contains { $0.elementsEqual(name) }
        }
    }

    private struct State {
        /// The inotify descriptor; `nil` while there are no subscribers.
        var descriptor: Int32?
        var nextID: UInt64 = 0
        /// In order of subscription.
        var subscribers: [(id: UInt64, watch: Int32, subscriber: Subscriber)] = []
        /// The watches that the system has ended because their folders are gone. Their numbers are not reused.
        var ended: Set<Int32> = []
    }

    private static let mask = UInt32(
        IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF
            | IN_MOVE_SELF)

    private let state = Mutex(State())

    func add(_ subscriber: Subscriber) throws(FolderWatchError) -> UInt64 {
        try state.withLock { (state) throws(FolderWatchError) in
            if state.descriptor == nil { state.descriptor = try start(for: subscriber.folder) }
            let descriptor = state.descriptor ?? -1
            // Adding a folder twice returns the same watch number.
            let watch = inotify_add_watch(descriptor, subscriber.folder, Self.mask)
            guard watch >= 0 else {
                let code = errno
                stopIfUnused(&state)
                throw FolderWatchError(folder: subscriber.folder, code: code)
            }
            state.nextID += 1
            state.subscribers.append((state.nextID, watch, subscriber))
            return state.nextID
        }
    }

    func isLive(_ id: UInt64) -> Bool {
        state.withLock { state in
            state.subscribers.contains { $0.id == id && !state.ended.contains($0.watch) }
        }
    }

    func remove(_ id: UInt64) {
        state.withLock { state in
            guard let index = state.subscribers.firstIndex(where: { $0.id == id }) else { return }
            let watch = state.subscribers.remove(at: index).watch
            if let descriptor = state.descriptor, !state.subscribers.contains(where: { $0.watch == watch }) {
                if state.ended.remove(watch) != nil { return stopIfUnused(&state) }
                // The removal also queues an event, which wakes the thread so that it can stop if nothing is left.
                inotify_rm_watch(descriptor, watch)
            }
            stopIfUnused(&state)
        }
    }

    private func stopIfUnused(_ state: inout State) {
        // The thread closes its descriptor once it sees that the descriptor is no longer current.
        guard state.subscribers.isEmpty else { return }
        state.descriptor = nil
        state.ended = []
    }

    private func start(for folder: String) throws(FolderWatchError) -> Int32 {
        let descriptor = inotify_init1(Int32(IN_CLOEXEC) | Int32(IN_NONBLOCK))
        guard descriptor >= 0 else { throw FolderWatchError(folder: folder, code: errno) }
        var thread = pthread_t()
        let context = UnsafeMutableRawPointer(bitPattern: Int(descriptor) + 1)
        let code = pthread_create(
            &thread, nil,
            { context in
                INotify.shared.watch(Int32(Int(bitPattern: context) - 1))
                return nil
            }, context)
        guard code == 0 else {
            close(descriptor)
            throw FolderWatchError(folder: folder, code: code)
        }
        pthread_detach(thread)
        return descriptor
    }

    /// The thread's main loop: notifies subscribers until `descriptor` is no longer current.
    private func watch(_ descriptor: Int32) {
        defer { close(descriptor) }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 16, alignment: 8)
        defer { buffer.deallocate() }
        while state.withLock({ $0.descriptor == descriptor }) {
            var request = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            // Removing the last watch queues an event only if its folder still exists; otherwise the timeout ends the
            // loop.
            guard poll(&request, 1, 1_000) > 0 else { continue }
            let count = read(descriptor, buffer.baseAddress, buffer.count)
            guard count > 0 else { continue }
            for call in calls(for: UnsafeRawBufferPointer(rebasing: buffer[..<count])) { call() }
            _ = poll(nil, 0, Self.pause)
        }
    }

    /// The handlers to call for the events in `buffer`, each subscriber's once.
    private func calls(for buffer: UnsafeRawBufferPointer) -> [@Sendable () -> Void] {
        let headerByteCount = MemoryLayout<inotify_event>.size
        var events: [(watch: Int32, name: ArraySlice<UInt8>, isForAll: Bool)] = []
        var ended: [Int32] = []
        var offset = 0
        while offset + headerByteCount <= buffer.count {
            let event = buffer.loadUnaligned(fromByteOffset: offset, as: inotify_event.self)
            let start = offset + headerByteCount
            let name = buffer[start..<(start + Int(event.len))].prefix { $0 != 0 }
            // A queue overflow loses events, so every subscriber is notified.
            events.append((event.wd, Array(name)[...], event.mask & UInt32(IN_Q_OVERFLOW) != 0))
            if event.mask & UInt32(IN_IGNORED) != 0 { ended.append(event.wd) }
            offset = start + Int(event.len)
        }
        return state.withLock { state in
            for watch in ended where state.subscribers.contains(where: { $0.watch == watch }) {
                state.ended.insert(watch)
            }
            return state.subscribers.filter { subscriber in
                events.contains { event in
                    event.isForAll || (event.watch == subscriber.watch && subscriber.subscriber.matches(event.name))
                }
            }.map(\.subscriber.onChange)
        }
    }
}
#endif
