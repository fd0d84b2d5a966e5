import EntitlementSync
import Entitlements
import SyncCore
import Synchronization

/// A remote with a server ledger for Alice: it answers evidence, and reports the version of the ledger with each read.
final class EvidenceServer: ForwardingBackend, EntitlementServer {
    let store = MemoryBackend()
    var base: any KeyValueBackend { store }
    private let keys: LedgerKeys
    private let catalog: Catalog
    private let state = Mutex(State())
    /// Runs after evidence has arrived.
    let beforeAnswer = OneTimeAction()

    struct State {
        var submissions: [(evidence: [[UInt8]], isRestore: Bool)] = []
        var refusal: EvidenceAnswer?
        var failure: BackendError?
        /// The transactions that belong to other accounts.
        var others: Set<TransactionID> = []
        var isServerLedgerUnreadable = false
        /// True if writes of clients are refused because the disk is full.
        var isFull = false
        /// The facts of each piece of evidence.
        var facts: [[UInt8]: [Fact]] = [:]
    }

    init(_ account: Account, catalog: Catalog) throws {
        keys = try LedgerKeys(account)
        self.catalog = catalog
    }

    func update(_ change: (inout sending State) -> Void) { state.withLock { change(&$0) } }
    var submissions: [(evidence: [[UInt8]], isRestore: Bool)] { state.withLock { $0.submissions } }

    func set(_ policy: TrustPolicy) async throws {
        try await change { _ = $0.set(policy, at: Timestamp(milliseconds: 1)) }
    }

    private func change(_ change: (inout ServerLedger) -> Void) async throws(BackendError) {
        var server = ServerLedger()
        var precondition = Precondition.absent
        if case .found(let entry) = try await store.read(keys.serverLedger).outcome {
            do { server = ServerLedger(try LedgerDocument(decoding: entry.value).ledger) } catch {
                throw BackendError(.damaged, message: "\(error)")
            }
            precondition = .matches(entry.version)
        }
        change(&server)
        let bytes = LedgerDocument(ledger: server.ledger).encoded()
        _ = try await store.write(bytes, to: keys.serverLedger, if: precondition)
    }

    func submit(
        _ evidence: [[UInt8]], account: Account, isRestore: Bool
    ) async throws(BackendError) -> [EvidenceAnswer] {
        await beforeAnswer.run()
        let state = self.state.withLock { state in
            state.submissions.append((evidence, isRestore))
            return state
        }
        if let failure = state.failure { throw failure }
        if let refusal = state.refusal { return evidence.map { _ in refusal } }
        var answers: [EvidenceAnswer] = []
        for data in evidence {
            let facts = state.facts[data] ?? []
            let refused = facts.compactMap(\.transaction).filter { state.others.contains($0.id) }
            let own = facts.filter { fact in fact.transaction.map { !state.others.contains($0.id) } ?? true }
            try await change { _ = $0.add(own, catalog: catalog, at: Timestamp(milliseconds: 1)) }
            answers.append(refused.isEmpty ? .recorded : .recordedInPart(ownedByAnother: Array(Set(refused))))
        }
        return answers
    }

    func grant(device: String, environment: EnvironmentID) async throws(BackendError) -> [UInt8] {
        throw BackendError(.unsupported, operation: .read, message: "no grants")
    }

    var label: String { "evidence server" }

    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        if key == keys.serverLedger, state.withLock({ $0.isServerLedgerUnreadable }) {
            throw BackendError(.unavailable, operation: .read, key: key, message: "offline")
        }
        let outcome = try await store.read(key, unless: knownVersion).outcome
        return Answer(outcome, relatedVersion: try await serverLedgerVersion(beside: key))
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        guard !state.withLock({ $0.isFull }) else {
            throw BackendError(.full, operation: .write, key: key, message: "the disk is full")
        }
        let outcome = try await store.write(value, to: key, if: precondition).outcome
        return Answer(outcome, relatedVersion: try await serverLedgerVersion(beside: key))
    }

    private func serverLedgerVersion(beside key: EntryKey) async throws(BackendError) -> EntryVersion? {
        guard key == keys.ledger, case .found(let entry) = try await store.read(keys.serverLedger).outcome else {
            return nil
        }
        return entry.version
    }
}
