import SyncCoreTesting

/// Draws scenarios from seeds. Each seed has its own mix of faults and its own shoppers: a run in which everything goes
/// wrong at once hides what one in which only clocks are wrong would show.
public struct Swarm: Sendable {
    /// How many devices there are, 1 to 20; `nil` to draw 1 to 5.
    public var replicas: Int?
    /// For how many days devices and shoppers go on, 1 to 36,500; `nil` to draw.
    public var days: Int?

    /// A swarm.
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

/// A scenario that is being drawn.
struct ScenarioGenerator {
    var random: SeededGenerator
    let traits: Traits
    var scenario: Scenario
    private var lastTransaction = 0
    private var lastSpend = 0
    /// What was bought so far, for those who refund it or see it elsewhere.
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
        self.scenario = scenario
        self.random = random
        for index in 0..<count { self.scenario.devices.append(device(index)) }
    }

    private mutating func device(_ index: Int) -> DeviceSetup {
        var setup = DeviceSetup(account: traits.hasAccounts ? nil : "alice")
        // The first device is like everybody's, so that there is always one that shows what was paid.
        if index > 0, traits.mixesRules, random.happens(perMille: 400) {
            setup.rule = ["latestExpiryWins", "remoteWins"][Int(random.pick(0...1))]
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
        scenario.steps.sort { ($0.at, $0.device ?? -1) < ($1.at, $1.device ?? -1) }
        return scenario
    }

    var anyDevice: Int { mutating get { Int(random.pick(0...Int64(scenario.devices.count - 1))) } }

    /// A moment: mostly any; often right beside something that happens anyway, since mistakes like company; at times
    /// the last hours of a month.
    var anyTime: Int64 {
        mutating get {
            let end = Int64(scenario.days) * World.day
            if !scenario.steps.isEmpty, random.happens(perMille: traits.crowding) {
                let near = scenario.steps[Int(random.pick(0...Int64(scenario.steps.count - 1)))].at
                return min(end - 1, max(0, near + random.pick(-200...3_000)))
            }
            if traits.prefersMonthEnds, random.happens(perMille: 600) {
                // Ends of months of 2026 and later, as days since the beginning.
                let ends: [Int64] = [30, 58, 89, 119, 150, 180, 211, 242, 272, 303, 333, 364, 395, 423, 454]
                let day = ends[Int(random.pick(0...Int64(ends.count - 1)))] - random.pick(0...2)
                if day < scenario.days { return day * World.day + random.pick(0...World.day - 1) }
            }
            return random.pick(0...end - 1)
        }
    }

    /// 0 for the app, 1 for a second process where there is one.
    var anyProcess: Int { mutating get { traits.hasSecondProcess && random.happens(perMille: 400) ? 1 : 0 } }

    mutating func add(_ action: Action, at time: Int64, on device: Int?, process: Int = 0) {
        scenario.steps.append(Step(at: max(0, time), device: device, process: process, action))
    }

    mutating func newTransaction() -> String {
        lastTransaction += 1
        return "t" + Self.digits(lastTransaction)
    }

    mutating func newSpend() -> String {
        lastSpend += 1
        return "s" + Self.digits(lastSpend)
    }

    private static func digits(_ number: Int) -> String {
        let text = "\(number)"
        return String(repeating: "0", count: max(0, 4 - text.count)) + text
    }
}

/// What a seed is about.
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
    /// How rough the network is: 0 for a good one.
    var roughness: Int
    var hasDiskFaults: Bool
    /// In how many of a thousand cases something happens beside something else.
    var crowding: Int

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
