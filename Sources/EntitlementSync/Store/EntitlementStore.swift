public import Entitlements
public import SyncCore
import Synchronization

/// The purchases and entitlements of one account on this device.
///
/// An app records `Evidence` of purchases and asks for access to its content. Both work offline; with a remote the
/// store syncs the account's facts to all devices.
///
/// Everything recorded is durable in the local store when the call returns, to the degree that the local backend's
/// `Capabilities.durability` promises. Several stores, in one process or in many, may share one local backend. All
/// methods may be called from any task.
///
/// ```swift
/// let store = try await EntitlementStore(
///     catalog: .json(at: url), local: .file("/var/lib/owls"), remote: .file("/mnt/nas/owls"),
///     account: Account("alice"))  // the remote's folder must be there, or .file("…", creating: .whenNeeded)
/// try await store.record(.reported("com.example.3months"))
/// switch try await store.access(to: "random-owls") {
/// case .granted(let grant): show(until: grant.until)
/// case .denied(.restoreNeeded): try await store.restore()
/// case .denied(let denial): explain(denial)
/// }
/// ```
public final class EntitlementStore: Sendable {
    /// The products for sale, and the rules by which facts are interpreted.
    public var catalog: Catalog { session.dependencies.catalog }
    /// The account whose ledger is in use: the one that is logged in, or the anonymous account.
    public var account: Account { session.account }
    /// The environment whose transactions count.
    public let environment: EnvironmentID

    let local: any KeyValueBackend
    let remote: (any KeyValueBackend)?
    /// The server of the remote's store; `nil` if the remote is none.
    let server: (any EntitlementServer)?
    let engine: SyncEngine<LedgerMerge>?
    let host: HostServices
    /// The authority that decides which facts grant access.
    let trust: TrustSource
    let wakeUp = WakeUp()
    let feed: ChangeFeed
    let clock: TrustedClock
    let relatedVersions = RelatedVersions()
    /// True if the store uses the account that is logged in on this device, and follows when another process changes
    /// it.
    let followsDevice: Bool
    private let currentSession: Mutex<AccountSession>

    /// The session that calls starting now use.
    var session: AccountSession { currentSession.withLock { $0 } }

    /// Opens a store over a local backend, and a remote one if given.
    ///
    /// Opening reads the local ledger, so that damage is reported immediately. It writes nothing and needs no network.
    ///
    /// - Parameters:
    ///   - catalog: The products for sale.
    ///   - local: The backend on this device. It must support conditional writes.
    ///   - remote: The backend that all devices share, if any. Its store must already exist, see
    ///     `KeyValueBackend.requiringExisting`. Wrap the backend in `RetryBackend` if it can be unreachable for short
    ///     times.
    ///   - server: The server of the remote's store, for example the same `HTTPBackend`. It verifies evidence and signs
    ///     grants. `nil` if the remote is no server; evidence then waits on this device.
    ///   - account: The account to use. The default is the account that is logged in on this device, see
    ///     ``logIn(_:adoptAnonymous:)``, or the anonymous account if there is none.
    ///   - environment: The environment whose transactions count.
    ///   - clock: The clock that decides access.
    ///   - trust: The authority that decides which facts grant access.
    ///   - host: The clock, timer and random source of the host. Tests replace them.
    /// - Throws: ``EntitlementError`` of kind `unsuitableStore`, `storage` or `damaged`.
    public convenience init(
        catalog: Catalog, local: any KeyValueBackend, remote: (any KeyValueBackend)? = nil,
        server: (any EntitlementServer)? = nil, account: Account? = nil,
        environment: EnvironmentID = .production, clock: ClockSource = .trusted, trust: TrustSource = .ledger,
        host: HostServices = .system
    ) async throws(EntitlementError) {
        try await self.init(
            catalog: catalog, local: local, remote: remote, server: server, account: account,
            environment: environment, clock: clock, trust: trust, ownServer: nil, host: host)
    }

    /// The server whose own store is the local one.
    package struct OwnServer: Sendable {
        /// The policy of every account; `nil` to use the one that each server ledger states.
        package var policy: TrustPolicy?

        /// Creates a value.
        package init(policy: TrustPolicy?) { self.policy = policy }
    }

