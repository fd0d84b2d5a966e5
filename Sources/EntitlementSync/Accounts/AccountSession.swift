import Entitlements
import SyncCore
import Synchronization

/// The documents of one account on this device. They are read together, and decoded again only after they have changed.
///
/// A call takes the current session when it starts and uses it to the end, so that it never mixes two accounts.
final class AccountSession: Sendable {
    /// The parts of a store that its sessions share.
    struct Store: Sendable {
        let local: any KeyValueBackend
        /// The label of the remote on a single line; `nil` without a remote.
        let remoteLabel: String?
        let host: HostServices
        let catalog: Catalog
        let environment: EnvironmentID
        let clock: TrustedClock
        let turns: Turns
    }

    let account: Account
    let keys: LedgerKeys
    private let store: Store
    private let entries: LedgerEntries
    private let dependsOnRemote: Bool
    private let cache = Mutex<LocalState?>(nil)

    /// Creates the session of `account`. Reads nothing.
    init(_ account: Account, in store: Store) throws(EntitlementError) {
        self.account = account
        self.store = store
        do { keys = try LedgerKeys(account) } catch { throw EntitlementError(error) }
        entries = LedgerEntries(backend: store.local)
        let rules = store.catalog.policy.rules
        dependsOnRemote = store.remoteLabel != nil && (rules.expiry.dependsOnRemote || rules.flags.dependsOnRemote)
    }

    /// The replay of the last state. Used to compute how long to wait.
    var lastReplay: Replay? { cache.withLock { $0?.replay } }

    /// Reads the local store in one batch, and gives the clock the marks that it holds.
    ///
    /// Asks the store each time, because another process may have written to it. If nothing has changed, the answer
    /// carries no values, and nothing is decoded.
    ///
    /// The order of the reads matters in a store that answers a batch one by one. An adoption writes its claim to the
    /// account ledger before it empties the device ledger, and renews the replica id last. The device ledger is read
    /// before the account ledger, so that no writer updates it without having seen the claim; the replica id is read
    /// last, so that no fact that stays anonymous gets the id that moved to the account.
    func read() async throws(EntitlementError) -> LocalState {
        let turn = store.turns.next()
        let cached = cache.withLock { $0 }
        var requests = [
            ReadRequest(keys.device, unless: cached?.device.version),
            ReadRequest(keys.ledger, unless: cached?.account.version),
        ]
        if dependsOnRemote { requests.append(ReadRequest(keys.remote, unless: cached?.remote?.version)) }
        // The anonymous account has no server ledger, and is never synced.
        let mayHaveSynced = store.remoteLabel != nil && !account.isAnonymous && cached?.hasSynced != true
        if !account.isAnonymous {
            requests.append(ReadRequest(keys.knownDecisions, unless: cached?.decisions.version))
            if mayHaveSynced { requests.append(ReadRequest(keys.knownRemotes)) }
        }
        requests.append(ReadRequest(keys.replica, unless: cached?.replica?.version))
        if let marks = store.clock.readRequest { requests.append(marks) }

        var results = try await outcomes(of: requests)
        let device = try entries.decode(&results, keys.device, cached: cached?.device)
        let ledger = try entries.decode(&results, keys.ledger, cached: cached?.account)
        let remote = dependsOnRemote ? try entries.decode(&results, keys.remote, cached: cached?.remote) : nil
        let decisions =
            account.isAnonymous
            ? VersionedLedger() : try entries.decode(&results, keys.knownDecisions, cached: cached?.decisions)
        let hasSynced = mayHaveSynced ? try knowsRemote(results.removeFirst()) : true
        let replica = try decode(results.removeFirst(), cached: cached?.replica)
        if let marks = results.first { store.clock.take(marks) }

        if var cached, cached.account.version == ledger.version, cached.device.version == device.version,
            cached.remote?.version == remote?.version, cached.decisions.version == decisions.version
        {
            (cached.replica, cached.hasSynced) = (replica, hasSynced)
            cached.turn = Turn(read: turn, written: turn)
            return remember(cached)
        }
        return remember(
            LocalState(
                account: ledger, device: device, remote: remote, decisions: decisions, replica: replica,
                hasSynced: hasSynced, turn: Turn(read: turn, written: turn), isAnonymous: account.isAnonymous,
                after: cached?.replay ?? emptyReplay))
    }

