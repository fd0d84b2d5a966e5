public import SyncCore
import Synchronization

/// A backend on iCloud's key-value store, for apps without a server: the devices of one iCloud account share it.
///
/// - **No compare-and-swap.** The last writer of a key wins, so each device writes only its own entry of a ledger and
///   reads all entries.
/// - **No acknowledged durability.** A write is kept in the local copy. The system uploads it later, and reports no
///   success. Purchases are therefore safe in the device's own store only; iCloud passes them on.
/// - **Small.** iCloud holds 1 MiB and 1,024 keys for each app. A write beyond that is `full`.
/// - **Created explicitly.** iCloud does not report if its store is empty or not downloaded yet. Every operation is
///   `missing` until ``create(replacingBinding:)`` was called, or the store of another device was downloaded.
/// - **Bound to one store.** The device's local store remembers the store in iCloud. If that was deleted, operations
///   are `missing`; if another iCloud account with a store is signed in, they are `permissionDenied`. Neither is taken
///   for an empty store, and no purchase reaches another iCloud account unless the app asks for it.
///
/// All devices use the same `Account`, for example `Account("icloud")`, because the store itself belongs to one iCloud
/// account.
///
/// ```swift
/// let cloud = UbiquitousBackend(ICloudStore(), boundIn: local)
/// let store = try await EntitlementStore(
///     catalog: catalog, local: local, remote: cloud, account: Account("icloud"))
/// // After the first purchase on this device, and harmless after every other.
/// try await cloud.create()
/// ```
public final class UbiquitousBackend: KeyValueBackend {
    /// The space of an app, in bytes of values.
    public static let byteCountLimit = 1 << 20
    /// The largest number of keys.
    public static let keyCountLimit = 1_024

    /// The capabilities: neither conditional writes nor a change feed.
    public let capabilities = Capabilities(
        compareAndSwap: false, durability: .process, changes: false, signals: .pushed, sharedBetweenProcesses: false,
        maximumValueByteCount: 1_000_000)
    /// `icloud:`.
    public let label = "icloud:"

    let store: any UbiquitousStore
    let local: any KeyValueBackend
    let host: HostServices
    /// Never held during a call of `store`, which may call ``receive(_:)``.
    let state = Mutex(State())
    private let hub = SignalHub()

    struct State {
        /// True once ``UbiquitousStore/synchronize()`` has succeeded.
        var hasSynchronized = false
        /// True from the moment at which iCloud reported that the values exceed its space until the next write, which
        /// fails.
        var isOverQuota = false
        /// True if a marker that is in iCloud has outlived the first download: it was there when the app started, or
        /// values of another device have arrived since.
        var canConfirm = true
        var hasAccountChanged = false
    }

    /// Creates a backend. It accesses neither store before the first operation.
    ///
    /// - Parameters:
    ///   - store: iCloud's key-value store.
    ///   - local: The device's local store. It remembers, under one key, to which store in iCloud the device belongs.
    ///   - host: The source of versions and ids.
    public init(_ store: any UbiquitousStore, boundIn local: any KeyValueBackend, host: HostServices = .system) {
        (self.store, self.local, self.host) = (store, local, host)
        store.observe { [weak self] change in self?.receive(change) }
    }

    /// Creates the store in iCloud, unless it exists.
    ///
    /// Call it after a purchase. Several devices may call it, also before the first download: their stores become one.
    /// It does not create a store again that this device has used and that is gone.
    ///
    /// - Parameter replacingBinding: True to forget the store that this device has used, and to use or create the store
    ///   of the iCloud account that is signed in now. Pass true only if the buyer has agreed: the next sync copies this
    ///   device's purchases to that account. To keep them apart, open another local store instead.
    /// - Throws: `BackendError.Kind.missing` if the store that this device has used is gone,
    ///   `BackendError.Kind.permissionDenied` if the store is that of another iCloud account,
    ///   `BackendError.Kind.full`, `BackendError.Kind.unavailable`, or an error of the local store.
    public func create(replacingBinding: Bool = false) async throws(BackendError) {
        try BackendError.throwIfCancelled(.open)
        let binding: StoreBinding?
        if replacingBinding {
            try synchronizeOnce(.open, nil)
            binding = nil
        } else {
            do { return try await check(.open, nil) } catch {
                guard error.kind == .missing else { throw error }
                binding = try await loadBinding()
                guard binding == nil else { throw error }
            }
        }
        state.withLock { ($0.canConfirm, $0.hasAccountChanged) = (false, false) }
        if case .changed(let binding) = StoreBinding.match(binding, markerIDs) { return try await save(binding) }
        var generator = host.generator
        let id = EntryVersion.random(using: &generator).description
        try checkRoom(for: 1, StoredItem.marker(id), .open, nil)
        // The binding first: if the app ends here, the next operation writes the marker.
        try await save(StoreBinding(ids: [id], isConfirmed: false))
        try set([1], of: StoredItem.marker(id), .open, nil)
        hub.signal()
    }

