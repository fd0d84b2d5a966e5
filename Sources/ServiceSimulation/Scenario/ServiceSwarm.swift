import SyncCoreTesting
import SyncSimulation

/// Generates scenarios from seeds. Each seed has its own mix of actions and faults, because a run with all of them
/// hides the effect of a single one.
package struct ServiceSwarm: Sendable {
    /// Creates a swarm.
    package init() {}

    /// The scenario of `seed`, the same each time.
    package func scenario(seed: UInt64) -> ServiceScenario {
        var generator = ServiceScenarioGenerator(seed: seed)
        var scenario = generator.draw()
        scenario.addDisturbances()
        var trade = TradeGenerator(seed: seed, scenario)
        var rare = RareCaseGenerator(seed: seed, trade.draw())
        var projection = ProjectionGenerator(seed: seed, rare.draw())
        return projection.draw()
    }
}

/// Builds the scenario of a seed.
private struct ServiceScenarioGenerator {
    private var random: SeededGenerator
    private var scenario: ServiceScenario
    private var time: Int64 = 1_000
    /// The weights of the actions that the seed enables.
    private var weights: [(Kind, Int64)] = []

    private enum Kind: CaseIterable {
        case signUp, logIn, guess, refresh, logOut, change, codes, recover, approve, erase, write, read, steal
        case sync, buy, present, notify, refund, support, watch, grant
        case kill, freeze, clock, rotate, failOver
    }

    private static let names = ["amber", "birch", "cedar"]
    private static let saleCount: Int64 = 6

    init(seed: UInt64) {
        random = RandomSource(seed: seed).generator(for: 0, 0, .scenario)
        scenario = ServiceScenario(seed: seed, devices: [])
    }

    mutating func draw() -> ServiceScenario {
        drawSurroundings()
        // A seed uses about half of the actions, and some of them often.
        for kind in Kind.allCases where random.happens(perMille: 550) {
            weights.append((kind, random.happens(perMille: 250) ? 6 : 2))
        }
        weights += [(.signUp, 1), (.logIn, 1), (.write, 1), (.present, 1)]
        for device in scenario.devices.indices where device == 0 || random.happens(perMille: 800) {
            add(.signUp(device: device), after: random.pick(0...300))
        }
        for _ in 0..<random.pick(2...7) { drawBurst() }
        scenario.steps.sort { $0.at < $1.at }
        return scenario
    }

    private mutating func drawSurroundings() {
        let isCluster = random.happens(perMille: 350)
        for _ in 0..<random.pick(1...3) {
            scenario.servers.append(random.happens(perMille: 300) ? random.pick(-100_000...100_000) : 0)
        }
        scenario.servers.removeFirst()
        if isCluster {
            scenario.cluster = ClusterSetup(
                slowCommits: Int(random.pick(0...100)), longestCommit: Int(random.pick(1...3_000)),
                longestLag: Int(random.pick(0...2_000)))
        }
        scenario.ownership = ServiceScenario.Ownership.allCases[Int(random.pick(0...2))]
        scenario.isVerified = random.happens(perMille: 700)
        let nameCount = random.pick(1...3)
        for _ in 0..<random.pick(2...5) {
            let name = Self.names[Int(random.pick(0...nameCount - 1))]
            // Another person who wants the same name, because names are folded.
            scenario.devices.append(random.happens(perMille: 150) ? name.uppercased() : name)
        }
        let highest = [0, 20, 100, 250][Int(random.pick(0...3))] as Int64
        scenario.link.lostRequests = Int(random.pick(0...highest))
        scenario.link.lostAnswers = Int(random.pick(0...highest))
        scenario.link.repeatedRequests = Int(random.pick(0...highest))
        // A client that repeats every request.
        if random.happens(perMille: 50) { scenario.link.repeatedRequests = 1_000 }
        scenario.link.slow = Int(random.pick(0...highest / 3))
        scenario.link.cutStreams = Int(random.pick(0...highest))
        scenario.link.longestDelay = Int(random.pick(1...800))
    }

