#if Sealed
public import SyncCore
internal import Synchronization

/// Any store, with all values sealed: who holds the store can neither read nor change them unnoticed.
///
/// Each value is encrypted and authenticated together with the key that it lies under (AES-256-GCM under a key of its
/// own, derived by HKDF-SHA-256). A changed byte, a value that was moved under another key, a key that was renamed, and
/// a value that was not sealed at all are errors, never a wrong value.
///
/// **What it cannot tell**: that an entry was deleted, or put back to what it held before, together with its version.
/// Ledgers only grow, so that the next sync with anybody who knows more mends it; against a store that lies for ever no
/// seal helps. It hides neither the keys, which stay listable, nor how long values are (``overhead`` bytes more).
///
/// ```swift
/// let key = try SealingKey(contentsOf: "/etc/example/store.key")
/// let remote = SealedBackend(.file("/mnt/share/example"), keys: SealingKeys(key))
/// ```
public struct SealedBackend: KeyValueBackend {
    /// The store that keeps the sealed values.
    public let wrapped: any KeyValueBackend
    let keyring: Keyring
    private let host: HostServices

    /// By how many bytes a sealed value is longer.
    public static let overhead = SealedValue.overhead

    /// Seals what `wrapped` keeps.
    ///
    /// - Parameters:
    ///   - wrapped: where the sealed values go.
    ///   - keys: the key, and older ones that still open what they sealed.
    ///   - host: where salts come from; its random bits have to be unpredictable, as the system's are.
    public init(_ wrapped: any KeyValueBackend, keys: SealingKeys, host: HostServices = .system) {
        self.init(wrapped, host: host) { keys }
    }

    /// Seals what `wrapped` keeps, with keys that are asked for at first use, again when something was sealed with one
    /// that is not among them, and by ``reloadKeys()`` and ``reseal()``. In between the key store may move on, and this
    /// object goes on sealing with what it knows: see ``reseal()`` for how to change a key.
    ///
    /// - Parameters:
    ///   - wrapped: where the sealed values go.
    ///   - host: where salts come from; its random bits have to be unpredictable, as the system's are.
    ///   - keys: asks a key store. What it throws becomes `BackendError.Kind.unavailable` with that cause.
    public init(
        _ wrapped: any KeyValueBackend, host: HostServices = .system,
        keys: @escaping @Sendable () async throws -> SealingKeys
    ) {
        self.init(wrapped, Keyring(keys), host)
    }

    private init(_ wrapped: any KeyValueBackend, _ keyring: Keyring, _ host: HostServices) {
        self.wrapped = wrapped
        self.keyring = keyring
        self.host = host
    }

    /// Those of the wrapped store; its largest value less the seal.
    public var capabilities: Capabilities {
        var capabilities = wrapped.capabilities
        capabilities.maximumValueByteCount = capabilities.maximumValueByteCount.map { max(0, $0 - Self.overhead) }
        return capabilities
    }

    /// `sealed:` and the label of the wrapped store.
    public var label: String { "sealed:" + wrapped.label }

    /// The wrapped store's remote form, sealed with the same keys.
    public var requiringExisting: any KeyValueBackend { SealedBackend(wrapped.requiringExisting, keyring, host) }

