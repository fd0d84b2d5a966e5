import SyncCore
import Synchronization

/// Follows the changes of the store on behalf of all listeners.
///
/// Each listener receives the changes of its scope through its own buffer. A listener that does not read loses its
/// stream; it never delays other listeners.
final class ChangeHub: Sendable {
    /// The number of notes that a listener may leave unread.
    static let bufferedCount = 256
    /// The time between two heartbeats of a listener.
    static let heartbeat = Duration.seconds(15)
    /// The number of groups of listeners whose heartbeats are sent one after another, so that thousands of heartbeats
    /// do not delay other work.
    private static let beatCount: UInt64 = 30
    /// The pause between two reads of the store.
    static let pause = Duration.milliseconds(2)
    /// The pause while there is no listener. The reads then serve only to drop caches of what another server changed.
    static let idlePause = Duration.milliseconds(20)
    /// The longest pause between two reads of a store that pushes signals. Four reads fit into ``FeedFreshness/trust``,
    /// so that an idle server, or one that missed a signal, still believes its caches.
    static let refreshPause = Duration.milliseconds(500)
    /// The pause between two reports of errors.
    private static let reportPause = Duration.seconds(5)

    /// A message to a listener.
    enum Note: Sendable {
        /// The changes in its scope up to a cursor.
        case changes([ChangePage.Change], ChangeCursor)
        /// A heartbeat. There are no other changes up to the cursor.
        case heartbeat(ChangeCursor?)
        /// The cursor has expired; the listener must start over.
        case expired
        /// The projection has further events.
        case events
    }

    /// The caller of a stream. The stream ends when the session is deleted, and when the record of the account or of
    /// the operator's token changes. Clients that are still authorized reconnect.
    enum Origin: Hashable, Sendable {
        /// An account, by its name as escaped in keys, with the version of its record. The session is `nil` for a
        /// token of another issuer.
        case account(String, version: EntryVersion?, session: String?)
        /// One of the operator's tokens.
        case token(String)
    }

    /// The changes that concern a listener.
    private enum Topic: Hashable {
        /// Changes of keys with the prefix of the listener's scope.
        case keys(prefix: String)
        /// The end of the session that owns the stream.
        case session(String)
        /// Changes of the record of the account that owns the stream.
        case account(String)
        /// Changes of the operator's token that owns the stream.
        case token(String)
        /// Events of the projection.
        case events
    }

    private struct Listener {
        /// The keys; `nil` for a listener to the projection's events.
        var scope: KeyScope?
        var origin: Origin?
        var expires: Int64
        var continuation: AsyncStream<Note>.Continuation

        var topics: [Topic] {
            let owner: [Topic] =
                switch origin {
                case .account(let name, _, let session):
                    [session.map(Topic.session), .account(name)].compactMap(\.self)
                case .token(let id): [.token(id)]
                case nil: []
                }
            return [scope.map { .keys(prefix: $0.prefix) } ?? .events] + owner
        }

        /// Returns `true` if the stream began with this version of the account's record.
        func began(with version: EntryVersion?) -> Bool {
            if case .account(_, version, _) = origin { true } else { false }
        }
    }

    private struct State {
        var position: ChangeCursor?
        var isFollowing = false
        /// The time of the last reported error, as ``FeedFreshness/now``.
        var reported: Duration?
        var isClosed = false
        var nextID: UInt64 = 0
        private(set) var listeners: [UInt64: Listener] = [:]
        private var byTopic: [Topic: Set<UInt64>] = [:]

        /// The buffers of all listeners, in the order in which they began.
        var continuations: [AsyncStream<Note>.Continuation] {
            listeners.sorted { $0.key < $1.key }.map(\.value.continuation)
        }

        /// The listeners that changes of a topic concern, in the order in which they began.
        func listeners(of topic: Topic) -> [(id: UInt64, listener: Listener)] {
            (byTopic[topic] ?? []).sorted().compactMap { id in listeners[id].map { (id, $0) } }
        }

        /// The listeners whose streams end because of `changes`.
        func ended(by changes: [ChangePage.Change]) -> [Listener] {
            guard !listeners.isEmpty else { return [] }
            return changes.flatMap { change -> [Listener] in
                if change.version == nil, let id = SessionRecord.id(of: change.key) {
                    return listeners(of: .session(id)).map(\.listener)
                }
                if let id = OperatorTokens.id(of: change.key) { return listeners(of: .token(id)).map(\.listener) }
                guard let name = AccountRecord.escapedName(of: change.key) else { return [] }
                // A stream does not end when the hub reads the record version with which it started.
                return listeners(of: .account(name)).map(\.listener).filter { !$0.began(with: change.version) }
            }
        }

