/// One run, whole: who takes part, what they do, and what goes wrong when. The same scenario gives the same run,
/// byte for byte.
///
/// ``Swarm`` draws scenarios from seeds; a failing one is shrunk by leaving out parts of it; a test can write one down.
public struct Scenario: Codable, Hashable, Sendable {
    /// Decides the order of jobs, the fate of every message and all random bits.
    public var seed: UInt64
    /// The devices; steps name them by their index.
    public var devices: [DeviceSetup]
    /// What the devices share.
    public var remote: RemoteSetup
    /// How often things go wrong by themselves.
    public var faults: FaultRates
    /// Whether units of consumables belong to the account, and not to the device.
    public var sharesUnits: Bool
    /// The name of the run's expiry rule, one of the subject's known rules; `nil` for the subject's own rule.
    ///
    /// `syncsim shrink --rules` records the rule here, so that a replay of the file uses it again.
    public var rules: String?
    /// What happens, in ascending order of time.
    public var steps: [Step]
    /// How long devices and shoppers go on, in days; then faults end and what is checked in the end begins.
    public var days: Int

    /// A scenario.
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

/// How a device is set up.
public struct DeviceSetup: Codable, Hashable, Sendable {
    /// The name of the expiry rule, one of those that the run knows; `nil` for the run's own.
    public var rule: String?
    /// Which of the run's catalogues it has: 0 is the current one.
    public var catalog: Int
    /// How wrong its wall clock is in the beginning, in milliseconds.
    public var clockOffset: Int64
    /// Which account its stores are opened for; `nil` for the one that is logged in on the device.
    public var account: String?
    /// Every so many hours of waiting its app syncs by itself; `nil` when it syncs only when told.
    public var pollingHours: Int?

    /// A device; by default like all others, and logged in as `alice` by being opened for that account.
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

/// What the devices share.
public struct RemoteSetup: Codable, Hashable, Sendable {
    /// Whether it honours preconditions; without, each replica keeps an entry of its own.
    public var comparesAndSwaps: Bool
    /// Whether its answers carry its time.
    public var tellsTime: Bool

    /// A remote; by default a full one.
    public init(comparesAndSwaps: Bool = true, tellsTime: Bool = true) {
        self.comparesAndSwaps = comparesAndSwaps
        self.tellsTime = tellsTime
    }
}

/// How often things go wrong by themselves, in thousandths of all messages or operations, and how long things take.
public struct FaultRates: Codable, Hashable, Sendable {
    /// Requests that never arrive.
    public var lostRequests: Int
    /// Requests that arrive and whose answer does not.
    public var lostAnswers: Int
    /// Requests that arrive twice.
    public var repeatedRequests: Int
    /// Requests that the remote refuses for the moment.
    public var refusals: Int
    /// Reads that a cache answers with what the key held before.
    public var staleReads: Int
    /// The longest way of a message, in milliseconds.
    public var longestDelay: Int
    /// Messages that take a hundred times as long.
    public var delayed: Int
    /// Operations on a device's own store that fail without effect.
    public var diskErrors: Int
    /// Writes to a device's own store of which nobody can say whether they happened.
    public var diskUnknowns: Int
    /// Operations on a device's own store that take up to 20 ms, before or after their effect.
    public var diskPauses: Int

    /// These rates; by default nothing goes wrong.
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

/// Something that happens.
public struct Step: Codable, Hashable, Sendable {
    /// When: milliseconds since the beginning.
    public var at: Int64
    /// On which device; `nil` for the remote.
    public var device: Int?
    /// In which process of the device: 0 is the app, 1 a second one beside it.
    public var process: Int
    /// What.
    public var action: Action

    /// A step.
    public init(at: Int64, device: Int? = nil, process: Int = 0, _ action: Action) {
        self.at = at
        self.device = device
        self.process = process
        self.action = action
    }
}
