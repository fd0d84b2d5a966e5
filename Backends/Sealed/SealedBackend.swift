#if Sealed
public import SyncCore
internal import Synchronization

/// A wrapper that encrypts and authenticates all values, so that the operator of the store can neither read nor change
/// them undetected.
///
/// Each value is encrypted and authenticated together with its entry key (AES-256-GCM with a separate key for each
/// value, derived by HKDF-SHA-256). A changed byte, a value under another key, and a value that was never sealed are
/// errors, never wrong values.
///
/// **Not detected**: an entry that was deleted, or restored to an earlier value together with its version. Ledgers only
/// grow, so the next sync of a device that has the missing facts repairs this. No seal protects against a store that
/// always lies. Keys are not hidden, and neither are the lengths of values (``overhead`` bytes longer).
///
/// ```swift
/// let key = try SealingKey(contentsOf: "/etc/example/store.key")
/// let remote = SealedBackend(.file("/mnt/share/example"), keys: SealingKeys(key))
/// ```
public struct SealedBackend: ForwardingBackend {
    /// The backend of the sealed values.
    public let base: any KeyValueBackend
    let keyring: Keyring
    private let host: HostServices

    /// The number of bytes by which sealing lengthens a value.
    public static let overhead = SealedValue.overhead

    /// Seals the values of `base`.
    ///
    /// - Parameters:
    ///   - base: the backend of the sealed values.
    ///   - keys: the current key, and older keys that open existing values.
    ///   - host: the source of salts. Its random bits must be unpredictable, as those of the system are.
    public init(_ base: any KeyValueBackend, keys: SealingKeys, host: HostServices = .system) {
        self.init(base, host: host) { keys }
    }

    /// Seals the values of `base` with keys from a key store.
    ///
    /// The keys are loaded at first use, when a value was sealed with an unknown key, and by ``reloadKeys()`` and
    /// ``reseal()``. If the key store changes in between, this object keeps using the keys it has. ``reseal()``
    /// describes how to rotate a key.
    ///
    /// - Parameters:
    ///   - base: the backend of the sealed values.
    ///   - host: the source of salts. Its random bits must be unpredictable, as those of the system are.
    ///   - keys: loads the keys. An error becomes `BackendError.Kind.unavailable` with that cause.
    public init(
        _ base: any KeyValueBackend, host: HostServices = .system,
        keys: @escaping @Sendable () async throws -> SealingKeys
    ) {
        self.init(base, Keyring(keys), host)
    }

    private init(_ base: any KeyValueBackend, _ keyring: Keyring, _ host: HostServices) {
        self.base = base
        self.keyring = keyring
        self.host = host
    }

    /// The capabilities of the wrapped backend, with a maximum value length reduced by ``overhead``.
    public var capabilities: Capabilities {
        var capabilities = base.capabilities
        capabilities.maximumValueByteCount = capabilities.maximumValueByteCount.map { max(0, $0 - Self.overhead) }
        return capabilities
    }

    /// `sealed:` followed by the label of the wrapped backend.
    public var label: String { "sealed:" + base.label }

    /// The wrapped backend's form that requires an existing store, sealed with the same keys.
    public var requiringExisting: any KeyValueBackend { SealedBackend(base.requiringExisting, keyring, host) }

    /// Reads and opens one value.
    ///
    /// - Throws: the errors of the wrapped backend; `damaged` for a value that was changed or moved, `permissionDenied`
    ///   for a value that an unknown key sealed, `newerFormat`, and `unavailable` if the keys cannot be loaded.
    public func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError)
        -> Answer<ReadOutcome>
    {
        let answer = try await base.read(key, unless: knownVersion)
        return Answer(try await open(answer.outcome, under: key), serverTime: answer.serverTime)
    }

    /// Seals and writes one value.
    public func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        let sealed = try await seal(value, under: key)
        let answer = try await base.write(sealed, to: key, if: precondition)
        return Answer(try await open(answer.outcome, under: key, during: .write), serverTime: answer.serverTime)
    }

    /// Deletes one key.
    public func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        let answer = try await base.delete(key, if: precondition)
        return Answer(try await open(answer.outcome, under: key, during: .delete), serverTime: answer.serverTime)
    }

    /// Lists keys. The sizes of the values are omitted, because they are those of the sealed values.
    public func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError)
        -> Answer<KeyPage>
    {
        var answer = try await base.list(prefix: prefix, after: cursor, limit: limit)
        for index in answer.outcome.items.indices { answer.outcome.items[index].byteCount = nil }
        return answer
    }

    /// Reads and opens several values independently.
    public func read(_ requests: [ReadRequest]) async throws(BackendError) -> BatchAnswer<ReadOutcome> {
        let answer = try await base.read(requests)
        var opened = await zip(requests, answer.outcome).answers { (request, result) async throws(BackendError) in
            Answer(try await open(try result.get(), under: request.key))
        }
        opened.serverTime = answer.serverTime
        return opened
    }

    /// Seals and writes several values independently.
    public func write(_ requests: [WriteRequest]) async throws(BackendError) -> BatchAnswer<WriteOutcome> {
        var sealed: [WriteRequest] = []
        for var request in requests {
            if let value = request.value { request.value = try await seal(value, under: request.key) }
            sealed.append(request)
        }
        let answer = try await base.write(sealed)
        var opened = await zip(requests, answer.outcome).answers { (request, result) async throws(BackendError) in
            Answer(try await open(try result.get(), under: request.key, during: request.operation))
        }
        opened.serverTime = answer.serverTime
        return opened
    }
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

    /// Opens the current entry of a conflict. If that fails, nothing was written, and the error has the reason.
    private func open(
        _ outcome: WriteOutcome, under key: EntryKey, during operation: BackendError.Operation
    ) async throws(BackendError) -> WriteOutcome {
        guard case .conflict(let current?) = outcome else { return outcome }
        let value = try await open(current.value, under: key, during: operation)
        return .conflict(Entry(value: value, version: current.version))
    }
}

/// Keys that are loaded on demand.
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
            // Another writer may use a new key.
            guard error.kind == .permissionDenied else { throw error }
            return try SealedValue.open(sealed, under: key, with: try await askAgain())
        }
    }

    /// Loads the keys, even if some are known.
    @discardableResult
    func askAgain() async throws(BackendError) -> SealingKeys {
        let keys: SealingKeys
        do {
            keys = try await ask()
        } catch {
            throw BackendError(.unavailable, message: "the sealing key cannot be loaded", cause: error)
        }
        known.withLock { $0 = keys }
        return keys
    }
}
#endif
