import EntitlementSync
import SyncCore

/// Repeats each erasure once, one to two ``period``s after it, and finishes erasures that a crash interrupted.
///
/// Another server may believe the token of an erased account for ``FeedFreshness/trust``, and may crash after a write
/// and before it sees the erasure (``ErasureGuard``). The repetition deletes what it left behind. The erasures to
/// repeat are in the store, under `server/erasures/NAME/INCARNATION`, so they survive the crash of any server. Every
/// server repeats them; the steps have the same result however often they are done.
///
/// No clock of a server decides: a server repeats an erasure that it has seen in two consecutive rounds.
struct ErasureSweeper: Sendable {
    /// The pause between two rounds.
    static let period = Duration.seconds(60)
    /// The number of erasures in one round. Others follow in later rounds.
    private static let limit = 256

    let erasure: Erasure
    let host: HostServices
    /// Called with the name of an account whose erasure was repeated.
    let onErasure: @Sendable (String) -> Void

    /// Repeats erasures until the task is cancelled.
    func run() async {
        var seen: [EntryKey: EntryVersion] = [:]
        while (try? await host.sleep(for: Self.period)) != nil { seen = await sweep(seen) }
    }

    /// Repeats the erasures that were in `seen`, and returns all others.
    func sweep(_ seen: [EntryKey: EntryVersion]) async -> [EntryKey: EntryVersion] {
        var rest: [EntryKey: EntryVersion] = [:]
        do throws(BackendError) {
            let page = try await erasure.store.list(prefix: Erasure.prefix, after: nil, limit: Self.limit).outcome
            for item in page.items {
                rest[item.key] = item.version
                guard seen[item.key] == item.version else { continue }
                try await sweep(item)
                rest[item.key] = nil
            }
        } catch {
            guard !Task.isCancelled else { return rest }
            erasure.onError(error)
        }
        return rest
    }

    private func sweep(_ item: KeyPage.Item) async throws(BackendError) {
        let records = erasure.records
        guard let held = try await records.read(item.key, as: AccountIdentity.self), held.version == item.version else {
            return
        }
        if let account = held.value.account, let name = account.name,
            try await records.read(try AccountRecord.key(of: name), as: AccountRecord.self)?.value
                .isErased(account.incarnation) == true
        {
            try await erasure.finish(account)
            onErasure(name)
        }
        _ = try await records.replace(item.key, with: AccountIdentity?.none, if: item.version)
    }
}