        mutating func add(_ listener: Listener) -> UInt64 {
            nextID += 1
            listeners[nextID] = listener
            for topic in listener.topics { byTopic[topic, default: []].insert(nextID) }
            return nextID
        }

        mutating func remove(_ id: UInt64) {
            for topic in listeners.removeValue(forKey: id)?.topics ?? [] {
                byTopic[topic]?.remove(id)
                if byTopic[topic]?.isEmpty == true { byTopic[topic] = nil }
            }
        }
    }

    private let store: any KeyValueBackend
    private let host: HostServices
    private let onError: @Sendable (BackendError) -> Void
    private let freshness: FeedFreshness
    private let onChange: @Sendable (ChangePage.Change) -> Void
    private let onReset: @Sendable () -> Void
    private let wake = SignalHub()
    private let state = Mutex(State())
    /// Held while notes are sent. Otherwise a heartbeat could carry a cursor that is ahead of changes that were not
    /// sent yet.
    private let delivery = Mutex<Void>(())

    /// - Parameters:
    ///   - freshness: Records that the changes were followed to their end.
    ///   - onChange: Called for every change, before `freshness` records it.
    ///   - onReset: Called when changes may have been missed, because the position has expired.
    init(
        _ store: any KeyValueBackend, host: HostServices, freshness: FeedFreshness,
        onError: @escaping @Sendable (BackendError) -> Void,
        onChange: @escaping @Sendable (ChangePage.Change) -> Void, onReset: @escaping @Sendable () -> Void
    ) {
        (self.store, self.host, self.freshness, self.onError) = (store, host, freshness, onError)
        (self.onChange, self.onReset) = (onChange, onReset)
    }

    /// The number of listeners.
    var listenerCount: Int { state.withLock { $0.listeners.count } }

    /// Makes ``run()`` read the store at once, after a write of this process.
    func wakeUp() { wake.signal() }

    /// Follows the store until the task is cancelled. Then all streams end.
    func run() async {
        let pokes = wake.subscribe()
        await withTaskGroup(of: Void.self) { group in
            let (store, wake, host) = (store, wake, host)
            group.addTask { [self] in
                for await _ in store.signals() {
                    wake.signal()
                    // Without the pause, every write to a busy store would wake a task needlessly.
                    guard (try? await host.sleep(for: pause)) != nil else { break }
                }
            }
            group.addTask {
                let pause = store.capabilities.signals == .pushed ? Self.refreshPause : .milliseconds(50)
                while (try? await host.sleep(for: pause)) != nil { wake.signal() }
            }
            group.addTask { [self] in
                var count: UInt64 = 0
                while (try? await host.sleep(for: Self.heartbeat / Int(Self.beatCount))) != nil {
                    beat(count % Self.beatCount)
                    count += 1
                }
            }
            await follow()
            for await _ in pokes {
                await follow()
                // Changes in quick succession are read together.
                guard (try? await host.sleep(for: pause)) != nil else { break }
            }
            group.cancelAll()
        }
        close()
    }

    private var pause: Duration { listenerCount == 0 ? Self.idlePause : Self.pause }

    /// Reads the changes to their end. Must not run twice at the same time.
    func follow() async {
        do throws(BackendError) {
            while true {
                let start = freshness.now
                let position = try await position()
                let page = try await store.changes(since: position, limit: 1_000).outcome
                deliver(page)
                guard page.hasMore else { return freshness.remember(start: start) }
            }
        } catch {
            guard !Task.isCancelled else { return }
            report(error)
            guard error.kind == .cursorExpired else { return }
            // The store was restored or emptied, so caches are dropped and the listeners must start over.
            onReset()
            let listeners = state.withLock { state in
                (state.position, state.isFollowing) = (nil, false)
                return state.continuations
            }
            for listener in listeners {
                listener.yield(.expired)
                listener.finish()
            }
        }
    }

    /// Takes the position from which to read. Call it before ``run()``, and before the first listener.
    func begin() async throws(BackendError) { _ = try await position() }

    /// The position from which to read. History is skipped: caches are dropped and listeners are ended instead, after
    /// the position was taken.
    private func position() async throws(BackendError) -> ChangeCursor? {
        if let position = state.withLock({ $0.position }) { return position }
        let latest = try await store.latestCursor().outcome
        onReset()
        let listeners = state.withLock { state in
            state.position = latest
            return latest == nil ? [] : state.continuations
        }
        // They may lack changes up to the position, and resume from the last one that they got.
        for listener in listeners { listener.finish() }
        return latest
    }

    /// Reports an error unless one was reported within the last ``reportPause``, because a store that is away fails
    /// every read.
    private func report(_ error: BackendError) {
        let now = freshness.now
        let isDue = state.withLock { state in
            if let reported = state.reported, now - reported < Self.reportPause { return false }
            state.reported = now
            return true
        }
        if isDue { onError(error) }
    }

