#if Sealed
public import SyncCore

extension SealedBackend {
    /// Loads the keys again. Later writes are sealed with the new current key. Writes that started before may still be
    /// sealed with the old one.
    ///
    /// - Throws: `unavailable` if the keys cannot be loaded. The known keys stay in use.
    public func reloadKeys() async throws(BackendError) {
        try await keyring.askAgain()
    }

    /// The number of passes after which another writer must be using an older key.
    private static let maximumPasses = 20

    /// Seals all values with the current key, so that older keys can be deleted.
    ///
    /// To rotate a key without losing data:
    ///
    /// 1. Make the key store return the new key as the current one and the old key among the previous ones.
    /// 2. Make sure that **every** writer has the new key: restart each process or call ``reloadKeys()`` on each
    /// object, and await the writes that started before. A writer that has only the old key keeps sealing with it, and
    /// no other process can detect that.
    /// 3. Call this method. It loads the keys itself and repeats its pass over all values until every value is sealed
    /// with the current key, which includes values that were written in the meantime.
    /// 4. Only then delete the old key. A value that a forgotten writer seals after that cannot be opened without it,
    /// so keep the old key until you are sure.
    ///
    /// Other clients may read and write during the call. After an interruption, call it again.
    ///
    /// - Returns: the number of values that were sealed again.
    /// - Throws: `unsupported` if the store has no compare-and-swap, because a concurrent write would be lost. `busy`
    ///   if another writer still uses an older key after 20 passes. The error of the first value that cannot be opened.
    ///   Values that were already sealed again stay so.
    @discardableResult
    public func reseal() async throws(BackendError) -> Int {
        guard capabilities.compareAndSwap else {
            throw BackendError(
                .unsupported, operation: .write,
                message: "\(label) cannot write conditionally; copy the values to a new store instead")
        }
        var count = 0
        for _ in 0..<Self.maximumPasses {
            // Loaded in each pass, because the key may have changed again.
            let found = try await resealAll(with: try await keyring.askAgain().current)
            if found == 0 { return count }
            count += found
        }
        throw BackendError(
            .busy, operation: .write,
            message: "\(label): another writer still uses an older key; load the new key in all writers first")
    }

    /// Passes over all values once.
    private func resealAll(with current: SealingKey) async throws(BackendError) -> Int {
        var count = 0
        try await base.forEachPage(limit: 256) { (page) async throws(BackendError) in
            for item in page.items where try await reseal(item.key, with: current) { count += 1 }
        }
        return count
    }

    private func reseal(_ key: EntryKey, with current: SealingKey) async throws(BackendError) -> Bool {
        while true {
            guard case .found(let entry) = try await base.read(key).outcome,
                !SealedValue.isSealed(entry.value, with: current)
            else { return false }
            let value = try await open(entry.value, under: key, during: .read)
            let sealed = try seal(value, under: key, with: current)
            switch try await base.write(sealed, to: key, if: .matches(entry.version)).outcome {
            case .written: return true
            case .conflict, .deleted: continue
            }
        }
    }
}
#endif
