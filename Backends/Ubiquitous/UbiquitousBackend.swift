public import SyncCore
import Synchronization

/// A backend on iCloud's key-value store, for apps without a server: the devices of one iCloud account share it.
///
/// - **No compare-and-swap.** The last writer of a key wins, so each device writes only its own entry of a ledger and
///   reads all entries.
/// - **No acknowledged durability.** A write is kept in the local copy. The system uploads it later, and reports no
///   success. Purchases are therefore safe in the device's own store only; iCloud passes them on.
/// - **Small.** iCloud holds 1 MiB and 1,024 keys for each app. A write beyond that is `full`.
/// - **Explicit absence.** A store that was never created, was deleted in the settings of the device, or has not been
///   downloaded yet is `missing`, unless `creating` is true.
///
/// ```swift
/// let remote = try UbiquitousBackend(ICloudStore())
/// ```
public final class UbiquitousBackend: KeyValueBackend {
    /// The space of an app, in bytes of keys and values.
    public static let byteCountLimit = 1 << 20
    /// The largest number of keys.
    public static let keyCountLimit = 1_024

    /// The capabilities: neither conditional writes nor a change feed.
    public let capabilities = Capabilities(
        compareAndSwap: false, durability: .process, changes: false, signals: .pushed, sharedBetweenProcesses: false,
        maximumValueByteCount: 1_000_000)
    /// `icloud:`.
    public let label = "icloud:"

    private let store: any UbiquitousStore
    private let creating: Bool
    private let host: HostServices
    private let account: [UInt8]
    private let hub = SignalHub()
    private let state = Mutex(State())

    private struct State {
        /// True from the moment at which iCloud reported that the values exceed its space until the next write, which
        /// fails.
        var isOverQuota = false
        var hasAccountChanged = false
    }

    /// Creates a backend on the store of the iCloud account that is signed in.
    ///
    /// - Parameters:
    ///   - store: iCloud's key-value store.
    ///   - creating: Determines whether the first write creates the store. Otherwise a store that does not exist, or
    ///     that was not downloaded yet, is an error and not empty.
    ///   - host: The source of versions.
    /// - Throws: `BackendError.Kind.unavailable` if no iCloud account is signed in.
    public init(
        _ store: any UbiquitousStore, creating: Bool = false, host: HostServices = .system
    ) throws(BackendError) {
        guard let account = store.account else { throw Self.signedOut(.read) }
        (self.store, self.creating, self.host, self.account) = (store, creating, host, account)
        store.observe { [weak self] change in self?.receive(change) }
    }

    /// A form of this backend that does not create the store.
    public var requiringExisting: any KeyValueBackend {
        guard creating else { return self }
        // The account was signed in when this backend was opened. If it no longer is, each call reports that.
        return (try? UbiquitousBackend(store, host: host)) ?? self
    }

