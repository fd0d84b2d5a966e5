import SyncCore
import Synchronization

// Counting an account by listing its keys.
extension AccountUsage {
    /// Ensures that the account whose keys begin with `prefix` is counted. Concurrent callers share one count.
    ///
    /// - Parameter isCounted: Returns `true` for keys that count.
    func count(
        _ prefix: String, in store: any KeyValueBackend, now: Int64, isCounted: @Sendable (EntryKey) -> Bool
    ) async throws(BackendError) {
        while true {
            let (isKnown, waiter) = state.withLock { state -> (Bool, Count.Waiting.Waiter?) in
                if let counted = state.usages[prefix]?.counted, now >= counted, now - counted < Self.period {
                    return (true, nil)
                }
                if let running = state.counts[prefix] { return (false, running.waiting.add()) }
                state.counts[prefix] = Count()
                return (false, nil)
            }
            if isKnown { return }
            if let waiter {
                switch await waiter.value() {
                case .success: return
                // The caller that counted was cancelled.
                case .failure(let error) where error.kind == .cancelled: continue
                case .failure(let error): throw error
                }
            }
            do throws(BackendError) {
                // Counting may take long and must not occupy the thread of an event loop.
                let usage = try await withTaskExecutorPreference(LongWork.executor) {
                    () async throws(BackendError) in try await Self.count(prefix, in: store, isCounted)
                }
                install(usage, of: prefix, now: now)
            } catch {
                end(prefix, .failure(error))
                throw error
            }
            return
        }
    }

    private static func count(
        _ prefix: String, in store: any KeyValueBackend, _ isCounted: @Sendable (EntryKey) -> Bool
    ) async throws(BackendError) -> Usage {
        var usage = Usage()
        try await store.forEachPage(under: prefix, limit: 256) { (page) async throws(BackendError) in
            for item in page.items where isCounted(item.key) {
                if let byteCount = item.byteCount {
                    usage.set(byteCount, of: item.key, version: item.version)
                } else if case .found(let entry) = try await store.read(item.key).outcome {
                    usage.set(entry.value.count, of: item.key, version: entry.version)
                }
            }
        }
        return usage
    }

    /// Ends a count.
    private func install(_ counted: Usage, of prefix: String, now: Int64) {
        state.withLock { state in
            var usage = counted
            usage.counted = state.counts[prefix]?.isOutdated == true ? nil : now
            for (key, size) in state.counts[prefix]?.changed ?? [:] {
                if let size { usage.set(size, of: key) } else { remove(key, from: &usage, at: now) }
            }
            for (key, version) in state.counts[prefix]?.noticed ?? [:]
            where state.counts[prefix]?.changed[key] == nil && usage.versions[key] != version {
                // The listing may be older than a change of another server.
                if version == nil { remove(key, from: &usage, at: now) } else { usage.counted = nil }
            }
            for (key, running) in state.running where key.hasPrefix(prefix) && running.size > usage.sizes[key] ?? 0 {
                usage.set(running.size, of: key)
            }
            if let former = state.usages.removeValue(forKey: prefix) {
                state.weight -= former.weight
                usage.addDeletions(of: former)
                usage.removeExpiredDeletions(at: now)
            }
            while state.weight + usage.weight > capacity, let other = state.usages.popFirst() {
                state.weight -= other.value.weight
            }
            state.weight += usage.weight
            state.usages[prefix] = usage
        }
        end(prefix, .success(()))
    }

    private func end(_ prefix: String, _ outcome: Result<Void, BackendError>) {
        _ = state.withLock { $0.counts.removeValue(forKey: prefix)?.waiting.resumeAll(returning: outcome) }
    }
}