    /// Adds actions in quick succession, after a pause of seconds or of hours.
    private mutating func drawBurst() {
        time += random.happens(perMille: 300) ? random.pick(900_000...200_000_000) : random.pick(1_000...40_000)
        let pace = [5, 80, 1_500, 6_000][Int(random.pick(0...3))] as Int64
        for _ in 0..<random.pick(2...9) {
            let action = anyAction()
            add(action, after: random.pick(0...pace))
            // A repetition by another device, at about the same time.
            if random.happens(perMille: 250), let other = repeated(action) { add(other, after: random.pick(0...30)) }
            // A restore by another device, some time later.
            if case .present(_, let sale, _) = action, random.happens(perMille: 300) {
                add(.present(device: anyDevice(), sale: sale, isRestore: true), after: random.pick(2_000...20_000))
            }
        }
    }

    private mutating func add(_ action: ServiceAction, after pause: Int64) {
        time += pause
        scenario.steps.append(ServiceStep(at: time, action))
    }

    private mutating func repeated(_ action: ServiceAction) -> ServiceAction? {
        switch action {
        case .signUp: .signUp(device: anyDevice())
        case .logIn: .logIn(device: anyDevice())
        case .changePassword:
            random.happens(perMille: 500) ? .changePassword(device: anyDevice()) : .logIn(device: anyDevice())
        case .recover: .recover(device: anyDevice())
        case .erase: .write(device: anyDevice(), key: 0)
        case .present(_, let sale, let isRestore):
            random.happens(perMille: 500)
                ? .notify(sale: sale) : .present(device: anyDevice(), sale: sale, isRestore: isRestore)
        case .write(_, let key): .write(device: anyDevice(), key: key)
        default: nil
        }
    }

    private mutating func anyDevice() -> Int { Int(random.pick(0...Int64(scenario.devices.count - 1))) }
    private mutating func anySale() -> Int { Int(random.pick(0...Self.saleCount - 1)) }
    private mutating func anyServer() -> Int { Int(random.pick(0...Int64(scenario.servers.count - 1))) }

    private mutating func anyKind() -> Kind {
        var rest = random.pick(0...weights.reduce(0) { $0 + $1.1 } - 1)
        for (kind, weight) in weights {
            rest -= weight
            if rest < 0 { return kind }
        }
        return .write
    }

    private mutating func anyAction() -> ServiceAction {
        switch anyKind() {
        case .signUp: .signUp(device: anyDevice())
        case .logIn: .logIn(device: anyDevice())
        case .guess: .guess(device: anyDevice())
        case .refresh: .refreshTwice(device: anyDevice())
        case .logOut: .logOut(device: anyDevice(), everywhere: random.happens(perMille: 500))
        case .change: .changePassword(device: anyDevice())
        case .codes: .renewCodes(device: anyDevice())
        case .recover: .recover(device: anyDevice())
        case .approve: .approve(device: anyDevice(), approver: anyDevice())
        case .erase: .erase(device: anyDevice())
        case .write: .write(device: anyDevice(), key: Int(random.pick(0...2)))
        case .read: .read(device: anyDevice(), key: Int(random.pick(0...2)))
        case .steal: .tryOldCredentials(device: anyDevice())
        case .sync: .sync(device: anyDevice())
        case .buy: .buy(device: anyDevice(), sale: anySale())
        case .present: .present(device: anyDevice(), sale: anySale(), isRestore: random.happens(perMille: 400))
        case .notify: .notify(sale: anySale())
        case .refund: .refund(sale: anySale())
        case .support:
            .support(device: anyDevice(), sale: anySale(), isTransfer: random.happens(perMille: 500))
        case .watch: .watch(device: anyDevice())
        case .grant: .grant(device: anyDevice())
        case .kill:
            .kill(server: anyServer(), afterOperations: Int(random.pick(0...40)), pause: random.pick(1...20_000))
        case .freeze: .freeze(server: anyServer(), milliseconds: random.pick(500...180_000))
        case .clock: .moveClock(server: anyServer(), milliseconds: random.pick(-3_000_000...100_000))
        case .rotate: .rotateKeys(removesFormer: random.happens(perMille: 500))
        case .failOver: anyFailOver()
        }
    }

    private mutating func anyFailOver() -> ServiceAction {
        random.happens(perMille: 500)
            ? .failOver(afterWrites: Int(random.pick(0...10)), promotion: random.pick(0...20_000))
            : .switchOver(promotion: random.pick(0...10_000))
    }
}
