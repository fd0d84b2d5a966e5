import EntitlementSync
import SyncCore

/// Finishes what interrupted requests and crashed servers left behind, one to two ``period``s later.
///
/// - Repeats each erasure once, and finishes interrupted ones. Another server may believe the token of an erased
///   account for ``FeedFreshness/trust``, and may crash after a write and before it sees the erasure
///   (``ErasureGuard``). The repetition deletes what it left behind.
/// - Finishes interrupted transfers of purchases, see ``Owners/endTransfer(_:)``.
///
/// The entries to sweep are in the store, under `server/erasures/NAME/INCARNATION` and `server/transfers/LINE`, so they
/// survive the crash of any server. Every server sweeps them; the steps have the same result however often they are
/// done.
///
/// The rounds do not depend on server clocks: a server sweeps an entry that it has seen in two consecutive rounds.
struct Sweeper: Sendable {
    /// The pause between two rounds.
    static let period = Duration.seconds(60)
    /// The number of entries that are listed at once.
    private static let pageCount = 256

    let erasure: Erasure
    let clockGuard: ClockRollbackGuard
    let host: HostServices
    /// Called with the name of an account whose erasure was repeated.
    let onErasure: @Sendable (String) -> Void

    /// Sweeps until the task is cancelled.
    func run() async {
        var seen: [EntryKey: EntryVersion] = [:]
        while (try? await host.sleep(for: Self.period)) != nil { seen = await sweep(seen) }
    }

    /// Sweeps the entries that were in `seen`, and returns all others, also those that failed.
    func sweep(_ seen: [EntryKey: EntryVersion]) async -> [EntryKey: EntryVersion] {
        var rest: [EntryKey: EntryVersion] = [:]
        // A wrong clock would date the decisions of a transfer.
        if !clockGuard.isWrong {
            await sweep(Owners.transfersPrefix, seen, &rest) { (item) async throws(BackendError) in
                try await erasure.owners.endTransfer(item)
            }
        }
        await sweep(Erasure.prefix, seen, &rest) { (item) async throws(BackendError) in
            try await repeatErasure(item)
        }
        return rest
    }

    /// Calls `body` for the entries under `prefix` that were in `seen`, and adds all others to `rest`.
    private func sweep(
        _ prefix: String, _ seen: [EntryKey: EntryVersion], _ rest: inout [EntryKey: EntryVersion],
        _ body: (KeyPage.Item) async throws(BackendError) -> Void
    ) async {
        do throws(BackendError) {
            try await erasure.store.forEachPage(under: prefix, limit: Self.pageCount) { page in
                for item in page.items {
                    if seen[item.key] == item.version, await isDone(item, body) { continue }
                    rest[item.key] = item.version
                }
            }
        } catch {
            report(error)
        }
    }

    private func isDone(_ item: KeyPage.Item, _ body: (KeyPage.Item) async throws(BackendError) -> Void) async -> Bool {
        do throws(BackendError) {
            try await body(item)
            return true
        } catch {
            report(error)
            return false
        }
    }

    private func report(_ error: BackendError) {
        if !Task.isCancelled { erasure.onError(error) }
    }

    private func repeatErasure(_ item: KeyPage.Item) async throws(BackendError) {
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