    /// Sends a page to the listeners and advances the position in one step, so that a new listener receives either the
    /// whole page or nothing of it.
    private func deliver(_ page: ChangePage) {
        for change in page.changes { onChange(change) }
        delivery.withLock { _ in
            let (notes, ended) = state.withLock { state in
                defer {
                    state.position = page.cursor ?? state.position
                    if !page.hasMore { state.isFollowing = true }
                }
                return (Self.notes(of: page, state), state.ended(by: page.changes).map(\.continuation))
            }
            // Before the notes are sent, so that an ended session receives none of them.
            for listener in ended { listener.finish() }
            guard let cursor = page.cursor else { return }
            for note in notes {
                if case .dropped = note.continuation.yield(.changes(note.changes, cursor)) {
                    note.continuation.finish()
                }
            }
        }
    }

    private static func notes(
        of page: ChangePage, _ state: State
    ) -> [(continuation: AsyncStream<Note>.Continuation, changes: [ChangePage.Change])] {
        guard !state.listeners.isEmpty else { return [] }
        var notes: [(continuation: AsyncStream<Note>.Continuation, changes: [ChangePage.Change])] = []
        var indices: [UInt64: Int] = [:]
        for change in page.changes {
            for prefix in prefixes(of: change.key) {
                for (id, listener) in state.listeners(of: .keys(prefix: prefix)) {
                    guard listener.scope?.contains(change.key) == true else { continue }
                    if let index = indices[id] {
                        notes[index].changes.append(change)
                    } else {
                        indices[id] = notes.count
                        notes.append((listener.continuation, [change]))
                    }
                }
            }
        }
        return notes
    }

    /// The scope prefixes that may contain `key`: everything, or the keys of an account.
    private static func prefixes(of key: EntryKey) -> [String] {
        let parts = key.text.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 4 else { return [""] }
        return ["", parts[..<3].joined(separator: "/") + "/"]
    }

    private func beat(_ part: UInt64) {
        let now = host.now()
        // Listeners would receive heartbeats but no changes. Ending them makes clients reconnect.
        let isBehind = freshness.age > FeedFreshness.readiness
        delivery.withLock { _ in
            let (listeners, position) = state.withLock { state in
                let chosen = state.listeners.filter { $0.key % Self.beatCount == part }
                return (chosen.sorted { $0.key < $1.key }.map(\.value), state.isFollowing ? state.position : nil)
            }
            for listener in listeners {
                if isBehind || listener.expires <= now {
                    listener.continuation.finish()
                } else if case .dropped = listener.continuation.yield(.heartbeat(position)) {
                    listener.continuation.finish()
                }
            }
        }
    }

    private func close() {
        let listeners = state.withLock { state in
            state.isClosed = true
            return state.continuations
        }
        for listener in listeners { listener.finish() }
    }

    /// The notes of a listener, and the position at which they begin.
    struct Listening: Sendable {
        var notes: AsyncStream<Note>
        /// The current position of the store; `nil` if it has never changed.
        var from: ChangeCursor?
        /// Ends the notes.
        var end: @Sendable () -> Void
    }

    /// Starts to send the changes in `scope`.
    ///
    /// - Parameters:
    ///   - scope: The keys; `nil` to learn of the projection's events instead.
    ///   - origin: The session, account or token that owns the stream; the stream ends with it.
    ///   - expires: The time at which the notes end at the latest, in milliseconds since 1970 UTC.
    ///   - onEnd: Called once when the notes have ended.
    func listen(
        _ scope: KeyScope?, origin: Origin?, expires: Int64, onEnd: @escaping @Sendable () -> Void = {}
    ) -> Listening {
        let (stream, continuation) = AsyncStream.makeStream(
            of: Note.self, bufferingPolicy: .bufferingOldest(Self.bufferedCount))
        let listener = Listener(scope: scope, origin: origin, expires: expires, continuation: continuation)
        let (id, position, isClosed) = state.withLock { state in
            (state.add(listener), state.position, state.isClosed)
        }
        continuation.onTermination = { [weak self] _ in
            self?.remove(id)
            onEnd()
        }
        if isClosed { continuation.finish() }
        return Listening(notes: stream, from: position) { continuation.finish() }
    }

    /// True if there are listeners to the projection's events.
    var hasEventListeners: Bool { state.withLock { !$0.listeners(of: .events).isEmpty } }

    /// Sends a note that the projection has further events. A listener that has not read the last note needs no
    /// other one.
    func announceEvents() {
        for (_, listener) in state.withLock({ $0.listeners(of: .events) }) { listener.continuation.yield(.events) }
    }

    private func remove(_ id: UInt64) { state.withLock { $0.remove(id) } }
}
