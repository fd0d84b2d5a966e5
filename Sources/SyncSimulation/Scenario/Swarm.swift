import SyncCoreTesting

/// Generates scenarios from seeds (swarm testing). Each seed has its own mix of faults and shoppers, because a run
/// with every fault at once hides the effect of a single one.
public struct Swarm: Sendable {
    /// The number of devices, 1 to 20; `nil` for a random number from 1 to 5.
    public var replicas: Int?
    /// The duration in days, 1 to 36,500; `nil` for a random one from 10 to 500.
    public var days: Int?

    /// Creates a swarm.
    public init(replicas: Int? = nil, days: Int? = nil) {
        self.replicas = replicas
        self.days = days
    }

    /// The scenario of `seed`, the same each time.
    public func scenario(seed: UInt64) -> Scenario {
        var generator = ScenarioGenerator(seed: seed, swarm: self)
        return generator.draw()
    }
}

/// Builds the scenario of a seed.
struct ScenarioGenerator {
    var random: SeededGenerator
    let traits: Traits
    var scenario: Scenario
    /// The number of the last id with each prefix.
    private var lastNumbers: [String: Int] = [:]
    /// The purchases so far, which later actions refund or see on other devices.
    var sales: [(sale: Sale, device: Int, at: Int64)] = []

    init(seed: UInt64, swarm: Swarm) {
        var random = RandomSource(seed: seed).generator(for: 0, 0, .scenario)
        traits = Traits(&random)
        let count = min(20, max(1, swarm.replicas ?? Int(random.pick(1...5))))
        let days = min(36_500, max(1, swarm.days ?? Int(random.pick(10...500))))
        var scenario = Scenario(seed: seed, devices: [], steps: [], days: days)
        scenario.sharesUnits = traits.sharesUnits
        scenario.remote = RemoteSetup(comparesAndSwaps: !traits.isFolder, tellsTime: traits.tellsTime)
        scenario.faults = traits.rates(&random)
        if traits.verifies {
            scenario.remote.policy = traits.isStrict ? .verified : .trusted
            if traits.isStrict { scenario.sharesUnits = true }
        }
        self.scenario = scenario
        self.random = random
        for index in 0..<count { self.scenario.devices.append(device(index)) }
    }

    private mutating func device(_ index: Int) -> DeviceSetup {
        var setup = DeviceSetup(account: traits.hasAccounts ? nil : "alice")
        // The first device has the run's rules, so that at least one device shows what was paid.
        if index > 0, traits.mixesRules, random.happens(perMille: 400) {
            setup.rule = random.pick(["latestExpiryWins", "remoteWins"])
        }
        if index > 0, traits.mixesCatalogs, random.happens(perMille: 400) { setup.catalog = 1 }
        if traits.movesClocks, random.happens(perMille: 500) {
            setup.clockOffset = random.pick(-3...3) * random.pick(1...400) * World.day / 4
        }
        if traits.polls, random.happens(perMille: 500) { setup.pollingHours = Int(random.pick(6...240)) }
        return setup
    }

    mutating func draw() -> Scenario {
        if traits.hasAccounts { drawAccounts() }
        for _ in 0..<random.pick(3...12) { addShopping() }
        for _ in 0..<random.pick(2...10) { addSyncs() }
        drawFaults()
        drawEvidence()
        drawCluster()
        scenario.steps.sort { ($0.at, $0.device ?? -1) < ($1.at, $1.device ?? -1) }
        return scenario
    }

    var anyDevice: Int { mutating get { Int(random.pick(0...Int64(scenario.devices.count - 1))) } }

    /// A random time. It is often close to another step, since concurrent actions reveal more defects, and at times in
    /// the last hours of a month.
    var anyTime: Int64 {
        mutating get {
            let end = Int64(scenario.days) * World.day
            if !scenario.steps.isEmpty, random.happens(perMille: traits.crowding) {
                let near = random.pick(scenario.steps).at
                return min(end - 1, max(0, near + random.pick(-200...3_000)))
            }
            if traits.prefersMonthEnds, random.happens(perMille: 600) {
                // The ends of months from January 2026, in days since the start.
                let ends: [Int64] = [30, 58, 89, 119, 150, 180, 211, 242, 272, 303, 333, 364, 395, 423, 454]
                let day = random.pick(ends) - random.pick(0...2)
                if day < scenario.days { return day * World.day + random.pick(0...World.day - 1) }
            }
            return random.pick(0...end - 1)
        }
    }

