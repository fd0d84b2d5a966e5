/// A place that keeps values under keys: memory, a folder, a database, a server.
///
/// This is the smallest contract that every such place can honour well. The engine needs nothing else, so a phone and
/// a server, a laptop and a shared folder, or two servers sync through one code path.
///
/// **What a caller may rely on**
/// - Each key is on its own. A write is all or nothing and, once answered, is seen by every later read and has survived
///   what ``Capabilities/durability`` names.
/// - A precondition is checked in the same atomic step as the write, against every other writer of the store, if
///   ``Capabilities/compareAndSwap`` is true. A backend that cannot do that refuses ``Precondition/absent`` and
///   ``Precondition/matches(_:)`` with ``BackendError/Kind/unsupported``; it never drops them.
/// - Versions never repeat, not even after the store was wiped or restored from a backup.
/// - A failure is thrown. ``ReadOutcome/absent`` means that the store looked and found nothing.
/// - All calls may be made from any task at any time.
///
/// **What an implementer must do**
/// - Give every thrown ``BackendError`` a true disposition: `transient` and `permanent` promise that nothing was
///   written, `outcomeUnknown` that it may have been.
/// - Answer a failed precondition with ``WriteOutcome/conflict(_:)`` and the entry that stood against it.
/// - Without compare-and-swap, let a listing go on where one entry is damaged: it has some version, and reading it
///   throws.
/// - Keep keys apart by their bytes: no case folding, no Unicode normalisation.
/// - When the calling task is cancelled, throw ``BackendError/Kind/cancelled`` before starting, or finish. A write
///   that was cut off half way is `outcomeUnknown`.
/// - Prove it with the conformance checks of `SyncCoreTesting`.
///
/// ``requiringExisting``, the batch forms, ``changes(since:limit:)`` and ``signals()`` have default implementations.
///
/// ```swift
/// let answer = try await backend.write([1, 2, 3], to: key, if: .absent)
/// switch answer.outcome {
/// case .written(let version): remember(version)
/// case .conflict(let current): merge(with: current)
/// case .deleted: break // only a delete answers so
/// }
/// ```
public protocol KeyValueBackend: Sendable {
    /// What this store honours. Constant for the life of the backend.
    var capabilities: Capabilities { get }

    /// A name for people and logs, without secrets: `file:/var/lib/app`.
    var label: String { get }

    /// This store as the remote of an engine: as something that others share, and that must be there already.
    ///
    /// A store that comes into being by being used, as a folder does, answers a form of itself that does not: a share
    /// that is not mounted would pass for one in which nothing was ever bought. Everything else answers itself, which
    /// is the default; a wrapper wraps what the wrapped store answers.
    var requiringExisting: any KeyValueBackend { get }

    /// Reads one key.
    ///
    /// - Parameters:
    ///   - key: what to read.
    ///   - knownVersion: when the key still holds this version, the answer is ``ReadOutcome/unchanged`` and no value
    ///     travels.
    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome>

    /// Writes `value` to `key` if `precondition` holds.
    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>

    /// Deletes `key` if `precondition` holds. Deleting an absent key under ``Precondition/any`` or
    /// ``Precondition/absent`` answers ``WriteOutcome/deleted``.
    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome>

    /// Lists keys that begin with the bytes of `prefix`, in ascending order of their bytes.
    ///
    /// A key that is there during the whole listing is listed once; one that comes or goes meanwhile may be.
    ///
    /// An item has the size of its value if the store knows it without reading the value. A wrapper that changes values
    /// leaves it out.
    ///
    /// - Parameters:
    ///   - prefix: empty for all keys.
    ///   - cursor: the ``KeyPage/next`` of the page before.
    ///   - limit: at most so many, 1 or more.
    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage>

    /// Reads several keys in one request where the store can, each on its own.
    ///
    /// - Returns: one result a request, in their order.
    /// - Throws: only when nothing at all could be asked.
    func read(_ requests: [ReadRequest]) async throws(BackendError) -> Answer<[Result<ReadOutcome, BackendError>]>

    /// Writes or deletes several keys in one request where the store can, each on its own: one may conflict or fail
    /// while the next succeeds.
    ///
    /// - Returns: one result a request, in their order.
    /// - Throws: only when nothing at all could be asked.
    func write(_ requests: [WriteRequest]) async throws(BackendError) -> Answer<[Result<WriteOutcome, BackendError>]>

    /// The changes after `cursor`, or since the store began when it is `nil`.
    ///
    /// A store may forget deletions that no valid cursor is before; then an answer to `nil` leaves them out.
    ///
    /// - Throws: ``BackendError/Kind/cursorExpired`` when the store cannot say (it was wiped, restored, or forgot),
    ///   ``BackendError/Kind/unsupported`` when ``Capabilities/changes`` is false.
    func changes(since cursor: ChangeCursor?, limit: Int) async throws(BackendError) -> Answer<ChangePage>

    /// Signals that something in the store may have changed; several changes may share one signal.
    ///
    /// The stream ends when the backend is gone, and is silent where ``Capabilities/signals`` is `polled`.
    func signals() -> AsyncStream<Void>
}

extension KeyValueBackend {
    /// The store itself.
    public var requiringExisting: any KeyValueBackend { self }

    /// Reads one key.
    public func read(_ key: EntryKey) async throws(BackendError) -> Answer<ReadOutcome> {
        try await read(key, unless: nil)
    }

    /// Reads the keys one after the other.
    public func read(_ requests: [ReadRequest]) async throws(BackendError)
        -> Answer<[Result<ReadOutcome, BackendError>]>
    {
        var results: [Result<ReadOutcome, BackendError>] = []
        var serverTime: Int64?
        for request in requests {
            do {
                let answer = try await read(request.key, unless: request.knownVersion)
                serverTime = answer.serverTime ?? serverTime
                results.append(.success(answer.outcome))
            } catch {
                results.append(.failure(error))
            }
        }
        return Answer(results, serverTime: serverTime)
    }

    /// Writes or deletes the keys one after the other.
    public func write(_ requests: [WriteRequest]) async throws(BackendError)
        -> Answer<[Result<WriteOutcome, BackendError>]>
    {
        var results: [Result<WriteOutcome, BackendError>] = []
        var serverTime: Int64?
        for request in requests {
            do {
                let answer =
                    if let value = request.value {
                        try await write(value, to: request.key, if: request.precondition)
                    } else {
                        try await delete(request.key, if: request.precondition)
                    }
                serverTime = answer.serverTime ?? serverTime
                results.append(.success(answer.outcome))
            } catch {
                results.append(.failure(error))
            }
        }
        return Answer(results, serverTime: serverTime)
    }

    /// Refuses: the store keeps no sequence of changes.
    public func changes(since cursor: ChangeCursor?, limit: Int) async throws(BackendError) -> Answer<ChangePage> {
        throw BackendError(.unsupported, operation: .changes, message: "\(label) keeps no sequence of changes")
    }

    /// A stream that stays silent: the watcher polls.
    public func signals() -> AsyncStream<Void> {
        AsyncStream { _ in }
    }
}