    /// Reads one key from the local copy.
    public func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError)
        -> Answer<ReadOutcome>
    {
        try BackendError.throwIfCancelled(.read, key: key)
        return try state.withLock { (state) throws(BackendError) in
            try check(state, .read, key)
            guard let bytes = store.value(of: StoredItem.name(of: key)) else { return Answer(.absent) }
            let item = try item(bytes, .read, key)
            guard item.key == key else { throw Self.damaged(.read, key) }
            return Answer(item.entry.version == knownVersion ? .unchanged : .found(item.entry))
        }
    }

    /// Writes one key to the local copy.
    public func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try BackendError.throwIfCancelled(.write, key: key)
        try refuse(precondition, .write, key)
        if let maximum = capabilities.maximumValueByteCount, value.count > maximum {
            throw BackendError(
                .tooLarge, operation: .write, key: key,
                message: "a value must have at most \(maximum) bytes here, not \(value.count)")
        }
        var generator = host.generator
        let entry = Entry(value: value, version: .random(using: &generator))
        let name = StoredItem.name(of: key)
        let bytes = StoredItem(key: key, entry: entry).bytes
        try state.withLock { (state) throws(BackendError) in
            try check(state, .write, key)
            if let other = store.value(of: name).flatMap({ try? StoredItem($0) }), other.key != key {
                throw Self.damaged(.write, key)
            }
            try checkRoom(for: bytes.count, name, &state, key)
            if creating { store.set([1], of: StoredItem.marker) }
            store.set(bytes, of: name)
            guard store.synchronize() else {
                throw BackendError(
                    .other, operation: .write, key: key, disposition: .outcomeUnknown,
                    message: "the local copy of iCloud's store could not be saved")
            }
        }
        hub.signal()
        return Answer(.written(entry.version))
    }

    /// Deletes one key from the local copy.
    public func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try BackendError.throwIfCancelled(.delete, key: key)
        try refuse(precondition, .delete, key)
        try state.withLock { (state) throws(BackendError) in
            try check(state, .delete, key)
            store.set(nil, of: StoredItem.name(of: key))
            guard store.synchronize() else {
                throw BackendError(
                    .other, operation: .delete, key: key, disposition: .outcomeUnknown,
                    message: "the local copy of iCloud's store could not be saved")
            }
        }
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
        let items = try state.withLock { (state) throws(BackendError) -> [KeyPage.Item] in
            try check(state, .list, nil)
            var items: [KeyPage.Item] = []
            for name in store.keys where StoredItem.isName(name) {
                guard let bytes = store.value(of: name), let item = Self.listed(bytes, under: name),
                    item.key.text.utf8.starts(with: prefix.utf8), cursor.map({ $0 < item.key }) ?? true
                else { continue }
                items.append(item)
            }
            return items.sorted { $0.key < $1.key }
        }
        let page = Array(items.prefix(limit))
        return Answer(KeyPage(items: page, next: items.count > limit ? page.last?.key : nil))
    }

    /// Returns a stream that yields after every change, of this device and of others.
    public func signals() -> AsyncStream<Void> { hub.subscribe() }
}

extension UbiquitousBackend {
    private func receive(_ change: UbiquitousChange) {
        state.withLock { state in
            switch change {
            case .received: break
            case .quotaExceeded: state.isOverQuota = true
            case .accountChanged: state.hasAccountChanged = store.account != account
            }
        }
        hub.signal()
    }

    /// Checks that the store is that of the account with which the backend was opened, and that it exists.
    private func check(
        _ state: borrowing State, _ operation: BackendError.Operation, _ key: EntryKey?
    ) throws(BackendError) {
        guard let current = store.account else { throw Self.signedOut(operation) }
        guard current == account, !state.hasAccountChanged else {
            throw BackendError(
                .permissionDenied, operation: operation, key: key,
                message: "another iCloud account is signed in; open the store again")
        }
        guard creating || store.value(of: StoredItem.marker) != nil else {
            throw BackendError(
                .missing, operation: operation, key: key,
                message: "iCloud has no store of this app, or has not downloaded it yet; create it once, or try later")
        }
    }

    private func checkRoom(
        for byteCount: Int, _ name: String, _ state: inout State, _ key: EntryKey
    ) throws(BackendError) {
        var names = Set(store.keys)
        names.formUnion([name, StoredItem.marker])
        let used = names.reduce(0) { sum, other in
            sum + other.utf8.count + (other == name ? byteCount : store.value(of: other)?.count ?? 1)
        }
        let isOver = state.isOverQuota
        state.isOverQuota = false
        guard !isOver, used <= Self.byteCountLimit, names.count <= Self.keyCountLimit else {
            throw BackendError(
                .full, operation: .write, key: key,
                message: "iCloud's space for this app is full: 1 MiB and 1,024 keys; remove other values of the app, "
                    + "or use a server")
        }
    }

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

    private func item(
        _ bytes: [UInt8], _ operation: BackendError.Operation, _ key: EntryKey?
    ) throws(BackendError) -> StoredItem {
        do { return try StoredItem(bytes) } catch {
            switch error {
            case .damaged: throw Self.damaged(operation, key)
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
            .damaged, operation: operation, key: key, message: "a value in iCloud is not as it was written")
    }

    private static func signedOut(_ operation: BackendError.Operation) -> BackendError {
        BackendError(
            .unavailable, operation: operation,
            message: "no iCloud account is signed in, or iCloud is off for this app; see the device's settings")
    }
}
