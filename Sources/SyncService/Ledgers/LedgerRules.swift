import EntitlementSync
import Entitlements
import SyncCore

/// An account's part of the store, where its ledger only grows and only the server decides.
///
/// What a client sends is stored as it came or not at all: a server that edited it would leave the client with a
/// version of bytes that it never saw. What there is to say about it goes into the decisions, a ledger beside it.
///
/// One object for all requests of a caller.
final class LedgerRules: ReadingAtOnce {
    let store: any KeyValueBackend
    /// The same, where it answers at once.
    let storeAtOnce: (any ReadingAtOnce)?
    let account: Account
    let keys: LedgerKeys
    let owners: TransactionOwners
    let witness: ClockWitness
    let host: HostServices
    let limits = LedgerLimits.standard

    /// How far ahead of the server's clock a purchase may be dated, in milliseconds; a later one counts as of the
    /// server's time.
    static let tolerance: Int64 = 300_000

    init(
        _ store: any KeyValueBackend, atOnce storeAtOnce: (any ReadingAtOnce)?, _ account: Account, _ keys: LedgerKeys,
        _ owners: TransactionOwners, _ witness: ClockWitness, _ host: HostServices
    ) {
        (self.store, self.account, self.owners, self.witness, self.host) = (store, account, owners, witness, host)
        (self.storeAtOnce, self.keys) = (storeAtOnce, keys)
    }

    var capabilities: Capabilities { store.capabilities }
    var label: String { store.label }

    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        guard key == keys.ledger else { return try await store.read(key, unless: knownVersion) }
        // Both by one call: what was decided about a ledger is known with it.
        let results = try await store.read([
            ReadRequest(key, unless: knownVersion), ReadRequest(keys.decisions),
        ]).outcome
        guard results.count == 2 else { throw BackendError(.other, message: "the store answered half of a question") }
        guard case .found(let decided) = try results[1].get() else { return Answer(try results[0].get()) }
        return Answer(try results[0].get(), companion: try await reconsider(decided))
    }

    /// `nil` for a ledger about which anything was decided.
    func readAtOnce(_ key: EntryKey, unless knownVersion: EntryVersion?) -> ReadOutcome? {
        guard let store = storeAtOnce else { return nil }
        guard key == keys.ledger else { return store.readAtOnce(key, unless: knownVersion) }
        let outcome = store.readAtOnce(key, unless: knownVersion)
        // After the ledger: decisions about it are there before it is.
        guard case .absent = store.readAtOnce(keys.decisions, unless: nil) else { return nil }
        return outcome
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        guard key == keys.ledger else { return try await store.write(value, to: key, if: precondition) }
        let results = try await store.read([ReadRequest(key), ReadRequest(keys.decisions)]).outcome
        guard results.count == 2 else { throw BackendError(.other, message: "the store answered half of a question") }
        let stored: Entry? = if case .found(let entry) = try results[0].get() { entry } else { nil }
        let decided: Entry? = if case .found(let entry) = try results[1].get() { entry } else { nil }
        guard precondition.holds(for: stored?.version) else {
            return Answer(.conflict(stored), companion: decided?.version)
        }
        let sent = try Self.ledger(of: value, key)
        let known = try stored.map { (entry) throws(BackendError) in try Self.stored(entry, key) } ?? Ledger()
        try check(sent, key)
        // Nothing can be taken back, and nothing joins an erased ledger: whoever lacks something gets it with the
        // answer, merges and comes again.
        guard !Ledger.join(known, sent).rightLacks else {
            return Answer(.conflict(stored), companion: decided?.version)
        }
        let companion = try await decide(about: sent, beyond: known, decided)
        let condition = stored.map { Precondition.matches($0.version) } ?? .absent
        let outcome = try await store.write(value, to: key, if: condition).outcome
        return Answer(outcome, companion: companion)
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        guard key != keys.ledger else {
            throw BackendError(
                .refused, operation: .delete, key: key,
                message: "a ledger is never deleted; erase the account (/v1/accounts/self/erasure)")
        }
        return try await store.delete(key, if: precondition)
    }

    /// Together where no ledger is among them.
    func read(_ requests: [ReadRequest]) async throws(BackendError) -> Answer<[Result<ReadOutcome, BackendError>]> {
        if !requests.contains(where: { $0.key == keys.ledger }) { return try await store.read(requests) }
        var results: [Result<ReadOutcome, BackendError>] = []
        for request in requests {
            do throws(BackendError) {
                results.append(.success(try await read(request.key, unless: request.knownVersion).outcome))
            } catch {
                results.append(.failure(error))
            }
        }
        return Answer(results)
    }

    /// Together where no ledger is among them.
    func write(_ requests: [WriteRequest]) async throws(BackendError) -> Answer<[Result<WriteOutcome, BackendError>]> {
        if !requests.contains(where: { $0.key == keys.ledger }) { return try await store.write(requests) }
        var results: [Result<WriteOutcome, BackendError>] = []
        for request in requests {
            do throws(BackendError) {
                let answer =
                    if let value = request.value {
                        try await write(value, to: request.key, if: request.precondition)
                    } else {
                        try await delete(request.key, if: request.precondition)
                    }
                results.append(.success(answer.outcome))
            } catch {
                results.append(.failure(error))
            }
        }
        return Answer(results)
    }

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        try await store.list(prefix: prefix, after: cursor, limit: limit)
    }

    func changes(since cursor: ChangeCursor?, limit: Int) async throws(BackendError) -> Answer<ChangePage> {
        try await store.changes(since: cursor, limit: limit)
    }

    func signals() -> AsyncStream<Void> { store.signals() }
}

extension LedgerRules {
    private static func ledger(of value: [UInt8], _ key: EntryKey) throws(BackendError) -> Ledger {
        let document: LedgerDocument
        do throws(LedgerFormatError) { document = try LedgerDocument(decoding: value) } catch {
            throw refused(key, "this is no ledger that this server reads: \(error)")
        }
        guard document.localSection.isEmpty else {
            throw refused(key, "the local section of a ledger is not for a server; leave it out")
        }
        return document.ledger
    }

    static func stored(_ entry: Entry, _ key: EntryKey) throws(BackendError) -> Ledger {
        do throws(LedgerFormatError) { return try LedgerDocument(decoding: entry.value).ledger } catch {
            throw BackendError(.damaged, operation: .read, key: key, message: "the stored ledger: \(error)")
        }
    }

    private func check(_ ledger: Ledger, _ key: EntryKey) throws(BackendError) {
        guard !ledger.isErased else {
            throw Self.refused(key, "only the server erases a ledger (/v1/accounts/self/erasure)")
        }
        guard ledger.count <= limits.recordCount, ledger.byteCount <= limits.byteCount else {
            throw BackendError(
                .tooLarge, operation: .write, key: key,
                message: "a ledger has at most \(limits.recordCount) records and \(limits.byteCount) bytes")
        }
        guard !ledger.hasAcceptance else {
            throw Self.refused(key, "only the server states what it accepts; such a record does not belong here")
        }
    }

    private static func refused(_ key: EntryKey, _ message: String) -> BackendError {
        BackendError(.refused, operation: .write, key: key, message: message)
    }
}
