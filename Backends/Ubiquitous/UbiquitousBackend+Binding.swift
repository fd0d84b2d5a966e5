import SyncCore
import Synchronization

extension UbiquitousBackend {
    /// The ids of the markers in iCloud.
    var markerIDs: Set<String> { Set(store.keys.compactMap(StoredItem.markerID)) }

    /// Checks that the local copy is that of the store to which this device is bound. Binds a device that was not bound
    /// to the store that is there.
    func check(_ operation: BackendError.Operation, _ key: EntryKey?) async throws(BackendError) {
        try synchronizeOnce(operation, key)
        let (canConfirm, hasAccountChanged) = state.withLock { ($0.canConfirm, $0.hasAccountChanged) }
        var binding = try await loadBinding()
        let found = markerIDs
        if let bound = binding, !bound.isConfirmed,
            hasAccountChanged || canConfirm && !found.isDisjoint(with: bound.ids)
        {
            binding = StoreBinding(ids: bound.ids, isConfirmed: true)
            if let binding { try await save(binding) }
        }
        switch StoreBinding.match(binding, found) {
        case .current: break
        case .changed(let binding): try await save(binding)
        case .discarded(let id):
            state.withLock { $0.canConfirm = false }
            try set([1], of: StoredItem.marker(id), operation, key)
        case .missing: throw Self.missing(operation, key, wasBound: binding != nil)
        case .foreign:
            throw BackendError(
                .permissionDenied, operation: operation, key: key,
                message: "another iCloud account is signed in; sign in the earlier one, open another local store, or "
                    + "call create(replacingBinding: true) to share this device's purchases with that account")
        }
    }

    /// Reads the binding from the device's local store.
    func loadBinding() async throws(BackendError) -> StoreBinding? {
        let key = try Self.bindingKey()
        guard case .found(let entry) = try await local.read(key).outcome else { return nil }
        do { return try StoreBinding(entry.value) } catch {
            switch error {
            case .damaged:
                throw BackendError(
                    .damaged, operation: .read, key: key,
                    message: "the local store's note of its iCloud store is damaged; call "
                        + "create(replacingBinding: true) if the right iCloud account is signed in")
            case .newer:
                throw BackendError(
                    .newerFormat, operation: .read, key: key,
                    message: "a later version of the app has written this device's note of its iCloud store; "
                        + "update the app")
            }
        }
    }

    func save(_ binding: StoreBinding) async throws(BackendError) {
        _ = try await local.write(binding.bytes, to: Self.bindingKey(), if: .any)
    }

    private static func bindingKey() throws(BackendError) -> EntryKey { try EntryKey("icloud/binding") }

    private static func missing(
        _ operation: BackendError.Operation, _ key: EntryKey?, wasBound: Bool
    ) -> BackendError {
        BackendError(
            .missing, operation: operation, key: key,
            message: wasBound
                ? "iCloud lacks the store that this device has used: it was deleted, another account is signed in, or "
                    + "it is not downloaded yet; try later, or call create(replacingBinding: true)"
                : "iCloud has no store of this app, or has not downloaded it yet; call create() after a purchase, or "
                    + "try later")
    }
}

extension UbiquitousBackend {
    /// Calls `synchronize()` until it has succeeded once. It fails if the app lacks the entitlement, so nothing is
    /// written before it succeeds.
    func synchronizeOnce(_ operation: BackendError.Operation, _ key: EntryKey?) throws(BackendError) {
        guard !state.withLock({ $0.hasSynchronized }) else { return }
        guard store.synchronize() else {
            throw BackendError(
                .unavailable, operation: operation, key: key,
                message: "iCloud's key-value store cannot be opened: the app lacks the entitlement "
                    + "com.apple.developer.ubiquity-kvstore-identifier, or the device is out of space")
        }
        state.withLock { $0.hasSynchronized = true }
    }

    /// Changes one key, and saves the local copy.
    func set(
        _ value: [UInt8]?, of name: String, _ operation: BackendError.Operation, _ key: EntryKey?
    ) throws(BackendError) {
        store.set(value, of: name)
        guard store.synchronize() else {
            throw BackendError(
                .other, operation: operation, key: key, disposition: .outcomeUnknown,
                message: "the local copy of iCloud's store could not be saved; free space on the device")
        }
    }

    /// Checks that a value of `byteCount` bytes under `name` fits beside the other values.
    ///
    /// Concurrent writes may exceed the space together. iCloud then reports it, and the next write fails.
    func checkRoom(
        for byteCount: Int, _ name: String, _ operation: BackendError.Operation, _ key: EntryKey?
    ) throws(BackendError) {
        let others = store.keys.filter { $0 != name }
        let used = others.reduce(byteCount) { $0 + (store.value(of: $1)?.byteCount ?? 0) }
        let isOver = state.withLock { state in
            defer { state.isOverQuota = false }
            return state.isOverQuota
        }
        guard !isOver, used <= Self.byteCountLimit, others.count < Self.keyCountLimit else {
            throw BackendError(
                .full, operation: operation, key: key,
                message: "iCloud's space for this app is full: 1 MiB and 1,024 keys; remove other values of the app, "
                    + "or use a server")
        }
    }
}
