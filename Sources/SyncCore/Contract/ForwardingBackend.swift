/// A backend that wraps another one and changes part of its behaviour.
///
/// A wrapper implements ``base`` and the calls that it changes. All other calls go to ``base``: its capabilities and
/// label, reads, writes, deletes, listings, changes and signals.
///
/// A wrapper that treats all calls alike, for example measures or repeats them, implements ``forward(_:_:_:)`` only.
///
/// **Batches** are divided into single calls of the wrapper, in order. A wrapper that changes `write(_:to:if:)`
/// therefore also changes each write of a batch, and no call bypasses it. To send a batch as one request, implement
/// the two batch methods.
///
/// **``KeyValueBackend/requiringExisting``** is the wrapper itself. If ``base`` may be a backend that creates its store
/// on first use, the wrapper must implement this property and wrap the ``KeyValueBackend/requiringExisting`` of
/// ``base``. Otherwise a share that is not mounted looks like an empty store.
///
/// A wrapper answers for everything that it passes on. If it changes values, it also changes
/// ``Capabilities/maximumValueByteCount`` and the entry of a conflict, and leaves the sizes out of listings.
///
/// ```swift
/// /// A wrapper that refuses all changes.
/// struct ReadOnlyBackend: ForwardingBackend {
///     let base: any KeyValueBackend
///
///     var requiringExisting: any KeyValueBackend { ReadOnlyBackend(base: base.requiringExisting) }
///
///     func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
///         -> Answer<WriteOutcome>
///     {
///         throw BackendError(.refused, operation: .write, key: key, message: "\(label) is read-only")
///     }
///
///     func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
///         throw BackendError(.refused, operation: .delete, key: key, message: "\(label) is read-only")
///     }
/// }
/// ```
public protocol ForwardingBackend: KeyValueBackend {
    /// The backend that this one wraps.
    var base: any KeyValueBackend { get }

    /// Performs one call of ``base``.
    ///
    /// Reads, writes, deletes, listings and requests for changes that the wrapper does not implement go through this
    /// method. By default it performs the call once.
    ///
    /// - Parameters:
    ///   - operation: The operation of the call.
    ///   - key: The key, if the operation concerns one.
    ///   - call: Performs the call on a backend.
    func forward<Outcome: Sendable>(
        _ operation: BackendError.Operation, _ key: EntryKey?,
        _ call: (any KeyValueBackend) async throws(BackendError) -> Answer<Outcome>
    ) async throws(BackendError) -> Answer<Outcome>
}

extension ForwardingBackend {
    /// The capabilities of ``base``.
    public var capabilities: Capabilities { base.capabilities }

    /// The label of ``base``.
    public var label: String { base.label }

    /// Performs the call on ``base``.
    public func forward<Outcome: Sendable>(
        _ operation: BackendError.Operation, _ key: EntryKey?,
        _ call: (any KeyValueBackend) async throws(BackendError) -> Answer<Outcome>
    ) async throws(BackendError) -> Answer<Outcome> {
        try await call(base)
    }

    /// Reads one key from ``base``.
    public func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError)
        -> Answer<ReadOutcome>
    {
        try await forward(.read, key) { (base) throws(BackendError) in try await base.read(key, unless: knownVersion) }
    }

    /// Writes one key to ``base``.
    public func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await forward(.write, key) { (base) throws(BackendError) in
            try await base.write(value, to: key, if: precondition)
        }
    }

    /// Deletes one key from ``base``.
    public func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await forward(.delete, key) { (base) throws(BackendError) in try await base.delete(key, if: precondition) }
    }

    /// Lists the keys of ``base``.
    public func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError)
        -> Answer<KeyPage>
    {
        try await forward(.list, nil) { (base) throws(BackendError) in
            try await base.list(prefix: prefix, after: cursor, limit: limit)
        }
    }

    /// Returns the changes of ``base``.
    public func changes(since cursor: ChangeCursor?, prefix: String, limit: Int) async throws(BackendError)
        -> Answer<ChangePage>
    {
        try await forward(.changes, nil) { (base) throws(BackendError) in
            try await base.changes(since: cursor, prefix: prefix, limit: limit)
        }
    }

    /// Returns the position of the latest change of ``base``.
    public func latestCursor() async throws(BackendError) -> Answer<ChangeCursor?> {
        try await forward(.changes, nil) { (base) throws(BackendError) in try await base.latestCursor() }
    }

    /// Returns the signals of ``base``.
    public func signals() -> AsyncStream<Void> { base.signals() }
}

extension SynchronousReading where Self: ForwardingBackend {
    /// Reads from ``ForwardingBackend/base`` if that reads synchronously. Only a wrapper that does not change
    /// ``KeyValueBackend/read(_:unless:)`` may adopt this implementation.
    package func readSynchronously(_ key: EntryKey, unless knownVersion: EntryVersion?) -> ReadOutcome? {
        (base as? any SynchronousReading)?.readSynchronously(key, unless: knownVersion)
    }
}