    /// Reads one key from the local copy.
    public func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError)
        -> Answer<ReadOutcome>
    {
        try BackendError.throwIfCancelled(.read, key: key)
        try await check(.read, key)
        let name = StoredItem.name(of: key)
        guard let value = store.value(of: name) else { return Answer(.absent) }
        guard let bytes = value.bytes else { throw Self.damaged(.read, key) }
        let item = try Self.item(bytes, .read, key)
        guard item.key == key else { throw Self.damaged(.read, key) }
        return Answer(item.entry.version == knownVersion ? .unchanged : .found(item.entry))
    }

    /// Writes one key to the local copy.
    public func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try BackendError.throwIfCancelled(.write, key: key)
        try refuse(precondition, .write, key)
        if let refusal = capabilities.refusal(of: value, at: key) { throw refusal }
        try await check(.write, key)
        var generator = host.generator
        let entry = Entry(value: value, version: .random(using: &generator))
        let name = StoredItem.name(of: key)
        let bytes = StoredItem(key: key, entry: entry).bytes
        if let other = store.value(of: name)?.bytes.flatMap({ try? StoredItem($0) }), other.key != key {
            throw Self.damaged(.write, key)
        }
        try checkRoom(for: bytes.count, name, .write, key)
        try set(bytes, of: name, .write, key)
        hub.signal()
        return Answer(.written(entry.version))
    }

    /// Deletes one key from the local copy.
    public func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try BackendError.throwIfCancelled(.delete, key: key)
        try refuse(precondition, .delete, key)
        try await check(.delete, key)
        try set(nil, of: StoredItem.name(of: key), .delete, key)
        hub.signal()
        return Answer(.deleted)
    }

    /// Lists keys in the local copy. O(keys and values), which iCloud limits to 1,024 and 1 MiB.
    ///
    /// A damaged value is listed if its key can be read; a read of that key throws.
    public func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError)
        -> Answer<KeyPage>
    {
        try BackendError.throwIfCancelled(.list)
        try await check(.list, nil)
        var items: [KeyPage.Item] = []
        for name in store.keys where StoredItem.isName(name) {
            guard let bytes = store.value(of: name)?.bytes, let item = Self.listed(bytes, under: name),
                item.key.text.utf8.starts(with: prefix.utf8), cursor.map({ $0 < item.key }) ?? true
            else { continue }
            items.append(item)
        }
        items.sort { $0.key < $1.key }
        let page = Array(items.prefix(limit))
        return Answer(KeyPage(items: page, next: items.count > limit ? page.last?.key : nil))
    }

    /// Returns a stream that yields after every change, of this device and of others.
    public func signals() -> AsyncStream<Void> { hub.subscribe() }

    private func receive(_ change: UbiquitousChange) {
        state.withLock { state in
            switch change {
            case .received: state.canConfirm = true
            case .quotaExceeded: state.isOverQuota = true
            case .accountChanged: state.hasAccountChanged = true
            case .unspecified: break
            }
        }
        hub.signal()
    }
}

extension UbiquitousBackend {
    private static func listed(_ bytes: [UInt8], under name: String) -> KeyPage.Item? {
        do throws(StoredItem.Defect) {
            let item = try StoredItem(bytes)
            return KeyPage.Item(key: item.key, version: item.entry.version, byteCount: item.entry.value.count)
        } catch {
            return StoredItem.keyOfDamaged(bytes, under: name).map {
                KeyPage.Item(key: $0, version: StoredItem.standIn(for: bytes))
            }
        }
    }

    private static func item(
        _ bytes: [UInt8], _ operation: BackendError.Operation, _ key: EntryKey?
    ) throws(BackendError) -> StoredItem {
        do { return try StoredItem(bytes) } catch {
            switch error {
            case .damaged: throw damaged(operation, key)
            case .newer:
                throw BackendError(
                    .newerFormat, operation: operation, key: key,
                    message: "a later version of the app has written this to iCloud; update the app")
            }
        }
    }

    private func refuse(
        _ precondition: Precondition, _ operation: BackendError.Operation, _ key: EntryKey
    ) throws(BackendError) {
        guard precondition == .any else {
            throw BackendError(
                .unsupported, operation: operation, key: key,
                message: "iCloud cannot write conditionally: the last writer of a key wins")
        }
    }

    private static func damaged(_ operation: BackendError.Operation, _ key: EntryKey?) -> BackendError {
        BackendError(
            .damaged, operation: operation, key: key,
            message: "a value in iCloud is damaged: its checksum, its key or its type is wrong")
    }
}
