import EntitlementSync
import Entitlements
import SyncCore
import Synchronization

/// A remote that signs grants for what its ledger grants. The "signature" is that the verifier knows the bytes.
final class GrantServer: ForwardingBackend, EntitlementServer, GrantVerifier {
    let store = MemoryBackend()
    var base: any KeyValueBackend { store }
    private let keys: LedgerKeys
    private let catalog: Catalog
    private let now: @Sendable () -> Int64
    private let state = Mutex(State())

    struct State {
        /// The grants that were signed, by their bytes.
        var signed: [[UInt8]: SignedGrant] = [:]
        /// The number of requests.
        var requestCount = 0
        /// The answer instead of a grant.
        var failure: BackendError?
        /// A change of each grant before it is signed.
        var change: @Sendable (inout SignedGrant) -> Void = { _ in }
    }

    init(_ account: Account, catalog: Catalog, now: @escaping @Sendable () -> Int64) throws {
        keys = try LedgerKeys(account)
        (self.catalog, self.now) = (catalog, now)
    }

    func update(_ change: (inout sending State) -> Void) { state.withLock { change(&$0) } }
    var requestCount: Int { state.withLock { $0.requestCount } }

    /// Reads with the server's time.
    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        Answer(try await store.read(key, unless: knownVersion).outcome, serverTime: now())
    }

    /// The lifetime of a grant: 7 days.
    static let lifetime: Int64 = 7 * 86_400_000

    func grant(device: String, environment: EnvironmentID) async throws(BackendError) -> [UInt8] {
        let failure = state.withLock { state in
            state.requestCount += 1
            return state.failure
        }
        if let failure { throw failure }
        var ledger = Ledger()
        if case .found(let entry) = try await store.read(keys.ledger).outcome {
            do { ledger = try LedgerDocument(decoding: entry.value).ledger } catch {
                throw BackendError(.damaged, message: "\(error)")
            }
        }
        let issued = Timestamp(milliseconds: now() / 1_000 * 1_000)
        let access = Replay(Facts(account: ledger), catalog: catalog).snapshot(at: issued).access
        var grant = SignedGrant(
            server: "test", account: "alice", device: device, environment: environment, issued: issued,
            expires: Timestamp(milliseconds: issued.milliseconds + Self.lifetime),
            items: access.compactMap { item in
                guard case .granted(let grant) = item.access else { return nil }
                return SignedGrant.Item(item.entitlement, until: grant.until, units: grant.units)
            })
        return state.withLock { state in
            state.change(&grant)
            let bytes = Array("grant \(state.requestCount)".utf8)
            state.signed[bytes] = grant
            return bytes
        }
    }

    func submit(
        _ evidence: [[UInt8]], account: Account, isRestore: Bool
    ) async throws(BackendError) -> [EvidenceAnswer] {
        throw BackendError(.unsupported, operation: .write, message: "no evidence")
    }

    func verify(
        _ grant: [UInt8], account: (name: String, incarnation: String), device: String
    ) throws(GrantError) -> SignedGrant {
        guard let known = state.withLock({ $0.signed[grant] }) else { throw GrantError(.signature, "forged") }
        guard known.account == account.name else { throw GrantError(.account, "another account") }
        guard known.device == device else { throw GrantError(.device, "another device") }
        return known
    }
}
