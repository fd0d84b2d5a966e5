/// A key-value store that the engine can sync: in memory, in a folder, in a database, or on a server.
///
/// This protocol is the smallest contract that all of these can honour in full. The engine needs nothing else, so one
/// code path syncs a phone with a server, a laptop with a shared folder, or two servers. The *backend* is the type that
/// conforms; the *store* is the data that it keeps.
///
/// **What callers may rely on**
/// - Atomicity: every key is independent of the others. A write takes effect completely or not at all.
/// - Visibility and durability: once a write has been acknowledged, every later read sees it, and it survives the
///   failures that ``Capabilities/durability`` names.
/// - Preconditions: if ``Capabilities/compareAndSwap`` is true, a precondition is checked in the same atomic step as
///   the write, against every other writer of the store. Otherwise the backend throws ``BackendError/Kind/unsupported``
///   for ``Precondition/absent`` and ``Precondition/matches(_:)``. It never ignores a precondition.
/// - Versions: a version is never used twice, not even after the store was wiped or restored from a backup.
/// - Absence: a failure is thrown. ``ReadOutcome/absent`` is answered only when the store looked and found nothing.
/// - Concurrency: every method may be called from any task at any time.
///
/// **What a backend must do**
/// - Give every ``BackendError`` that it throws a truthful disposition. `transient` and `permanent` promise that
///   nothing was written; `outcomeUnknown` says that the write may have happened.
/// - Answer a failed precondition with ``WriteOutcome/conflict(_:)`` and the current entry; `nil` for an absent key.
/// - Compare keys by their bytes: no case folding and no Unicode normalization.
/// - Honour cancellation: when the calling task is cancelled, either throw ``BackendError/Kind/cancelled`` before the
///   operation starts, or finish it. A write that was interrupted half way is `outcomeUnknown`.
/// - Without compare-and-swap, keep a damaged entry in listings, with any version. Reading it throws; it must not make
///   the listing fail.
/// - Pass the conformance checks of `SyncCoreTesting`.
///
/// **What has a default implementation:** ``requiringExisting``, the two batch methods,
/// ``changes(since:prefix:limit:)``, ``latestCursor()`` and ``signals()``. A backend that keeps no sequence of changes
/// and sends no signals implements two properties and four methods. ``MemoryBackend`` is a complete implementation to
/// start from. A wrapper of another backend conforms to ``ForwardingBackend`` and implements only what it changes.
///
/// A caller that creates an entry unless it exists:
///
/// ```swift
/// let answer = try await backend.write([1, 2, 3], to: key, if: .absent)
/// switch answer.outcome {
/// case .written(let version): remember(version)
/// case .conflict(let current): merge(with: current)
/// case .deleted: break // answered only by a delete
/// }
/// ```
public protocol KeyValueBackend: Sendable {
    /// The guarantees of this store. Constant for the lifetime of the backend.
    var capabilities: Capabilities { get }

    /// A name for messages and logs, without secrets: `file:/var/lib/app`.
    var label: String { get }

    /// This backend in a form that reports a missing store as an error instead of creating it.
    ///
    /// The engine uses this form for a remote. A backend that creates its store on first use, such as one on a folder,
    /// must return a form of itself that throws ``BackendError/Kind/missing`` instead: a share that is not mounted
    /// would otherwise look like an empty store. The default is the backend itself, for backends that never create a
    /// store. A wrapper wraps the ``requiringExisting`` of the backend that it wraps.
    var requiringExisting: any KeyValueBackend { get }

    /// Reads one key.
    ///
    /// - Parameters:
    ///   - key: The key to read.
    ///   - knownVersion: A version that the caller already holds. If it is still the current one, the answer is
    ///     ``ReadOutcome/unchanged`` and the value is not transferred.
    /// - Returns: The entry, ``ReadOutcome/absent``, or ``ReadOutcome/unchanged``.
    /// - Throws: ``BackendError`` if the store cannot tell, for example ``BackendError/Kind/unavailable`` or
    ///   ``BackendError/Kind/damaged``.
    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome>

    /// Writes `value` to `key` if `precondition` holds.
    ///
    /// - Returns: ``WriteOutcome/written(_:)`` with the new version, or ``WriteOutcome/conflict(_:)``.
    /// - Throws: ``BackendError``; for example ``BackendError/Kind/tooLarge`` for a value beyond
    ///   ``Capabilities/maximumValueByteCount``, ``BackendError/Kind/full`` when no space is left, and
    ///   ``BackendError/Kind/unsupported`` for a precondition that the backend cannot check.
    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>

    /// Deletes `key` if `precondition` holds.
    ///
    /// - Returns: ``WriteOutcome/deleted`` or ``WriteOutcome/conflict(_:)``. Deleting an absent key under
    ///   ``Precondition/any`` or ``Precondition/absent`` answers ``WriteOutcome/deleted``.
    /// - Throws: ``BackendError``, as ``write(_:to:if:)`` does.
    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome>

