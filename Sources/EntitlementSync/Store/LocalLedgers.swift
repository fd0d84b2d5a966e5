import Entitlements
import SyncCore
import Synchronization

/// The two ledgers of one account in the local store, read when they changed and not before.
final class LocalLedgers: Sendable {
    /// One ledger as it stands in the local store.
    struct Held: Sendable {
        var version: EntryVersion?
        var document = LedgerDocument()
    }

    /// Both ledgers, and what they say.
    struct State: Sendable {
        var account: Held
        var device: Held
        var replay: Replay

        var facts: Facts { replay.facts }

        subscript(target: Target) -> Held {
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

    private let backend: any KeyValueBackend
    private let keys: LedgerKeys
    private let host: HostServices
    private let catalog: Catalog
    private let environment: EnvironmentID
    private let cache = Mutex<State?>(nil)
    private let knownReplica = Mutex<ReplicaID?>(nil)

    init(
        backend: any KeyValueBackend, keys: LedgerKeys, host: HostServices, catalog: Catalog, environment: EnvironmentID
    ) {
        self.backend = backend
        self.keys = keys
        self.host = host
        self.catalog = catalog
        self.environment = environment
    }

    /// What the local store holds now. Another process may have written to it, so it is asked each time; it answers
    /// "unchanged" without a value.
    func current() async throws(EntitlementError) -> State {
        let cached = cache.withLock { $0 }
        let account = try await held(keys.ledger, cached: cached?.account)
        let device = try await held(keys.device, cached: cached?.device)
        if let cached, cached.account.version == account.version, cached.device.version == device.version {
            return cached
        }
        return remember(account: account, device: device)
    }

    private func remember(account: Held, device: Held) -> State {
        let facts = Facts(account: account.document.ledger, device: device.document.ledger)
        let replay = Replay(facts, catalog: catalog, environment: environment)
        let state = State(account: account, device: device, replay: replay)
        cache.withLock { $0 = state }
        return state
    }

    /// What was read last, for deciding how long to wait.
    var lastReplay: Replay? { cache.withLock { $0?.replay } }

    private func held(_ key: EntryKey, cached: Held?) async throws(EntitlementError) -> Held {
        let outcome: ReadOutcome
        do { outcome = try await backend.read(key, unless: cached?.version).outcome } catch {
            throw EntitlementError(error)
        }
        switch outcome {
        case .absent: return Held()
        case .unchanged:
            guard let cached else {
                throw EntitlementError(.storage, "local store: it answered \"unchanged\" to an unconditional read")
            }
            return cached
        case .found(let entry):
            do {
                return Held(version: entry.version, document: try LedgerDocument(decoding: entry.value))
            } catch {
                let (kind, advice): (EntitlementError.Kind, String) =
                    error.kind == .newerFormat
                    ? (.newerFormat, "update this software") : (.damaged, "restore it from a backup")
                throw EntitlementError(
                    kind, "local store: \(backend.label): \"\(key)\" cannot be read \(error); \(advice)")
            }
        }
    }

    /// How often a write is tried when other processes keep writing in between.
    private static let maximumAttempts = 100

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
        var unsettled: [Fact]?
        for _ in 0..<Self.maximumAttempts {
            let state = try await current()
            let held = state[target]
            let facts: [Fact]
            let document: LedgerDocument
            if let unsettled, !Ledger.join(held.document.ledger, Ledger(unsettled.map(\.record))).leftLacks {
                // They can be seen, which does not make them durable: they are written again until a write says so.
                facts = unsettled
                document = held.document
            } else {
                facts = try decide(state)
                guard let ledger = try Self.union(of: held, and: facts) else {
                    return Addition(facts: [], state: state)
                }
                document = LedgerDocument(ledger: ledger, localSection: held.document.localSection)
            }
            let precondition = held.version.map(Precondition.matches) ?? .absent
            switch try await write(document.encoded(), to: target, if: precondition) {
            case .happened(let version):
                let written = Held(version: version, document: document)
                let after =
                    switch target {
                    case .account: remember(account: written, device: state.device)
                    case .device: remember(account: state.account, device: written)
                    }
                return Addition(facts: facts, state: after)
            case .conflicted: break
            case .unknown: unsettled = facts
            }
        }
        throw EntitlementError(
            BackendError(
                .busy, operation: .write, key: keys.ledger,
                disposition: unsettled == nil ? .transient : .outcomeUnknown,
                message: "others wrote in between \(Self.maximumAttempts) times, try again"))
    }

    private enum WriteResult {
        case happened(EntryVersion)
        case conflicted
        /// It may have happened: the next round finds its facts in place, or writes them.
        case unknown
    }

    private func write(_ bytes: [UInt8], to target: Target, if precondition: Precondition)
        async throws(EntitlementError) -> WriteResult
    {
        do {
            let key = target == .account ? keys.ledger : keys.device
            let outcome = try await backend.write(bytes, to: key, if: precondition).outcome
            if case .written(let version) = outcome { return .happened(version) }
            return .conflicted
        } catch let error where error.disposition == .outcomeUnknown {
            return .unknown
        } catch {
            throw EntitlementError(error)
        }
    }

    /// The ledger with `facts`, `nil` when it has them already.
    ///
    /// - Throws: ``EntitlementError`` of kind `ledgerFull` when it would be too large.
    static func union(of held: Held, and facts: [Fact]) throws(EntitlementError) -> Ledger? {
        let join = Ledger.join(held.document.ledger, Ledger(facts.map(\.record)))
        guard join.leftLacks else { return nil }
        let limits = LedgerLimits.standard
        guard join.ledger.count <= limits.recordCount, join.ledger.byteCount <= limits.byteCount else {
            throw EntitlementError(
                .ledgerFull,
                "the ledger is full: at most \(limits.recordCount) records and \(limits.byteCount) bytes")
        }
        return join.ledger
    }

    /// The id under which this store writes; made at the first write.
    func replica() async throws(EntitlementError) -> ReplicaID {
        if let known = knownReplica.withLock({ $0 }) { return known }
        let bytes: [UInt8]
        do { bytes = try await storedReplica() } catch { throw EntitlementError(error) }
        guard let replica = ReplicaID(bytes: bytes) else {
            throw EntitlementError(.damaged, "local store: \"\(keys.replica)\" is not an id of 16 bytes")
        }
        knownReplica.withLock { $0 = replica }
        return replica
    }

    private func storedReplica() async throws(BackendError) -> [UInt8] {
        var generator = host.generator
        let new = ReplicaID.random(using: &generator).bytes
        for _ in 0..<Self.maximumAttempts {
            if case .found(let entry) = try await backend.read(keys.replica).outcome { return entry.value }
            do {
                let outcome = try await backend.write(new, to: keys.replica, if: .absent).outcome
                if case .written = outcome { return new }
            } catch let error where error.disposition == .outcomeUnknown {
                continue  // The next read tells.
            }
        }
        throw BackendError(.busy, operation: .write, key: keys.replica, message: "the store does not settle")
    }
}