    private var emptyReplay: Replay {
        Replay(Facts(account: Ledger()), catalog: store.catalog, environment: store.environment)
    }

    private func remember(_ state: LocalState) -> LocalState {
        cache.withLock { $0 = state }
        return state
    }

    private func outcomes(
        of requests: [ReadRequest]
    ) async throws(EntitlementError) -> ArraySlice<Result<ReadOutcome, BackendError>> {
        let results: [Result<ReadOutcome, BackendError>]
        do { results = try await store.local.read(requests).outcome } catch { throw EntitlementError(error) }
        guard results.count == requests.count else {
            throw EntitlementError(
                .storage, "local store: it answered \(results.count) of \(requests.count) reads of one batch")
        }
        return results[...]
    }

    /// Returns `state` with another ledger, which was written after the state was read.
    private func state(_ state: LocalState, _ target: DeviceLedgers.Target, _ ledger: VersionedLedger) -> LocalState {
        remember(
            LocalState(
                account: target == .account ? ledger : state.account,
                device: target == .device ? ledger : state.device,
                remote: state.remote, decisions: state.decisions, replica: state.replica, hasSynced: state.hasSynced,
                turn: Turn(read: state.turn.read, written: store.turns.next()), isAnonymous: account.isAnonymous,
                after: state.replay))
    }

    /// Returns `state` after a sync that was based on it and changed nothing else than the account ledger.
    func state(_ state: LocalState, synced ledger: VersionedLedger) -> LocalState {
        ledger.version == state.account.version ? state : self.state(state, .account, ledger)
    }
}

// Recording.
extension AccountSession {
    /// The result of adding facts.
    struct Addition: Sendable {
        /// The facts that were new.
        var facts: [Fact]
        /// The state after the addition.
        var state: LocalState
    }

    /// Adds the facts that `decide` returns for the current state and the replica that writes them, durably.
    ///
    /// - Parameters:
    ///   - initial: The state to begin with. If another writer has changed the ledger since, or the outcome of the
    ///     write is unknown, the store is read again, and `decide` is called again.
    ///   - decide: Returns the facts to add.
    func append(
        to target: DeviceLedgers.Target, startingWith initial: LocalState,
        _ decide: (LocalState, ReplicaID) throws(EntitlementError) -> [Fact]
    ) async throws(EntitlementError) -> Addition {
        var state = initial
        /// The facts of a write whose outcome is unknown.
        var unsettled: (facts: [Fact], replica: ReplicaID?)?
        for attempt in 0..<LedgerEntries.maximumAttempts {
            if attempt > 0 { state = try await read() }
            if state.claim != nil {
                try await Adoption(backend: store.local, host: store.host).settle()
                continue
            }
            guard !state.account.ledger.isErased else { throw .erasedHere }
            if let unsettled, unsettled.replica != state.replica?.id {
                // An adoption has happened since the last attempt and may have moved the facts. This device cannot
                // find out.
                throw entries.busy(keys.ledger, isUnknown: true)
            }
            let held = state[target]
            let facts: [Fact]
            let document: LedgerDocument
            if let unsettled, !Ledger.join(held.ledger, Ledger(unsettled.facts.map(\.record))).leftLacks {
                // The facts are visible, which does not make them durable. Write them again until a write succeeds.
                facts = unsettled.facts
                document = held.document
            } else {
                facts = try decide(state, state.replica?.id ?? .placeholder)
                guard let ledger = try state.ledger(target, with: facts) else {
                    return Addition(facts: [], state: state)
                }
                // Created only if there is anything to write.
                guard state.replica != nil else {
                    try await createReplica()
                    continue
                }
                document = LedgerDocument(ledger: ledger, localSection: held.document.localSection)
            }
            let key = target == .account ? keys.ledger : keys.device
            switch try await entries.write(document, to: key, if: held.precondition) {
            case .happened(let version):
                let written = VersionedLedger(version: version, document: document)
                return Addition(facts: facts, state: self.state(state, target, written))
            case .conflicted: break
            case .unknown: unsettled = (facts, state.replica?.id)
            }
        }
        throw entries.busy(keys.ledger, isUnknown: unsettled != nil)
    }

