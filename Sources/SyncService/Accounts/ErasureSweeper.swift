import EntitlementSync
import SyncCore

/// Repeats each erasure once, one to two ``period``s after it, and finishes erasures that a crash interrupted.
///
/// Another server may believe the token of an erased account for ``FeedFreshness/trust``, and may crash after a write
/// and before it sees the erasure (``ErasureGuard``). The repetition deletes what it left behind. The erasures to
/// repeat are in the store, under `server/erasures/NAME/INCARNATION`, so they survive the crash of any server. Every
/// server repeats them; the steps have the same result however often they are done.
///
/// Does not depend on server clocks: a server repeats an erasure that it has seen in two consecutive rounds.
struct ErasureSweeper: Sendable {
    /// The pause between two rounds.
    static let period = Duration.seconds(60)
    /// The number of erasures that are listed at once.
    private static let pageCount = 256

    let erasure: Erasure
    let host: HostServices
    /// Called with the name of an account whose erasure was repeated.
    let onErasure: @Sendable (String) -> Void

    /// Repeats erasures until the task is cancelled.
    func run() async {
        var seen: [EntryKey: EntryVersion] = [:]
        while (try? await host.sleep(for: Self.period)) != nil { seen = await sweep(seen) }
    }

    /// Repeats the erasures that were in `seen`, and returns all others, also those that failed.
    func sweep(_ seen: [EntryKey: EntryVersion]) async -> [EntryKey: EntryVersion] {
        var rest: [EntryKey: EntryVersion] = [:]
        do throws(BackendError) {
            try await erasure.store.forEachPage(under: Erasure.prefix, limit: Self.pageCount) { page in
                for item in page.items where await !isSwept(item, seen) { rest[item.key] = item.version }
            }
        } catch {
            if !Task.isCancelled { erasure.onError(error) }
        }
        return rest
    }

    /// Repeats an erasure if it was in `seen`. Returns `true` on success.
    private func isSwept(_ item: KeyPage.Item, _ seen: [EntryKey: EntryVersion]) async -> Bool {
        guard seen[item.key] == item.version else { return false }
        do throws(BackendError) {
            try await sweep(item)
            return true
        } catch {
            if !Task.isCancelled { erasure.onError(error) }
            return false
        }
    }

    private func sweep(_ item: KeyPage.Item) async throws(BackendError) {
        let records = erasure.records
        guard let held = try await records.read(item.key, as: AccountIdentity.self), held.version == item.version else {
            return
        }
        if let account = held.value.account, let name = account.name,
            try await records.account(name)?.value.isErased(account.incarnation) == true
        {
            try await erasure.finish(account)
            onErasure(name)
        }
        _ = try await records.replace(item.key, with: AccountIdentity?.none, if: item.version)
    }
}
