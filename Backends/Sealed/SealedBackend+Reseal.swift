#if Sealed
public import SyncCore

extension SealedBackend {
    /// Asks for the keys once more. What is written from then on is sealed with the present one; what this object began
    /// to write before may still be sealed with the one that it knew.
    ///
    /// - Throws: `unavailable` when the keys cannot be had; the ones that were known stay in use.
    public func reloadKeys() async throws(BackendError) {
        try await keyring.askAgain()
    }

    /// How often everything is looked at before somebody else must be writing with an older key.
    private static let maximumPasses = 20

    /// Seals everything anew that an older key sealed, so that it can be given up.
    ///
    /// To change a key without losing anything:
    ///
    /// 1. Let the key store answer the new key as the current one and the old among the previous ones.
    /// 2. **Every** writer must know the new key: restart each process or call ``reloadKeys()`` on each object, and
    ///    await the writes that had begun before. A writer that still knows the old key alone goes on sealing with it,
    ///    and nobody else can see that it will.
    /// 3. Call this. It asks for the keys itself, and looks at all values again until it has found none that another
    ///    key sealed, so that what was written behind its back meanwhile is found, too.
    /// 4. Only then give the old key up. What a writer that was forgotten in step 2 seals after that can be opened by
    ///    nobody without it: keep the old key until you are sure.
    ///
    /// Others may go on reading and writing meanwhile. Interrupted, it is simply called again.
    ///
    /// - Returns: how many values were sealed anew.
    /// - Throws: `unsupported` where the store has no compare-and-swap: a value that somebody writes meanwhile would be
    ///   lost. `busy` when somebody goes on writing with an older key, after 20 passes. What cannot be opened ends
    ///   it with that error. What was done stays done.
    @discardableResult
    public func reseal() async throws(BackendError) -> Int {
        guard capabilities.compareAndSwap else {
            throw BackendError(
                .unsupported, operation: .write,
                message: "\(label) cannot write conditionally: copy it to a new store instead")
        }
        var count = 0
        for _ in 0..<Self.maximumPasses {
            // Each time: the key may have changed again since.
            let found = try await resealAll(with: try await keyring.askAgain().current)
            if found == 0 { return count }
            count += found
        }
        throw BackendError(
            .busy, operation: .write,
            message: "\(label): somebody goes on writing with an older key; let all writers load the new one first")
    }

    /// Looks at all values once.
    private func resealAll(with current: SealingKey) async throws(BackendError) -> Int {
        var (count, cursor) = (0, EntryKey?.none)
        repeat {
            let page = try await wrapped.list(prefix: "", after: cursor, limit: 256).outcome
            for item in page.items where try await reseal(item.key, with: current) { count += 1 }
            cursor = page.next
        } while cursor != nil
        return count
    }

    private func reseal(_ key: EntryKey, with current: SealingKey) async throws(BackendError) -> Bool {
        while true {
            guard case .found(let entry) = try await wrapped.read(key).outcome,
                !SealedValue.isSealed(entry.value, with: current)
            else { return false }
            let value = try await open(entry.value, under: key, during: .read)
            let sealed = try seal(value, under: key, with: current)
            switch try await wrapped.write(sealed, to: key, if: .matches(entry.version)).outcome {
            case .written: return true
            case .conflict, .deleted: continue
            }
        }
    }
}
#endif
