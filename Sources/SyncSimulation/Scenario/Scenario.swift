import Entitlements

/// The complete description of a run: devices, actions, and faults with their times. The same scenario gives the same
/// run, byte for byte.
///
/// ``Swarm`` generates scenarios from seeds. ``Shrinker`` reduces a failing one. A test can also write one by hand.
public struct Scenario: Codable, Hashable, Sendable {
    /// The seed of all random decisions: the order of jobs, the network's faults and random bits.
    public var seed: UInt64
    /// The devices. Steps refer to them by index.
    public var devices: [DeviceSetup]
    /// The store that the devices share.
    public var remote: RemoteSetup
    /// The rates of random faults.
    public var faults: FaultRates
    /// True if units of consumables belong to the account instead of the device.
    public var sharesUnits: Bool
    /// The name of the run's expiry rule, one of the subject's known rules; `nil` for the subject's own rule.
    ///
    /// `syncsim shrink --rules` records the rule here, so that a replay of the file uses it again.
    public var rules: String?
    /// The actions, in ascending order of time.
    public var steps: [Step]
    /// The duration in days. Afterwards faults end and the final checks start.
    public var days: Int

    /// Creates a scenario.
    public init(
        seed: UInt64, devices: [DeviceSetup], remote: RemoteSetup = RemoteSetup(), faults: FaultRates = FaultRates(),
        sharesUnits: Bool = true, rules: String? = nil, steps: [Step], days: Int
    ) {
        self.seed = seed
        self.devices = devices
        self.remote = remote
        self.faults = faults
        self.sharesUnits = sharesUnits
        self.rules = rules
        self.steps = steps
        self.days = days
    }
}

/// The setup of a device.
public struct DeviceSetup: Codable, Hashable, Sendable {
    /// The name of the device's expiry rule, one of the subject's known rules; `nil` for the run's rule.
    public var rule: String?
    /// The index of the device's catalogue: 0 is the current one.
    public var catalog: Int
    /// The initial error of its wall clock, in milliseconds.
    public var clockOffset: Int64
    /// The account that its stores are opened for; `nil` for the account that is logged in on the device.
    public var account: String?
    /// The polling interval of its app in hours; `nil` if it syncs only in `sync` steps.
    public var pollingHours: Int?

    /// A device. By default, it is opened for the account `alice`.
    public init(
        rule: String? = nil, catalog: Int = 0, clockOffset: Int64 = 0, account: String? = "alice",
        pollingHours: Int? = nil
    ) {
        self.rule = rule
        self.catalog = catalog
        self.clockOffset = clockOffset
        self.account = account
        self.pollingHours = pollingHours
    }
}

/// The store that the devices share.
public struct RemoteSetup: Codable, Hashable, Sendable {
    /// True if the remote honours preconditions. Without them each replica keeps an entry of its own.
    public var comparesAndSwaps: Bool
    /// True if its answers carry its time.
    public var tellsTime: Bool
    /// The trust policy of a remote that is a server and verifies evidence; `nil` for plain storage.
    ///
    /// Such a server needs preconditions, and under `verified` also shared units.
    public var policy: ServerPolicy?
    /// The database cluster that keeps the data; `nil` for a single store, in which a write is one step.
    ///
    /// A cluster needs preconditions. The store of a subject that creates its own is never part of a cluster.
    public var cluster: ClusterSetup?

    /// A remote. By default, it is plain storage with all capabilities.
    public init(
        comparesAndSwaps: Bool = true, tellsTime: Bool = true, policy: ServerPolicy? = nil,
        cluster: ClusterSetup? = nil
    ) {
        self.comparesAndSwaps = comparesAndSwaps
        self.tellsTime = tellsTime
        self.policy = policy
        self.cluster = cluster
    }
}

/// The trust policy of a simulated server.
public enum ServerPolicy: String, Codable, Hashable, Sendable, CaseIterable {
    /// Statements of clients count, except where the server ledger says otherwise.
    case trusted
    /// Nothing that a client wrote grants access.
    case verified

    var trustPolicy: TrustPolicy {
        switch self {
        case .trusted: .trusted
        case .verified: .verified
        }
    }
}

/// The rates of random faults, in thousandths of all messages or operations, and the limits of delays.
public struct FaultRates: Codable, Hashable, Sendable {
    /// Requests that never arrive.
    public var lostRequests: Int
    /// Requests that arrive, but whose answer is lost.
    public var lostAnswers: Int
    /// Requests that arrive twice.
    public var repeatedRequests: Int
    /// Requests that the remote rejects with a transient error.
    public var refusals: Int
    /// Reads that a cache answers with an earlier value.
    public var staleReads: Int
    /// The longest delay of a message, in milliseconds.
    public var longestDelay: Int
    /// Messages that take a hundred times as long.
    public var delayed: Int
    /// Operations on a device's own store that fail without effect.
    public var diskErrors: Int
    /// Writes to a device's own store with an unknown outcome.
    public var diskUnknowns: Int
    /// Operations on a device's own store that take up to 20 ms, before or after their effect.
    public var diskPauses: Int

    /// Fault rates. By default, nothing fails.
    public init(
        lostRequests: Int = 0, lostAnswers: Int = 0, repeatedRequests: Int = 0, refusals: Int = 0, staleReads: Int = 0,
        longestDelay: Int = 50, delayed: Int = 0, diskErrors: Int = 0, diskUnknowns: Int = 0, diskPauses: Int = 200
    ) {
        self.lostRequests = lostRequests
        self.lostAnswers = lostAnswers
        self.repeatedRequests = repeatedRequests
        self.refusals = refusals
        self.staleReads = staleReads
        self.longestDelay = longestDelay
        self.delayed = delayed
        self.diskErrors = diskErrors
        self.diskUnknowns = diskUnknowns
        self.diskPauses = diskPauses
    }
}

/// A scheduled action.
public struct Step: Codable, Hashable, Sendable {
    /// The time in milliseconds since the start of the run.
    public var at: Int64
    /// The index of the device; `nil` for the remote.
    public var device: Int?
    /// The process on the device: 0 is the app, 1 is a second process beside it.
    public var process: Int
    /// The action.
    public var action: Action

    /// Creates a step.
    public init(at: Int64, device: Int? = nil, process: Int = 0, _ action: Action) {
        self.at = at
        self.device = device
        self.process = process
        self.action = action
    }
}
