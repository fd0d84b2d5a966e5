import Entitlements
import SyncCore
import Synchronization

/// The ledgers of one account in the local store, decoded again only after they have changed.
final class LocalLedgers: Sendable {
    /// The ledgers at one moment, and their replay.
    struct State: Sendable {
        var account: VersionedLedger
        var device: VersionedLedger
        /// The remote's ledger at the last sync, if a rule depends on it.
        var remote: VersionedLedger?
        /// The server ledger, as far as this device has received it.
        var decisions: VersionedLedger
        /// The claim of the account that adopted this anonymous ledger. From then on the contents belong to that
        /// account, and are shown to no other.
        var claim: Claim?
        var replay: Replay

        var facts: Facts { replay.facts }

        subscript(target: Target) -> VersionedLedger {
            switch target {
            case .account: account
            case .device: device
            }
        }
    }

    /// The ledger to write to.
    enum Target: Sendable {
        case account
        case device
    }

    private let entries: LedgerEntries
    private let keys: LedgerKeys
    private let host: HostServices
    private let catalog: Catalog
    private let environment: EnvironmentID
    private let dependsOnRemote: Bool
    private let cache = Mutex<State?>(nil)

    /// Creates the ledgers under `keys`. Reads nothing.
    ///
    /// - Parameter hasRemote: `true` if there is a remote on which a rule may depend.
    init(
        backend: any KeyValueBackend, keys: LedgerKeys, host: HostServices, catalog: Catalog,
        environment: EnvironmentID, hasRemote: Bool
    ) {
        entries = LedgerEntries(backend: backend)
        self.keys = keys
        self.host = host
        self.catalog = catalog
        self.environment = environment
        let rules = catalog.policy.rules
        dependsOnRemote = hasRemote && (rules.expiry.dependsOnRemote || rules.flags.dependsOnRemote)
    }

    /// Returns the current contents of the local store.
    ///
    /// Asks the store each time, because another process may have written to it. If nothing has changed, the answer
    /// carries no values. The device ledger is read first: an adoption writes its claim before it empties the device
    /// ledger, so that no writer updates the device ledger without having seen the claim.
    func current() async throws(EntitlementError) -> State {
        let cached = cache.withLock { $0 }
        let device = try await entries.read(keys.device, cached: cached?.device)
        let account = try await entries.read(keys.ledger, cached: cached?.account)
        let remote = dependsOnRemote ? try await entries.read(keys.remote, cached: cached?.remote) : nil
        let decisions = try await readDecisions(cached: cached?.decisions)
        if let cached, cached.account.version == account.version, cached.device.version == device.version,
            cached.remote?.version == remote?.version, cached.decisions.version == decisions.version
        {
            return cached
        }
        return remember(account: account, device: device, remote: remote, decisions: decisions)
    }

    private func remember(
        account: VersionedLedger, device: VersionedLedger, remote: VersionedLedger?, decisions: VersionedLedger
    ) -> State {
        let claim = keys.isAnonymous ? account.ledger.claim : nil
        let isReadable = claim == nil
        let earlier = lastReplay ?? Replay(Facts(account: Ledger()), catalog: catalog, environment: environment)
        let replay = earlier.advanced(
            account: isReadable ? account.ledger : Ledger(), device: isReadable ? device.ledger : Ledger(),
            server: isReadable ? decisions.ledger : Ledger(), remote: remote?.ledger)
        let state = State(
            account: account, device: device, remote: remote, decisions: decisions, claim: claim, replay: replay)
        cache.withLock { $0 = state }
        return state
    }

    /// The replay of the last read. Used to compute how long to wait.
    var lastReplay: Replay? { cache.withLock { $0?.replay } }

    /// The result of adding facts.
    struct Addition: Sendable {
        /// The facts that were new.
        var facts: [Fact]
        /// The ledgers after the addition.
        var state: State
    }

