import Entitlements
import SyncCore
import Synchronization

/// The two ledgers of one account in the local store, read when they changed and not before.
final class LocalLedgers: Sendable {
    /// Both ledgers, and what they say.
    struct State: Sendable {
        var account: VersionedLedger
        var device: VersionedLedger
        /// What the remote held when it was last met, where a rule asks for it.
        var remote: VersionedLedger?
        /// What the account's server decided, as far as this device has heard.
        var decisions: VersionedLedger
        /// The account that adopted this ledger of nobody: what it holds is that account's, and shown to nobody else.
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

    /// Which of the two.
    enum Target: Sendable {
        case account
        case device
    }

    private let entries: LedgerEntries
    private let keys: LedgerKeys
    private let host: HostServices
    private let catalog: Catalog
    private let environment: EnvironmentID
    private let asksRemote: Bool
    private let cache = Mutex<State?>(nil)

    /// The ledgers under `keys`.
    ///
    /// - Parameter hasRemote: whether there is a remote that a rule may ask about.
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
        asksRemote = hasRemote && (rules.expiry.asksRemote || rules.flags.asksRemote)
    }

    /// What the local store holds now. Another process may have written to it, so it is asked each time; it answers
    /// "unchanged" without a value.
    ///
    /// The device's ledger is read first: who adopts a ledger of nobody claims it before emptying the device's part,
    /// so that nobody writes to that part without having seen the claim.
    func current() async throws(EntitlementError) -> State {
        let cached = cache.withLock { $0 }
        let device = try await entries.read(keys.device, cached: cached?.device)
        let account = try await entries.read(keys.ledger, cached: cached?.account)
        let remote = asksRemote ? try await entries.read(keys.remote, cached: cached?.remote) : nil
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
        let facts = Facts(
            account: isReadable ? account.ledger : Ledger(), device: isReadable ? device.ledger : Ledger(),
            server: isReadable ? decisions.ledger : Ledger(), remote: remote?.ledger)
        let replay = Replay(facts, catalog: catalog, environment: environment)
        let state = State(
            account: account, device: device, remote: remote, decisions: decisions, claim: claim, replay: replay)
        cache.withLock { $0 = state }
        return state
    }

    /// What was read last, for deciding how long to wait.
    var lastReplay: Replay? { cache.withLock { $0?.replay } }

    /// What adding facts gave.
    struct Addition: Sendable {
        /// The facts that were new.
        var facts: [Fact]
        /// Both ledgers with them.
        var state: State
    }

    /// Adds the facts that `decide` wants for the state it is given, durably, and returns those that were new. `decide`
    /// may be called several times: each time another writer came first.
    func append(
        to target: Target, _ decide: (State) throws(EntitlementError) -> [Fact]
    ) async throws(EntitlementError) -> Addition {
        try await append(to: target, named: { () throws(EntitlementError) in false }) {
            (state, _) throws(EntitlementError) in try decide(state)
        }
    }

    /// Adds facts that name the replica which writes them. It is asked for with each state: an account that adopts the
    /// ledger of nobody in between leaves a new one.
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
                // Whether the account that adopted this ledger got them, nobody can tell any more.
                throw entries.busy(keys.ledger, isUnknown: true)
            }
            let held = state[target]
            let facts: [Fact]
            let document: LedgerDocument
            if let unsettled, !Ledger.join(held.ledger, Ledger(unsettled.map(\.record))).leftLacks {
                // They can be seen, which does not make them durable: they are written again until a write says so.
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

    /// The ledger with `facts`, `nil` when it has them already.
    ///
    /// - Throws: ``EntitlementError`` of kind `ledgerFull` when it would be too large.
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
        .accountErased, "the account was erased: nothing can be recorded for it any more")

    /// Nobody has a server that decides.
    private func readDecisions(cached: VersionedLedger?) async throws(EntitlementError) -> VersionedLedger {
        keys.isAnonymous ? VersionedLedger() : try await entries.read(keys.knownDecisions, cached: cached)
    }

    /// Keeps what the account's server has decided, as it stands there under `version`.
    func note(_ decisions: Decisions) async throws(EntitlementError) {
        guard !keys.isAnonymous else { return }
        for _ in 0..<LedgerEntries.maximumAttempts {
            let held = try await entries.read(keys.knownDecisions)
            // Erased with the account, and for good.
            if held.ledger.isErased { return }
            let document = LedgerDocument(ledger: decisions.ledger, localSection: decisions.source)
            if held.document == document { return }
            if case .happened = try await entries.write(document, to: keys.knownDecisions, if: held.precondition) {
                return
            }
        }
        throw entries.busy(keys.knownDecisions, isUnknown: false)
    }

    /// Notes what the remote was last seen to hold, where a rule asks for it.
    func note(remote ledger: Ledger) async throws(EntitlementError) {
        guard asksRemote, try await current().remote?.ledger != ledger else { return }
        try await entries.replace(keys.remote) { $0.isErased ? $0 : ledger }
    }

    /// The id under which this store writes; made at the first write. Asked for each time: it changes when an account
    /// adopts the ledger of nobody.
    func replica() async throws(EntitlementError) -> ReplicaID {
        try await ReplicaKey(backend: entries.backend, key: keys.replica, host: host).current()
    }
}

extension Ledger {
    /// The account that adopted this ledger of nobody.
    var claim: Claim? {
        guard !isEmpty, let record = self[Claim.recordKey], case .claim(let claim) = Fact(record) else { return nil }
        return claim
    }
}

/// The id under which a local store writes facts.
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
                continue  // The next read tells.
            }
        }
        throw BackendError(.busy, operation: .write, key: key, message: "the store does not settle")
    }

    /// Begins to write under a new id.
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
                    continue  // One more new id does no harm.
                }
            }
        } catch {
            throw EntitlementError(error)
        }
        throw EntitlementError(
            BackendError(.busy, operation: .write, key: key, message: "the store does not settle"))
    }
}
