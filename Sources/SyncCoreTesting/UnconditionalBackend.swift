public import SyncCore

/// A wrapper without compare-and-swap: it rejects every precondition.
///
/// It stands for WebDAV, shared folders and cloud key-value stores in tests.
///
/// ```swift
/// let remote = UnconditionalBackend(MemoryBackend())
/// ```
public struct UnconditionalBackend: KeyValueBackend {
    private let wrapped: any KeyValueBackend

    /// Creates a wrapper that rejects preconditions and passes other operations to `wrapped`.
    public init(_ wrapped: any KeyValueBackend) {
        self.wrapped = wrapped
    }

    /// The capabilities of the wrapped backend, without compare-and-swap.
    public var capabilities: Capabilities {
        var capabilities = wrapped.capabilities
        capabilities.compareAndSwap = false
        return capabilities
    }

    /// `unconditional` and the label of the wrapped backend.
    public var label: String { "unconditional \(wrapped.label)" }

    /// The ``requiringExisting`` form of the wrapped backend, without preconditions.
    public var requiringExisting: any KeyValueBackend { UnconditionalBackend(wrapped.requiringExisting) }

    /// Reads one key.
    public func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError)
        -> Answer<ReadOutcome>
    {
        try await wrapped.read(key, unless: knownVersion)
    }

    /// Writes one key under `any`, and rejects other preconditions.
    public func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try check(precondition, .write, key)
        return try await wrapped.write(value, to: key, if: .any)
    }

    /// Deletes one key under `any`, and rejects other preconditions.
    public func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try check(precondition, .delete, key)
        return try await wrapped.delete(key, if: .any)
    }

    /// Lists keys.
    public func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError)
        -> Answer<KeyPage>
    {
        try await wrapped.list(prefix: prefix, after: cursor, limit: limit)
    }

    /// Reads several keys, in one request where the wrapped backend can.
    public func read(_ requests: [ReadRequest]) async throws(BackendError)
        -> Answer<[Result<ReadOutcome, BackendError>]>
    {
        try await wrapped.read(requests)
    }

    /// Reads a page of changes.
    public func changes(since cursor: ChangeCursor?, limit: Int) async throws(BackendError) -> Answer<ChangePage> {
        try await wrapped.changes(since: cursor, limit: limit)
    }

    /// The signals of the wrapped backend.
    public func signals() -> AsyncStream<Void> { wrapped.signals() }

    private func check(
        _ precondition: Precondition, _ operation: BackendError.Operation, _ key: EntryKey
    ) throws(BackendError) {
        guard precondition != .any else { return }
        throw BackendError(
            .unsupported, operation: operation, key: key, message: "\(label) cannot write conditionally")
    }
}