    /// Opens a store, on a device or, for support, over the store of a server.
    ///
    /// The parameters and errors are those of the public initializer.
    ///
    /// - Parameter ownServer: The server whose own store `local` is. Its server ledgers count instead of a device's
    ///   copies. `nil` on a device.
    package init(
        catalog: Catalog, local: any KeyValueBackend, remote: (any KeyValueBackend)? = nil,
        server: (any EntitlementServer)? = nil, account: Account?,
        environment: EnvironmentID, clock: ClockSource, trust: TrustSource = .ledger, ownServer: OwnServer?,
        host: HostServices
    ) async throws(EntitlementError) {
        try trust.check(catalog, clock)
        guard local.capabilities.compareAndSwap else {
            throw EntitlementError(
                .unsuitableStore, "\(local.label) cannot write conditionally, but the local store must")
        }
        self.local = local
        let clock = try TrustedClock(backend: local, host: host, isTrusted: clock == .trusted)
        self.server = server
        let relatedVersions = relatedVersions
        let remote = remote.map {
            TimekeepingBackend(base: $0.requiringExisting, clock: clock, relatedVersions: relatedVersions)
        }
        self.clock = clock
        // Requests outside of a sync must not create a missing remote store either.
        self.remote = remote?.requiringExisting
        (self.environment, self.trust, self.host) = (environment, trust, host)
        followsDevice = account == nil
        let owner: Account
        if let account { owner = account } else { owner = try await DeviceSession(backend: local).account() }
        feed = ChangeFeed(account: owner)
        engine = remote.map { SyncEngine(local: local, remote: $0, merge: LedgerMerge(), host: host) }
        let dependencies = AccountSession.Dependencies(
            local: local, remoteLabel: remote.map { String($0.label.map { $0.isNewline ? " " : $0 }) }, host: host,
            catalog: catalog, environment: environment, clock: clock, trust: trust, ownServer: ownServer,
            counter: StateCounter())
        currentSession = Mutex(try AccountSession(owner, dependencies))
        try await publish(session)
        // Without its marks the clock would believe the device.
        try clock.checkRead()
    }

    /// Makes `account` the account that calls starting now use, and notifies observers.
    ///
    /// - Parameter old: If given, the switch happens only while this session is current. A concurrent switch takes
    ///   precedence.
    func switchSession(to account: Account, from old: AccountSession? = nil) async throws(EntitlementError) {
        while true {
            let current = session
            guard current.account != account, old == nil || current === old else { return }
            if try await replace(current, with: AccountSession(account, current.dependencies)) { return }
        }
    }

    /// Replaces the catalogue for calls that start now, and notifies observers.
    ///
    /// - Throws: ``EntitlementError`` of kind `unsuitableStore` (see ``TrustSource/signed(by:grace:)``), `storage` or
    ///   `damaged`. The present catalogue stays.
    package func replaceCatalog(with catalog: Catalog) async throws(EntitlementError) {
        while true {
            let current = session
            var dependencies = current.dependencies
            try trust.check(catalog, .trusted)
            dependencies.catalog = catalog
            if try await replace(current, with: AccountSession(current.account, dependencies)) { return }
        }
    }

    /// Makes `new` the session that calls starting now use.
    ///
    /// - Returns: `false` if `old` was replaced meanwhile.
    private func replace(_ old: AccountSession, with new: AccountSession) async throws(EntitlementError) -> Bool {
        let state = try await new.read()
        let snapshot = try snapshot(of: state, in: new)
        let isReplaced = currentSession.withLock { session in
            guard session === old else { return false }
            // Calls and observers switch together, so that both see concurrent log-ins in the same order.
            session = new
            feed.switchSession(to: new.account, state, snapshot)
            return true
        }
        if isReplaced { wakeUp.signal() }
        return isReplaced
    }

    /// Opens a store over a local backend alone. Accepts shorthand such as `.file("…")`.
    ///
    /// - Throws: The errors of the designated initializer.
    public convenience init(
        catalog: Catalog, local: some KeyValueBackend, account: Account? = nil,
        environment: EnvironmentID = .production, clock: ClockSource = .trusted, trust: TrustSource = .ledger,
        host: HostServices = .system
    ) async throws(EntitlementError) {
        try await self.init(
            catalog: catalog, local: local as any KeyValueBackend, remote: nil, account: account,
            environment: environment, clock: clock, trust: trust, host: host)
    }

    /// Opens a store over a local and a remote backend. Accepts shorthand such as `.file("…")`.
    ///
    /// - Throws: The errors of the designated initializer.
    public convenience init(
        catalog: Catalog, local: some KeyValueBackend, remote: some KeyValueBackend, account: Account? = nil,
        environment: EnvironmentID = .production, clock: ClockSource = .trusted, trust: TrustSource = .ledger,
        host: HostServices = .system
    ) async throws(EntitlementError) {
        try await self.init(
            catalog: catalog, local: local as any KeyValueBackend, remote: remote as any KeyValueBackend,
            account: account, environment: environment, clock: clock, trust: trust, host: host)
    }

    /// The time that decides access. See ``ClockSource/trusted``.
    var now: Timestamp { clock.now }
}