    /// Adds the facts that `decide` returns for the current state, durably, and returns those that were new.
    ///
    /// `decide` is called again each time another writer has changed the ledger first.
    func append(
        to target: Target, _ decide: (State) throws(EntitlementError) -> [Fact]
    ) async throws(EntitlementError) -> Addition {
        try await append(to: target, named: { () throws(EntitlementError) in false }) {
            (state, _) throws(EntitlementError) in try decide(state)
        }
    }

    /// Adds facts that contain the id of the replica that writes them. The id is read again with each state, because an
    /// adoption of the anonymous ledger renews it.
    func append(
        to target: Target, _ decide: (State, ReplicaID) throws(EntitlementError) -> [Fact]
    ) async throws(EntitlementError) -> Addition {
        try await append(to: target, named: { () async throws(EntitlementError) in try await replica() }, decide)
    }

    private func append<Name: Equatable>(
        to target: Target, named name: () async throws(EntitlementError) -> Name,
        _ decide: (State, Name) throws(EntitlementError) -> [Fact]
    ) async throws(EntitlementError) -> Addition {
        var unsettled: [Fact]?
        var unsettledName: Name?
        for _ in 0..<LedgerEntries.maximumAttempts {
            let state = try await current()
            if state.claim != nil {
                try await Adoption(backend: entries.backend, host: host).settle()
                continue
            }
            guard !state.account.ledger.isErased else { throw Self.erased }
            let name = try await name()
            if let unsettledName, unsettledName != name {
                // An adoption has happened since the last attempt and may have moved the facts. This device cannot
                // find out.
                throw entries.busy(keys.ledger, isUnknown: true)
            }
            let held = state[target]
            let facts: [Fact]
            let document: LedgerDocument
            if let unsettled, !Ledger.join(held.ledger, Ledger(unsettled.map(\.record))).leftLacks {
                // The facts are visible, which does not make them durable. Write them again until a write succeeds.
                facts = unsettled
                document = held.document
            } else {
                facts = try decide(state, name)
                guard let ledger = try Self.union(of: held, and: facts) else {
                    return Addition(facts: [], state: state)
                }
                document = LedgerDocument(ledger: ledger, localSection: held.document.localSection)
            }
            let key = target == .account ? keys.ledger : keys.device
            switch try await entries.write(document, to: key, if: held.precondition) {
            case .happened(let version):
                let written = VersionedLedger(version: version, document: document)
                let after =
                    switch target {
                    case .account:
                        remember(
                            account: written, device: state.device, remote: state.remote, decisions: state.decisions)
                    case .device:
                        remember(
                            account: state.account, device: written, remote: state.remote, decisions: state.decisions)
                    }
                return Addition(facts: facts, state: after)
            case .conflicted: break
            case .unknown:
                unsettled = facts
                unsettledName = name
            }
        }
        throw entries.busy(keys.ledger, isUnknown: unsettled != nil)
    }

    /// Returns the ledger with `facts` added; `nil` if it contains all of them already.
    ///
    /// - Throws: ``EntitlementError`` of kind `ledgerFull` if the result would exceed `LedgerLimits.standard`, or
    ///   `accountErased`.
    static func union(of held: VersionedLedger, and facts: [Fact]) throws(EntitlementError) -> Ledger? {
        guard !held.ledger.isErased else { throw erased }
        let join = Ledger.join(held.ledger, Ledger(facts.map(\.record)))
        guard join.leftLacks else { return nil }
        let limits = LedgerLimits.standard
        guard join.ledger.count <= limits.recordCount, join.ledger.byteCount <= limits.byteCount else {
            throw EntitlementError(
                .ledgerFull,
                "the ledger is full: at most \(limits.recordCount) records and \(limits.byteCount) bytes")
        }
        return join.ledger
    }

    private static let erased = EntitlementError(
        .accountErased, "the account was erased; nothing can be recorded for it")

    /// Removes answered evidence from the device ledger. Evidence that was replaced meanwhile stays.
    func removeEvidence(_ records: [Record]) async throws(EntitlementError) {
        guard !records.isEmpty else { return }
        let removed = Set(records)
        for _ in 0..<LedgerEntries.maximumAttempts {
            let held = try await entries.read(keys.device)
            let all = held.ledger.records
            let rest = all.filter { !removed.contains($0) }
            guard !held.ledger.isErased, rest.count < all.count else { return }
            let document = LedgerDocument(ledger: Ledger(rest), localSection: held.document.localSection)
            if case .happened = try await entries.write(document, to: keys.device, if: held.precondition) { return }
        }
        throw entries.busy(keys.device, isUnknown: false)
    }

