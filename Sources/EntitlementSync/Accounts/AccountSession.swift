import Entitlements
import SyncCore
import Synchronization

/// The documents of one account on this device. They are read together, and decoded again only after they have changed.
///
/// A call takes the current session when it starts and uses it to the end, so that it never mixes two accounts.
final class AccountSession: Sendable {
    /// The parts of a store that its sessions share.
    struct Dependencies: Sendable {
        let local: any KeyValueBackend
        /// The label of the remote on a single line; `nil` without a remote.
        let remoteLabel: String?
        let host: HostServices
        var catalog: Catalog
        let environment: EnvironmentID
        let clock: TrustedClock
        let trust: TrustSource
        /// The server whose own store ``local`` is; `nil` on a device.
        let ownServer: EntitlementStore.OwnServer?
        let counter: StateCounter
    }

    let account: Account
    let keys: LedgerKeys
    let dependencies: Dependencies
    let entries: LedgerEntries
    /// The account's grant for this device and environment.
    let grantKey: EntryKey
    let dependsOnRemote: Bool
    /// The server ledger in the local store: the server's own, or this device's copy.
    let serverLedgerKey: EntryKey
    private let cache = Mutex<LocalState?>(nil)
    /// The versions of the ledger and the server ledger when this object last fetched a grant.
    private let grantedVersions = Mutex<[EntryVersion?]>([])

    /// Creates the session of `account`. Reads nothing.
    init(_ account: Account, _ dependencies: Dependencies) throws(EntitlementError) {
        self.account = account
        self.dependencies = dependencies
        keys = try ofLocalStore(LedgerKeys(account))
        grantKey = try ofLocalStore(EntryKey(keys.grants + LedgerKeys.escaped(dependencies.environment.rawValue)))
        entries = LedgerEntries(backend: dependencies.local)
        serverLedgerKey = dependencies.ownServer == nil ? keys.knownServerLedger : keys.serverLedger
        let rules = dependencies.catalog.policy.rules
        dependsOnRemote =
            dependencies.remoteLabel != nil && (rules.expiry.dependsOnRemote || rules.flags.dependsOnRemote)
    }

    /// The last state. Used to compute how long to wait.
    var lastState: LocalState? { cache.withLock { $0 } }

    /// Reads the local store in one batch, and gives the clock the marks that it holds.
    ///
    /// Asks the store each time, because another process may have written to it. If nothing has changed, the answer
    /// carries no values, and nothing is decoded.
    ///
    /// The order of the reads matters in a store that answers a batch one by one. A sync writes the ledger before it
    /// remembers the remote, so the known remotes are read first. An adoption writes its claim to the account ledger
    /// before it empties the device ledger, and renews the replica id last. The device ledger is read before the
    /// account ledger, so that no writer updates it without having seen the claim; the replica id is read after both,
    /// so that no fact that stays anonymous gets the id that moved to the account.
    func read() async throws(EntitlementError) -> LocalState {
        let turn = dependencies.counter.next()
        let cached = cache.withLock { $0 }
        var requests: [ReadRequest] = []
        // The anonymous account is never synced, and has no server ledger. A guest is synced, but never needs a restore
        // to be complete: only this device has purchases of it.
        let hasRemote = dependencies.remoteLabel != nil && !account.isAnonymous && !account.isGuest
        let mayBeNew = hasRemote && cached?.isKnownToHaveSynced != true
        if mayBeNew { requests.append(ReadRequest(keys.knownRemotes)) }
        requests.append(ReadRequest(keys.device, unless: cached?.device.version))
        requests.append(ReadRequest(keys.ledger, unless: cached?.account.version))
        if dependsOnRemote { requests.append(ReadRequest(keys.remote, unless: cached?.remote?.version)) }
        if !account.isAnonymous {
            requests.append(ReadRequest(serverLedgerKey, unless: cached?.serverLedger.version))
        }
        let needsGrant = dependencies.trust.verifier != nil && !account.isAnonymous
        let knownGrant = try? cached?.grant.get()
        if needsGrant {
            requests.append(ReadRequest(keys.grantDevice))
            requests.append(ReadRequest(grantKey, unless: knownGrant?.version))
        }
        let knownReplica = try? cached?.replica.get()
        requests.append(ReadRequest(keys.replica, unless: knownReplica?.version))
        if let marks = dependencies.clock.readRequest { requests.append(marks) }

        var results = try await outcomes(of: requests)
        let hasSynced = mayBeNew ? knowsRemote(results.removeFirst()) : .success(true)
        let device = try entries.decode(&results, keys.device, cached: cached?.device)
        let ledger = try entries.decode(&results, keys.ledger, cached: cached?.account)
        let remote = dependsOnRemote ? try entries.decode(&results, keys.remote, cached: cached?.remote) : nil
        var serverLedger =
            account.isAnonymous
            ? VersionedLedger() : try entries.decode(&results, serverLedgerKey, cached: cached?.serverLedger)
        if let policy = dependencies.ownServer?.policy { serverLedger.state(policy, at: dependencies.clock.now) }
        let grant =
            needsGrant
            ? decodeGrant(device: results.removeFirst(), grant: results.removeFirst(), cached: knownGrant)
            : .success(nil)
        let replica = decodeReplica(results.removeFirst(), cached: knownReplica)
        if let marks = results.first { dependencies.clock.take(marks) }

        if var cached, cached.account.version == ledger.version, cached.device.version == device.version,
            cached.remote?.version == remote?.version, cached.serverLedger.version == serverLedger.version
        {
            (cached.replica, cached.hasSynced, cached.grant) = (replica, hasSynced, grant)
            cached.turn = Turn(read: turn, written: turn)
            return remember(cached)
        }
        return remember(
            LocalState(
                account: ledger, device: device, remote: remote, serverLedger: serverLedger, replica: replica,
                hasSynced: hasSynced, grant: grant, turn: Turn(read: turn, written: turn),
                isAnonymous: account.isAnonymous, after: cached?.replay ?? emptyReplay))
    }

