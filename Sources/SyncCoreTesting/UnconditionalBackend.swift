public import SyncCore

/// A wrapper without compare-and-swap: it rejects every precondition.
///
/// It stands for WebDAV, shared folders and cloud key-value stores in tests.
///
/// ```swift
/// let remote = UnconditionalBackend(MemoryBackend())
/// ```
public struct UnconditionalBackend: ForwardingBackend {
    /// The wrapped backend.
    public let base: any KeyValueBackend

    /// Creates a wrapper that rejects preconditions and passes other operations to `base`.
    public init(_ base: any KeyValueBackend) {
        self.base = base
    }

    /// The capabilities of the wrapped backend, without compare-and-swap.
    public var capabilities: Capabilities {
        var capabilities = base.capabilities
        capabilities.compareAndSwap = false
        return capabilities
    }

    /// `unconditional` and the label of the wrapped backend.
    public var label: String { "unconditional \(base.label)" }

    /// The ``requiringExisting`` form of the wrapped backend, without preconditions.
    public var requiringExisting: any KeyValueBackend { UnconditionalBackend(base.requiringExisting) }

    /// Writes one key under `any`, and rejects other preconditions.
    public func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try check(precondition, .write, key)
        return try await base.write(value, to: key, if: .any)
    }

    /// Deletes one key under `any`, and rejects other preconditions.
    public func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try check(precondition, .delete, key)
        return try await base.delete(key, if: .any)
    }

    /// Reads several keys, in one request where the wrapped backend can.
    public func read(_ requests: [ReadRequest]) async throws(BackendError)
        -> Answer<[Result<ReadOutcome, BackendError>]>
    {
        try await base.read(requests)
    }

    private func check(
        _ precondition: Precondition, _ operation: BackendError.Operation, _ key: EntryKey
    ) throws(BackendError) {
        guard precondition != .any else { return }
        throw BackendError(
            .unsupported, operation: operation, key: key, message: "\(label) cannot write conditionally")
    }
}