    /// Reads and opens one value.
    ///
    /// - Throws: besides what the wrapped store throws, `damaged` for what was changed or moved, `permissionDenied` for
    ///   what another key sealed, `newerFormat`, and `unavailable` when the keys cannot be had.
    public func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError)
        -> Answer<ReadOutcome>
    {
        let answer = try await wrapped.read(key, unless: knownVersion)
        return Answer(try await open(answer.outcome, under: key), serverTime: answer.serverTime)
    }

    /// Seals and writes one value.
    public func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        let sealed = try await seal(value, under: key)
        let answer = try await wrapped.write(sealed, to: key, if: precondition)
        return Answer(try await open(answer.outcome, under: key, during: .write), serverTime: answer.serverTime)
    }

    /// Deletes one key.
    public func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        let answer = try await wrapped.delete(key, if: precondition)
        return Answer(try await open(answer.outcome, under: key, during: .delete), serverTime: answer.serverTime)
    }

    /// Lists keys, which are not sealed, without the sizes of the values, which are.
    public func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError)
        -> Answer<KeyPage>
    {
        var answer = try await wrapped.list(prefix: prefix, after: cursor, limit: limit)
        for index in answer.outcome.items.indices { answer.outcome.items[index].byteCount = nil }
        return answer
    }

    /// Reads and opens several values, each on its own.
    public func read(_ requests: [ReadRequest]) async throws(BackendError)
        -> Answer<[Result<ReadOutcome, BackendError>]>
    {
        let answer = try await wrapped.read(requests)
        var results: [Result<ReadOutcome, BackendError>] = []
        for (request, result) in zip(requests, answer.outcome) {
            do throws(BackendError) {
                results.append(.success(try await open(try result.get(), under: request.key)))
            } catch {
                results.append(.failure(error))
            }
        }
        return Answer(results, serverTime: answer.serverTime)
    }

    /// Seals and writes several values, each on its own.
    public func write(_ requests: [WriteRequest]) async throws(BackendError)
        -> Answer<[Result<WriteOutcome, BackendError>]>
    {
        var sealed: [WriteRequest] = []
        for var request in requests {
            if let value = request.value { request.value = try await seal(value, under: request.key) }
            sealed.append(request)
        }
        let answer = try await wrapped.write(sealed)
        var results: [Result<WriteOutcome, BackendError>] = []
        for (request, result) in zip(requests, answer.outcome) {
            let operation: BackendError.Operation = request.value == nil ? .delete : .write
            do throws(BackendError) {
                results.append(.success(try await open(try result.get(), under: request.key, during: operation)))
            } catch {
                results.append(.failure(error))
            }
        }
        return Answer(results, serverTime: answer.serverTime)
    }

    /// What changed in the wrapped store.
    public func changes(since cursor: ChangeCursor?, limit: Int) async throws(BackendError) -> Answer<ChangePage> {
        try await wrapped.changes(since: cursor, limit: limit)
    }

    /// The signals of the wrapped store.
    public func signals() -> AsyncStream<Void> { wrapped.signals() }
}

extension SealedBackend {
    private func seal(_ value: [UInt8], under key: EntryKey) async throws(BackendError) -> [UInt8] {
        let keys: SealingKeys
        do throws(BackendError) { keys = try await keyring.keys() } catch { throw error.during(.write, key: key) }
        return try seal(value, under: key, with: keys.current)
    }

    func seal(_ value: [UInt8], under key: EntryKey, with secret: SealingKey) throws(BackendError) -> [UInt8] {
        var generator = host.generator
        do throws(BackendError) {
            return try SealedValue.seal(value, under: key, with: secret, using: &generator)
        } catch {
            throw error.during(.write, key: key)
        }
    }

    func open(
        _ sealed: [UInt8], under key: EntryKey, during operation: BackendError.Operation
    ) async throws(BackendError) -> [UInt8] {
        do throws(BackendError) {
            return try await keyring.open(sealed, under: key)
        } catch {
            throw error.during(operation, key: key)
        }
    }

    private func open(_ outcome: ReadOutcome, under key: EntryKey) async throws(BackendError) -> ReadOutcome {
        guard case .found(let entry) = outcome else { return outcome }
        return .found(Entry(value: try await open(entry.value, under: key, during: .read), version: entry.version))
    }

    /// A conflict answers with the entry that stood against the write; where that cannot be opened, nothing was written
    /// and the error says why.
    private func open(
        _ outcome: WriteOutcome, under key: EntryKey, during operation: BackendError.Operation
    ) async throws(BackendError) -> WriteOutcome {
        guard case .conflict(let current?) = outcome else { return outcome }
        let value = try await open(current.value, under: key, during: operation)
        return .conflict(Entry(value: value, version: current.version))
    }
}

/// Keys, asked for when they are needed.
final class Keyring: Sendable {
    private let ask: @Sendable () async throws -> SealingKeys
    private let known = Mutex<SealingKeys?>(nil)

    init(_ ask: @escaping @Sendable () async throws -> SealingKeys) { self.ask = ask }

    func keys() async throws(BackendError) -> SealingKeys {
        if let keys = known.withLock({ $0 }) { return keys }
        return try await askAgain()
    }

    func open(_ sealed: [UInt8], under key: EntryKey) async throws(BackendError) -> [UInt8] {
        do throws(BackendError) {
            return try SealedValue.open(sealed, under: key, with: try await keys())
        } catch {
            // Somebody else may have begun to use a new one.
            guard error.kind == .permissionDenied else { throw error }
            return try SealedValue.open(sealed, under: key, with: try await askAgain())
        }
    }

    /// Asks the key store, whatever is known.
    @discardableResult
    func askAgain() async throws(BackendError) -> SealingKeys {
        let keys: SealingKeys
        do {
            keys = try await ask()
        } catch {
            throw BackendError(.unavailable, message: "the key that values are sealed with cannot be had", cause: error)
        }
        known.withLock { $0 = keys }
        return keys
    }
}
#endif
