public import Entitlements
public import SyncCore
import Synchronization

/// What an app asks about purchases, and tells about them. Works offline; syncs when there is a remote.
///
/// Everything recorded is durable in the local store when the call returns, as durable as that store's
/// `Capabilities.durability` says. Several stores, in one process or in many, may use one local backend at once.
/// All calls may be made from any task.
///
/// ```swift
/// let store = try await EntitlementStore(
///     catalog: .json(at: url), local: .file("/var/lib/owls"), remote: .file("/mnt/nas/owls"),
///     account: Account("alice"))  // the remote's folder must be there, or .file("…", creating: .whenNeeded)
/// try await store.record(.reported("com.example.3months"))
/// switch try await store.access(to: "random-owls") {
/// case .granted(let grant): show(until: grant.until)
/// case .denied(.restoreNeeded): try await store.restore()
/// case .denied(let why): explain(why)
/// }
/// ```
public final class EntitlementStore: Sendable {
    /// What is sold, and by which rules facts are read.
    public let catalog: Catalog
    /// Whose ledger this is now: the account that is logged in, or nobody.
    public var account: Account { session.account }
    /// The environment whose transactions count.
    public let environment: EnvironmentID

    let local: any KeyValueBackend
    let remote: (any KeyValueBackend)?
    let engine: SyncEngine<LedgerMerge>?
    let host: HostServices
    let wakeUp = WakeUp()
    let feed: ChangeFeed
    let clock: TrustedClock
    let relatedVersions = RelatedVersions()
    /// Whether the account is the one that is logged in on this device, also when another process changes that.
    let followsDevice: Bool
    private let currentSession: Mutex<AccountSession>

    /// The account of calls that begin now.
    var session: AccountSession { currentSession.withLock { $0 } }

    /// A store over `local`, synced with `remote` where there is one.
    ///
    /// Opening reads the local ledger, so that a damaged one is known at once; it writes nothing and needs no network.
    ///
    /// - Parameters:
    ///   - catalog: what is sold.
    ///   - local: the store on this device. It must be able to write conditionally.
    ///   - remote: the store that all devices share, if any. It must be there already, see
    ///     `KeyValueBackend.requiringExisting`. Wrap it in `RetryBackend` if it can be out of reach for a moment.
    ///   - account: whose ledger. When not given, that of the account that is logged in on this device, see
    ///     ``logIn(_:adoptAnonymous:)``, else nobody's.
    ///   - environment: the environment whose transactions count.
    ///   - clock: by which clock access is decided.
    ///   - host: clock, timer and randomness; a test replaces them.
    /// - Throws: ``EntitlementError`` of kind `unsuitableStore`, `storage` or `damaged`.
    public init(
        catalog: Catalog, local: any KeyValueBackend, remote: (any KeyValueBackend)? = nil,
        account: Account? = nil, environment: EnvironmentID = .production, clock: ClockSource = .trusted,
        host: HostServices = .system
    ) async throws(EntitlementError) {
        guard local.capabilities.compareAndSwap else {
            throw EntitlementError(
                .unsuitableStore, "\(local.label) cannot write conditionally, and a device's own ledger needs that")
        }
        self.catalog = catalog
        self.local = local
        let clock = TrustedClock(backend: local, host: host, isTrusted: clock == .trusted)
        let relatedVersions = relatedVersions
        let remote = remote.map { TimekeepingBackend(wrapped: $0.requiringExisting, clock: clock, relatedVersions: relatedVersions) }
        self.clock = clock
        // Also what is asked outside of a sync makes no remote that is missing.
        self.remote = remote?.requiringExisting
        self.environment = environment
        self.host = host
        followsDevice = account == nil
        try await clock.load()
        let owner: Account
        if let account { owner = account } else { owner = try await DeviceSession(backend: local).account() }
        feed = ChangeFeed(account: owner)
        engine = remote.map { SyncEngine(local: local, remote: $0, merge: LedgerMerge(), host: host) }
        currentSession = Mutex(
            try AccountSession(
                owner, local: local, hasRemote: remote != nil, host: host, catalog: catalog,
                environment: environment))
        try await tell(session)
    }

    /// Makes `account` the one of calls that begin from now on, and tells observers.
    ///
    /// - Parameter old: when given, the session that must still be current: whoever switched meanwhile knew better.
    func switchSession(to account: Account, from old: AccountSession? = nil) async throws(EntitlementError) {
        guard session.account != account else { return }
        let new = try AccountSession(
            account, local: local, hasRemote: remote != nil, host: host, catalog: catalog, environment: environment)
        let turn = feed.takeTurn()
        let state = try await new.ledgers.current()
        let snapshot = try await snapshot(of: state, in: new)
        currentSession.withLock { session in
            if let old, session !== old { return }
            // Both at once: of two log-ins at the same moment one comes last, for calls and for observers.
            session = new
            feed.switchAccount(to: account, state, snapshot, turn: turn)
        }
        wakeUp.signal()
    }

    /// A store over `local` alone, for a backend written as `.file("…")`.
    ///
    /// - Throws: as the designated initializer.
    public convenience init(
        catalog: Catalog, local: some KeyValueBackend, account: Account? = nil,
        environment: EnvironmentID = .production, clock: ClockSource = .trusted,
        host: HostServices = .system
    ) async throws(EntitlementError) {
        try await self.init(
            catalog: catalog, local: local as any KeyValueBackend, remote: nil, account: account,
            environment: environment, clock: clock, host: host)
    }

    /// A store over `local`, synced with `remote`, for backends written as `.file("…")`.
    ///
    /// - Throws: as the designated initializer.
    public convenience init(
        catalog: Catalog, local: some KeyValueBackend, remote: some KeyValueBackend, account: Account? = nil,
        environment: EnvironmentID = .production, clock: ClockSource = .trusted,
        host: HostServices = .system
    ) async throws(EntitlementError) {
        try await self.init(
            catalog: catalog, local: local as any KeyValueBackend, remote: remote as any KeyValueBackend,
            account: account, environment: environment, clock: clock, host: host)
    }

    /// The time by which access is decided, see ``ClockSource/trusted``.
    var now: Timestamp { clock.now }
}