    /// 0 for the app, or 1 for a second process if there is one.
    var anyProcess: Int { mutating get { traits.hasSecondProcess && random.happens(perMille: 400) ? 1 : 0 } }

    mutating func add(_ action: Action, at time: Int64, on device: Int?, process: Int = 0) {
        scenario.steps.append(Step(at: max(0, time), device: device, process: process, action))
    }

    /// A new id with this prefix: `t` for transactions, `e` for transactions that the store signs, `s` for spends.
    mutating func newID(_ prefix: String) -> String {
        lastNumbers[prefix, default: 0] += 1
        return prefix + (lastNumbers[prefix] ?? 0).digits(4)
    }
}

/// The features and faults that a seed enables.
struct Traits {
    var hasAccounts: Bool
    var isFolder: Bool
    var tellsTime: Bool
    var sharesUnits: Bool
    var mixesRules: Bool
    var mixesCatalogs: Bool
    var movesClocks: Bool
    var polls: Bool
    var crashes: Bool
    var hasSecondProcess: Bool
    var losesLocalStores: Bool
    var losesRemote: Bool
    var fills: Bool
    var lies: Bool
    var erases: Bool
    var hasUnknownKinds: Bool
    var prefersMonthEnds: Bool
    var refunds: Bool
    var hasOldServer: Bool
    /// The fault level of the network; 0 for a perfect one.
    var roughness: Int
    var hasDiskFaults: Bool
    /// The probability, per mille, that a step is placed close to another one.
    var crowding: Int
    /// True if the remote is a server that verifies evidence.
    var verifies: Bool
    /// True if such a server has the policy `verified`.
    var isStrict: Bool
    /// True if clients state what is false.
    var claims: Bool

    init(_ random: inout SeededGenerator) {
        hasAccounts = random.happens(perMille: 350)
        isFolder = random.happens(perMille: 200)
        tellsTime = random.happens(perMille: 700)
        sharesUnits = random.happens(perMille: 600)
        mixesRules = random.happens(perMille: 200)
        mixesCatalogs = random.happens(perMille: 200)
        movesClocks = random.happens(perMille: 350)
        polls = random.happens(perMille: 150)
        crashes = random.happens(perMille: 500)
        hasSecondProcess = random.happens(perMille: 300)
        losesLocalStores = random.happens(perMille: 350)
        losesRemote = random.happens(perMille: 300)
        fills = random.happens(perMille: 200)
        lies = random.happens(perMille: 150)
        erases = hasAccounts && random.happens(perMille: 300)
        hasUnknownKinds = random.happens(perMille: 200)
        prefersMonthEnds = random.happens(perMille: 300)
        refunds = random.happens(perMille: 500)
        hasOldServer = random.happens(perMille: 200)
        roughness = Int(random.pick(0...3))
        hasDiskFaults = random.happens(perMille: 300)
        crowding = Int(random.pick(100...800))
        verifies = !isFolder && random.happens(perMille: 550)
        isStrict = random.happens(perMille: 500)
        claims = random.happens(perMille: 500)
    }

    func rates(_ random: inout SeededGenerator) -> FaultRates {
        var rates = FaultRates()
        let highest = Int64([0, 20, 100, 300][roughness])
        rates.lostRequests = Int(random.pick(0...highest))
        rates.lostAnswers = Int(random.pick(0...highest))
        rates.repeatedRequests = Int(random.pick(0...highest))
        rates.refusals = Int(random.pick(0...highest))
        rates.staleReads = Int(random.pick(0...highest))
        rates.delayed = Int(random.pick(0...highest))
        rates.longestDelay = Int(random.pick(1...2_000))
        rates.diskPauses = Int(random.pick(0...500))
        if hasDiskFaults {
            rates.diskErrors = Int(random.pick(0...50))
            rates.diskUnknowns = Int(random.pick(0...100))
        }
        return rates
    }
}