    /// Removes answered evidence from the device ledger. Evidence that was replaced meanwhile stays.
    func removeEvidence(_ records: [Record]) async throws(EntitlementError) {
        let removed = Set(records)
        try await entries.update(keys.device) { held in
            let all = held.ledger.records
            let rest = all.filter { !removed.contains($0) }
            guard !held.ledger.isErased, rest.count < all.count else { return nil }
            return LedgerDocument(ledger: Ledger(rest), localSection: held.localSection)
        }
    }

    /// Stores a copy of the server ledger.
    func note(_ decisions: Decisions) async throws(EntitlementError) {
        guard !account.isAnonymous else { return }
        let document = LedgerDocument(ledger: decisions.ledger, localSection: decisions.source)
        try await entries.update(keys.knownDecisions) { held in
            // The copy was erased with the account, permanently.
            held.ledger.isErased || held == document ? nil : document
        }
    }

    /// Stores the remote's ledger of a sync that was based on `state`, if a rule depends on it.
    ///
    /// - Returns: `true` if the ledger had to be stored.
    func note(remote ledger: Ledger, after state: LocalState) async throws(EntitlementError) -> Bool {
        guard dependsOnRemote, state.remote?.ledger != ledger else { return false }
        try await entries.replace(keys.remote) { $0.isErased ? $0 : ledger }
        return true
    }
}

// The id under which this store writes.
extension AccountSession {
    /// Returns the replica id. Creates it on first use.
    func replica() async throws(EntitlementError) -> ReplicaID {
        if let replica = try await read().replica { return replica.id }
        try await createReplica()
        guard let replica = try await read().replica else {
            throw EntitlementError(.storage, "local store: \"\(keys.replica)\" was removed while it was in use")
        }
        return replica.id
    }

    /// Creates the replica id, unless another process does so at the same time.
    private func createReplica() async throws(EntitlementError) {
        var generator = store.host.generator
        let new = ReplicaID.random(using: &generator).bytes
        try await store.local.update(keys.replica) { (entry) throws(EntitlementError) in entry == nil ? new : nil }
    }

    private func decode(
        _ result: Result<ReadOutcome, BackendError>, cached: LocalState.Replica?
    ) throws(EntitlementError) -> LocalState.Replica? {
        do throws(BackendError) {
            switch try result.get() {
            case .absent: return nil
            case .unchanged: return cached
            case .found(let entry):
                guard let id = ReplicaID(bytes: entry.value) else {
                    throw BackendError(
                        .damaged, operation: .read, key: keys.replica, message: "the entry is not an id of 16 bytes")
                }
                return LocalState.Replica(id: id, version: entry.version)
            }
        } catch {
            throw EntitlementError(error)
        }
    }
}

// The remotes with which this device has synced the account. The entry holds a label on each line.
extension AccountSession {
    /// Remembers that this device has synced with the remote, even if the remote held nothing: from now on access is
    /// denied as "not purchased" instead of "restore needed".
    func rememberRemote() async throws(EntitlementError) {
        guard let label = store.remoteLabel else { return }
        do throws(BackendError) {
            try await store.local.update(keys.knownRemotes) { (entry) throws(BackendError) in
                let labels = entry.map(Self.labels) ?? []
                return labels.contains(label) ? nil : Array((labels + [label]).joined(separator: "\n").utf8)
            }
        } catch {
            // This is only a hint. The next sync checks whether it was written.
            guard error.disposition == .outcomeUnknown else { throw EntitlementError(error) }
        }
    }

    private func knowsRemote(_ result: Result<ReadOutcome, BackendError>) throws(EntitlementError) -> Bool {
        do throws(BackendError) {
            guard case .found(let entry) = try result.get(), let label = store.remoteLabel else { return false }
            return Self.labels(in: entry).contains(label)
        } catch {
            throw EntitlementError(error)
        }
    }

    private static func labels(in entry: Entry) -> [String] {
        String(decoding: entry.value, as: UTF8.self).split(separator: "\n").map(String.init)
    }
}

/// Numbers the states that one store object reads and writes.
final class Turns: Sendable {
    private let last = Atomic<UInt64>(0)

    func next() -> UInt64 { last.add(1, ordering: .sequentiallyConsistent).newValue }
}