    /// Lists keys that begin with the bytes of `prefix`, in ascending order of their bytes.
    ///
    /// A key that exists during the whole listing is listed exactly once. A key that is created or deleted during the
    /// listing may or may not be listed.
    ///
    /// An item carries the size of its value if the store knows it without reading the value. A wrapper that changes
    /// values leaves the size out.
    ///
    /// - Parameters:
    ///   - prefix: The beginning of the keys to list; empty for all keys.
    ///   - cursor: The ``KeyPage/next`` of the previous page; `nil` for the first page.
    ///   - limit: The maximum number of keys to return, 1 or more.
    /// - Throws: ``BackendError``, as ``read(_:unless:)`` does.
    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage>

    /// Reads several keys, in one request where the backend can. Each read succeeds or fails on its own.
    ///
    /// The entries are those of one moment, or they are read one after another in the order of `requests`. A wrapper
    /// that repeats failed reads, such as ``RetryBackend``, reads those later.
    ///
    /// - Returns: One result for each request, in the same order.
    /// - Throws: ``BackendError`` only if no request could be made at all.
    func read(_ requests: [ReadRequest]) async throws(BackendError) -> BatchAnswer<ReadOutcome>

    /// Writes or deletes several keys, in one request where the backend can.
    ///
    /// The batch is not atomic: one item may conflict or fail while the next succeeds.
    ///
    /// - Returns: One result for each request, in the same order.
    /// - Throws: ``BackendError`` only if no request could be made at all.
    func write(_ requests: [WriteRequest]) async throws(BackendError) -> BatchAnswer<WriteOutcome>

    /// Returns the changes after `cursor`, or all changes since the store began if it is `nil`.
    ///
    /// A store may forget a deletion once every valid cursor is past it; an answer to `nil` then leaves that deletion
    /// out. A page whose ``ChangePage/hasMore`` is true may have fewer than `limit` changes, or none: a store need not
    /// pass all changes of other keys at once.
    ///
    /// - Parameters:
    ///   - cursor: The ``ChangePage/cursor`` of an earlier page, or ``latestCursor()``.
    ///   - prefix: The beginning of the keys whose changes are returned, compared as bytes; empty for all keys. The
    ///     cursor of the page also passes the changes of other keys.
    ///   - limit: The maximum number of changes to return, 1 or more.
    /// - Throws: ``BackendError/Kind/cursorExpired`` if the store no longer knows the position of `cursor` (it was
    ///   wiped or restored, or the position is too old); ``BackendError/Kind/unsupported`` if ``Capabilities/changes``
    ///   is false.
    func changes(since cursor: ChangeCursor?, prefix: String, limit: Int) async throws(BackendError)
        -> Answer<ChangePage>

    /// Returns the position of the latest change, from which a reader follows the store without reading its history.
    ///
    /// Every write that was acknowledged before the call is at or before this position. The default implementation
    /// reads all changes, so a store with a long history should implement it.
    ///
    /// - Returns: The cursor of the latest change; `nil` if nothing has ever changed.
    /// - Throws: ``BackendError``, as ``changes(since:prefix:limit:)`` does.
    func latestCursor() async throws(BackendError) -> Answer<ChangeCursor?>

    /// Returns a stream that yields when something in the store may have changed. Several changes may share one signal.
    ///
    /// The stream ends when the backend is deallocated. It never yields if ``Capabilities/signals`` is `polled`.
    func signals() -> AsyncStream<Void>
}

extension KeyValueBackend {
    /// The backend itself.
    public var requiringExisting: any KeyValueBackend { self }

    /// Reads one key unconditionally.
    public func read(_ key: EntryKey) async throws(BackendError) -> Answer<ReadOutcome> {
        try await read(key, unless: nil)
    }

    /// Reads the keys one after another.
    public func read(_ requests: [ReadRequest]) async throws(BackendError) -> BatchAnswer<ReadOutcome> {
        await requests.answers { (request) async throws(BackendError) in
            try await read(request.key, unless: request.knownVersion)
        }
    }

    /// Writes or deletes the keys one after another.
    public func write(_ requests: [WriteRequest]) async throws(BackendError) -> BatchAnswer<WriteOutcome> {
        await requests.answers { (request) async throws(BackendError) in try await perform(request) }
    }

    /// Throws ``BackendError/Kind/unsupported``: the store keeps no sequence of changes.
    public func changes(since cursor: ChangeCursor?, prefix: String, limit: Int) async throws(BackendError)
        -> Answer<ChangePage>
    {
        throw BackendError(.unsupported, operation: .changes, message: "\(label) keeps no sequence of changes")
    }

    /// Returns the changes of all keys after `cursor`.
    public func changes(since cursor: ChangeCursor?, limit: Int) async throws(BackendError) -> Answer<ChangePage> {
        try await changes(since: cursor, prefix: "", limit: limit)
    }

    /// Reads all changes.
    public func latestCursor() async throws(BackendError) -> Answer<ChangeCursor?> {
        var cursor: ChangeCursor?
        while true {
            let answer = try await changes(since: cursor, limit: 1_000)
            cursor = answer.outcome.cursor ?? cursor
            if !answer.outcome.hasMore { return Answer(cursor, serverTime: answer.serverTime) }
        }
    }

    /// A stream that never yields, so watchers poll.
    public func signals() -> AsyncStream<Void> {
        AsyncStream { _ in }
    }
}
