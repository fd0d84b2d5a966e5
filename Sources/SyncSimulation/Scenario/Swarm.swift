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
        var drawing = Drawing(seed: seed, swarm: self)
        return drawing.draw()
    }
}

/// A scenario that is being drawn.
struct Drawing {
    var dice: SeededGenerator
    let traits: Traits
    var scenario: Scenario
    private var lastTransaction = 0
    private var lastSpend = 0
    /// What was bought so far, for those who refund it or see it elsewhere.
    var sales: [(sale: Sale, device: Int, at: Int64)] = []

    init(seed: UInt64, swarm: Swarm) {
        var dice = Dice(seed: seed).generator(for: 0, 0, .drawing)
        traits = Traits(&dice)
        let count = min(20, max(1, swarm.replicas ?? Int(dice.pick(1...5))))
        let days = min(36_500, max(1, swarm.days ?? Int(dice.pick(10...500))))
        var scenario = Scenario(seed: seed, devices: [], steps: [], days: days)
        scenario.sharesUnits = traits.sharesUnits
        scenario.remote = RemoteSetup(comparesAndSwaps: !traits.isFolder, tellsTime: traits.tellsTime)
        scenario.faults = traits.rates(&dice)
        self.scenario = scenario
        self.dice = dice
        for index in 0..<count { self.scenario.devices.append(device(index)) }
    }

    private mutating func device(_ index: Int) -> DeviceSetup {
        var setup = DeviceSetup(account: traits.hasAccounts ? nil : "alice")
        // The first device is like everybody's, so that there is always one that shows what was paid.
        if index > 0, traits.mixesRules, dice.happens(perMille: 400) {
            setup.rule = ["latestExpiryWins", "remoteWins"][Int(dice.pick(0...1))]
        }
        if index > 0, traits.mixesCatalogs, dice.happens(perMille: 400) { setup.catalog = 1 }
        if traits.movesClocks, dice.happens(perMille: 500) {
            setup.clockOffset = dice.pick(-3...3) * dice.pick(1...400) * World.day / 4
        }
        if traits.polls, dice.happens(perMille: 500) { setup.pollingHours = Int(dice.pick(6...240)) }
        return setup
    }

    mutating func draw() -> Scenario {
        if traits.hasAccounts { drawAccounts() }
        for _ in 0..<dice.pick(3...12) { shop() }
        for _ in 0..<dice.pick(2...10) { keepInTouch() }
        drawTrouble()
        scenario.steps.sort { ($0.at, $0.device ?? -1) < ($1.at, $1.device ?? -1) }
        return scenario
    }

    var anyDevice: Int { mutating get { Int(dice.pick(0...Int64(scenario.devices.count - 1))) } }

    /// A moment: mostly any; often right beside something that happens anyway, since mistakes like company; at times
    /// the last hours of a month.
    var anyTime: Int64 {
        mutating get {
            let end = Int64(scenario.days) * World.day
            if !scenario.steps.isEmpty, dice.happens(perMille: traits.crowding) {
                let near = scenario.steps[Int(dice.pick(0...Int64(scenario.steps.count - 1)))].at
                return min(end - 1, max(0, near + dice.pick(-200...3_000)))
            }
            if traits.likesMonthEnds, dice.happens(perMille: 600) {
                // Ends of months of 2026 and later, as days since the beginning.
                let ends: [Int64] = [30, 58, 89, 119, 150, 180, 211, 242, 272, 303, 333, 364, 395, 423, 454]
                let day = ends[Int(dice.pick(0...Int64(ends.count - 1)))] - dice.pick(0...2)
                if day < scenario.days { return day * World.day + dice.pick(0...World.day - 1) }
            }
            return dice.pick(0...end - 1)
        }
    }

    /// 0 for the app, 1 for a second process where there is one.
    var anyProcess: Int { mutating get { traits.hasSecondProcess && dice.happens(perMille: 400) ? 1 : 0 } }

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
    var likesMonthEnds: Bool
    var refunds: Bool
    var hasOldServer: Bool
    /// How rough the network is: 0 for a good one.
    var roughness: Int
    var hasDiskFaults: Bool
    /// In how many of a thousand cases something happens beside something else.
    var crowding: Int

    init(_ dice: inout SeededGenerator) {
        hasAccounts = dice.happens(perMille: 350)
        isFolder = dice.happens(perMille: 200)
        tellsTime = dice.happens(perMille: 700)
        sharesUnits = dice.happens(perMille: 600)
        mixesRules = dice.happens(perMille: 200)
        mixesCatalogs = dice.happens(perMille: 200)
        movesClocks = dice.happens(perMille: 350)
        polls = dice.happens(perMille: 150)
        crashes = dice.happens(perMille: 500)
        hasSecondProcess = dice.happens(perMille: 300)
        losesLocalStores = dice.happens(perMille: 350)
        losesRemote = dice.happens(perMille: 300)
        fills = dice.happens(perMille: 200)
        lies = dice.happens(perMille: 150)
        erases = hasAccounts && dice.happens(perMille: 300)
        hasUnknownKinds = dice.happens(perMille: 200)
        likesMonthEnds = dice.happens(perMille: 300)
        refunds = dice.happens(perMille: 500)
        hasOldServer = dice.happens(perMille: 200)
        roughness = Int(dice.pick(0...3))
        hasDiskFaults = dice.happens(perMille: 300)
        crowding = Int(dice.pick(100...800))
    }

    func rates(_ dice: inout SeededGenerator) -> FaultRates {
        var rates = FaultRates()
        let highest = Int64([0, 20, 100, 300][roughness])
        rates.lostRequests = Int(dice.pick(0...highest))
        rates.lostAnswers = Int(dice.pick(0...highest))
        rates.repeatedRequests = Int(dice.pick(0...highest))
        rates.refusals = Int(dice.pick(0...highest))
        rates.staleReads = Int(dice.pick(0...highest))
        rates.delayed = Int(dice.pick(0...highest))
        rates.longestDelay = Int(dice.pick(1...2_000))
        rates.diskPauses = Int(dice.pick(0...500))
        if hasDiskFaults {
            rates.diskErrors = Int(dice.pick(0...50))
            rates.diskUnknowns = Int(dice.pick(0...100))
        }
        return rates
    }
}