    /// The anonymous account has no server ledger.
    private func readDecisions(cached: VersionedLedger?) async throws(EntitlementError) -> VersionedLedger {
        keys.isAnonymous ? VersionedLedger() : try await entries.read(keys.knownDecisions, cached: cached)
    }

    /// Stores a copy of the server ledger.
    func note(_ decisions: Decisions) async throws(EntitlementError) {
        guard !keys.isAnonymous else { return }
        for _ in 0..<LedgerEntries.maximumAttempts {
            let held = try await entries.read(keys.knownDecisions)
            // The copy was erased with the account, permanently.
            if held.ledger.isErased { return }
            let document = LedgerDocument(ledger: decisions.ledger, localSection: decisions.source)
            if held.document == document { return }
            if case .happened = try await entries.write(document, to: keys.knownDecisions, if: held.precondition) {
                return
            }
        }
        throw entries.busy(keys.knownDecisions, isUnknown: false)
    }

    /// Stores the remote's ledger of the last sync, if a rule depends on it.
    func note(remote ledger: Ledger) async throws(EntitlementError) {
        guard dependsOnRemote, try await current().remote?.ledger != ledger else { return }
        try await entries.replace(keys.remote) { $0.isErased ? $0 : ledger }
    }

    /// Returns the replica id under which this store writes. Creates it on first use.
    ///
    /// The id is read each time, because an adoption of the anonymous ledger renews it.
    func replica() async throws(EntitlementError) -> ReplicaID {
        try await ReplicaKey(backend: entries.backend, key: keys.replica, host: host).current()
    }
}

extension Ledger {
    /// The claim of the account that adopted this anonymous ledger.
    var claim: Claim? {
        guard !isEmpty, let record = self[Claim.recordKey], case .claim(let claim) = Fact(record) else { return nil }
        return claim
    }
}

/// The replica id of a local store.
struct ReplicaKey: Sendable {
    let backend: any KeyValueBackend
    let key: EntryKey
    let host: HostServices

    func current() async throws(EntitlementError) -> ReplicaID {
        let bytes: [UInt8]
        do { bytes = try await stored() } catch { throw EntitlementError(error) }
        guard let replica = ReplicaID(bytes: bytes) else {
            throw EntitlementError(.damaged, "local store: \"\(key)\" is not an id of 16 bytes")
        }
        return replica
    }

    private func stored() async throws(BackendError) -> [UInt8] {
        var generator = host.generator
        for _ in 0..<LedgerEntries.maximumAttempts {
            if case .found(let entry) = try await backend.read(key).outcome { return entry.value }
            let new = ReplicaID.random(using: &generator).bytes
            do {
                if case .written = try await backend.write(new, to: key, if: .absent).outcome { return new }
            } catch let error where error.disposition == .outcomeUnknown {
                continue  // The next read shows the outcome.
            }
        }
        throw BackendError(.busy, operation: .write, key: key, message: "the replica id keeps changing; try again")
    }

    /// Replaces the id with a new one.
    func renew() async throws(EntitlementError) {
        var generator = host.generator
        do {
            for _ in 0..<LedgerEntries.maximumAttempts {
                var precondition = Precondition.absent
                if case .found(let entry) = try await backend.read(key).outcome {
                    precondition = .matches(entry.version)
                }
                let new = ReplicaID.random(using: &generator).bytes
                do {
                    if case .written = try await backend.write(new, to: key, if: precondition).outcome { return }
                } catch let error where error.disposition == .outcomeUnknown {
                    continue  // Renewing the id once more is harmless.
                }
            }
        } catch {
            throw EntitlementError(error)
        }
        throw EntitlementError(
            BackendError(.busy, operation: .write, key: key, message: "the replica id keeps changing; try again"))
    }
}
