import EntitlementSync
import Entitlements
import HTTPTypes
import SyncCore

/// Decodes stored ledgers and derives answers from them, one at a time.
///
/// A ledger of 4 MiB occupies a processor for half a second. Decoding one at a time leaves the other processors to
/// other requests, and callers that wait occupy no thread. A caller that waited for the same work finds the result in
/// the cache.
actor LedgerDecoder {
    nonisolated let cache = LedgerCache()
    /// The number of decoded server ledgers, and of replays.
    private(set) var serverLedgerCount = 0
    private(set) var replayCount = 0
    /// The number of decoded ledgers.
    private(set) var ledgerCount = 0

    /// The ledger in `entry`, which a server has written.
    func ledger(in entry: Entry, under key: EntryKey) throws(BackendError) -> Ledger {
        if let known = cache.ledger(of: key, version: entry.version) { return known }
        ledgerCount += 1
        let ledger = try LedgerRules.stored(entry, key)
        cache.insert(ledger, version: entry.version, of: key)
        return ledger
    }

    /// The decoded form of `entry`.
    ///
    /// - Parameter charge: Receives the number of decoded bytes, unless the cache has the version.
    nonisolated func serverLedger(
        in entry: Entry, under key: EntryKey, charge: @Sendable (Int) -> Void
    ) async throws(BackendError) -> DecodedServerLedger {
        if let known = cache.serverLedger(of: key), known.version == entry.version { return known }
        return try await withTaskExecutorPreference(LongWork.executor) { () async throws(BackendError) in
            try await decode(entry, key, charge)
        }
    }

    private func decode(
        _ entry: Entry, _ key: EntryKey, _ charge: (Int) -> Void
    ) throws(BackendError) -> DecodedServerLedger {
        if let known = cache.serverLedger(of: key), known.version == entry.version { return known }
        charge(entry.value.count)
        serverLedgerCount += 1
        let serverLedger = DecodedServerLedger(try LedgerRules.stored(entry, key), version: entry.version)
        cache.insert(serverLedger, of: key)
        return serverLedger
    }

    /// The entitlements of an account.
    ///
    /// - Parameters:
    ///   - environment: The environment whose facts count.
    ///   - entries: The account's ledgers.
    ///   - instant: The instant to answer for. It is read when the work begins. So callers that waited for the same
    ///     work share one result.
    ///   - charge: Receives the number of bytes to replay, unless the cache has the answer.
    /// - Throws: The error of `charge`, ``RequestError`` for an erased account, `BackendError.Kind.damaged`.
    nonisolated func entitlements(
        of caller: AccountCaller, catalog: Catalog, environment: EnvironmentID, _ entries: LedgerEntries,
        at instant: @Sendable () -> Timestamp, charge: @Sendable (Int) throws -> Void
    ) async throws -> EntitlementsResponse.Reading {
        if let known = answer(of: caller.keys, environment, entries, at: instant()) { return known }
        // Charges before it waits, because an account that exceeds its share must not queue up here.
        try charge(entries.byteCount)
        return try await withTaskExecutorPreference(LongWork.executor) {
            try await replay(caller, catalog, environment, entries, at: instant())
        }
    }

    private nonisolated func answer(
        of keys: LedgerKeys, _ environment: EnvironmentID, _ entries: LedgerEntries, at instant: Timestamp
    ) -> EntitlementsResponse.Reading? {
        guard let known = cache.answer(of: keys.ledger, in: environment), known.ledger == entries.ledger?.version,
            known.serverLedger == entries.serverLedger?.version, known.holds(at: instant)
        else { return nil }
        return known.reading(at: instant)
    }

    private func replay(
        _ caller: AccountCaller, _ catalog: Catalog, _ environment: EnvironmentID, _ entries: LedgerEntries,
        at instant: Timestamp
    ) throws -> EntitlementsResponse.Reading {
        let keys = caller.keys
        if let known = answer(of: keys, environment, entries, at: instant) { return known }
        replayCount += 1
        let account = try entries.ledger.map { try LedgerRules.stored($0, keys.ledger) } ?? Ledger()
        // The marker of an erasure exists before the account's record states the erasure.
        guard !account.isErased else { throw RequestError(.gone, "the account was erased") }
        let server = try entries.serverLedger.map { try LedgerRules.stored($0, keys.serverLedger) } ?? Ledger()
        let answer = EntitlementsResponse(
            Replay(Facts(account: account, server: server), catalog: catalog, environment: environment), at: instant,
            account: "\(caller.account)", ledger: entries.ledger?.version,
            serverLedger: entries.serverLedger?.version)
        cache.insert(answer, of: keys.ledger, in: environment)
        return answer.reading(at: instant)
    }
}