    /// Returns `true` if this object fetched the account's grant when the facts had these versions.
    func isGrantCurrent(for versions: [EntryVersion?]) -> Bool { grantedVersions.withLock { $0 == versions } }

    /// Remembers the versions of the facts for which a grant was fetched.
    func rememberGrant(of versions: [EntryVersion?]) { grantedVersions.withLock { $0 = versions } }

    private var emptyReplay: Replay {
        Replay(Facts(account: Ledger()), catalog: dependencies.catalog, environment: dependencies.environment)
    }

    private func remember(_ state: LocalState) -> LocalState {
        cache.withLock { $0 = state }
        return state
    }

    private func outcomes(
        of requests: [ReadRequest]
    ) async throws(EntitlementError) -> ArraySlice<Result<ReadOutcome, BackendError>> {
        let results = try await inLocalStore(await dependencies.local.read(requests)).outcome
        guard results.count == requests.count else {
            throw EntitlementError(
                .storage, "local store: it answered \(results.count) of \(requests.count) reads of one batch")
        }
        return results[...]
    }

    /// Returns `state` with another ledger, which was written after the state was read.
    func replacing(
        _ target: DeviceLedgers.Target, in state: LocalState, with ledger: VersionedLedger
    ) -> LocalState {
        remember(
            LocalState(
                account: target == .account ? ledger : state.account,
                device: target == .device ? ledger : state.device,
                remote: state.remote, serverLedger: state.serverLedger, replica: state.replica,
                hasSynced: state.hasSynced, grant: state.grant,
                turn: Turn(read: state.turn.read, written: dependencies.counter.next()),
                isAnonymous: account.isAnonymous, after: state.replay))
    }

    /// Returns the state after a sync that was based on `state` and changed nothing else than the account ledger.
    func afterSync(_ state: LocalState, _ ledger: VersionedLedger) -> LocalState {
        ledger.version == state.account.version ? state : replacing(.account, in: state, with: ledger)
    }
}

// The id under which this store writes.
extension AccountSession {
    /// Creates the replica id, unless another process does so at the same time. Returns the id that is stored.
    @discardableResult
    func createReplica() async throws(EntitlementError) -> ReplicaID {
        var generator = dependencies.host.generator
        let new = ReplicaID.random(using: &generator)
        let stored = try await dependencies.local.update(keys.replica) { (entry) throws(EntitlementError) in
            entry == nil ? new.bytes : nil
        }
        return try stored.map(decodeReplica)?.get().id ?? new
    }

    private func decodeReplica(
        _ result: Result<ReadOutcome, BackendError>, cached: LocalState.Replica?
    ) -> Result<LocalState.Replica?, EntitlementError> {
        switch result {
        case .failure(let error): return .failure(EntitlementError(error))
        case .success(.absent): return .success(nil)
        case .success(.unchanged): return .success(cached)
        case .success(.found(let entry)): return decodeReplica(entry).map(Optional.some)
        }
    }

    private func decodeReplica(_ entry: Entry) -> Result<LocalState.Replica, EntitlementError> {
        if let id = ReplicaID(bytes: entry.value) {
            return .success(LocalState.Replica(id: id, version: entry.version))
        }
        let error = BackendError(
            .damaged, operation: .read, key: keys.replica, message: "the entry is not an id of 16 bytes")
        return .failure(EntitlementError(error))
    }
}

// The remotes with which this device has synced the account. The entry holds a label on each line.
extension AccountSession {
    /// Remembers that this device has synced with the remote, even if the remote held nothing: from now on access is
    /// denied as "not purchased" instead of "restore needed".
    func rememberRemote() async throws(EntitlementError) {
        guard let label = dependencies.remoteLabel else { return }
        do throws(BackendError) {
            try await dependencies.local.update(keys.knownRemotes) { (entry) throws(BackendError) in
                let labels = entry.map(Self.labels) ?? []
                return labels.contains(label) ? nil : Array((labels + [label]).joined(separator: "\n").utf8)
            }
        } catch {
            // This is only a hint. The next sync checks whether it was written.
            guard error.disposition == .outcomeUnknown else { throw EntitlementError(error) }
        }
    }

    private func knowsRemote(_ result: Result<ReadOutcome, BackendError>) -> Result<Bool, EntitlementError> {
        switch result {
        case .failure(let error): .failure(EntitlementError(error))
        case .success(.found(let entry)):
            .success(dependencies.remoteLabel.map(Self.labels(in: entry).contains) ?? false)
        case .success(.absent), .success(.unchanged): .success(false)
        }
    }

    static func labels(in entry: Entry) -> [String] {
        String(decoding: entry.value, as: UTF8.self).split(separator: "\n").map(String.init)
    }
}
