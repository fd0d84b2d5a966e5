import SyncCoreTesting
import SyncSimulation

/// Adds subscriptions, spends, claims, forgeries, content, floods and later configurations to a scenario, around the
/// times of its steps. It draws from a stream of its own, so that a scenario without additions stays as it was.
struct TradeGenerator {
    private enum Kind: CaseIterable {
        case seasons, renewals, coins, claims, forgeries, content, floods, guesses, catchUp
        case former, approvals
    }

    private var random: SeededGenerator
    private var scenario: ServiceScenario
    private let anchors: [Int64]

    init(seed: UInt64, _ scenario: ServiceScenario) {
        random = RandomSource(seed: seed).generator(for: 0, 1, .scenario)
        self.scenario = scenario
        anchors = scenario.steps.map(\.at)
    }

    mutating func draw() -> ServiceScenario {
        guard random.happens(perMille: 600), !anchors.isEmpty else { return scenario }
        let kinds = Kind.allCases.filter { _ in random.happens(perMille: 350) }
        if random.happens(perMille: 300) {
            scenario.limits = AccountLimits(
                writesPerSecond: Double(random.pick(1...8)) / 4, writeBurst: Int(random.pick(10...40)),
                keys: Int(random.pick(4...10)))
        }
        for kind in kinds {
            for _ in 0..<random.pick(1...3) { drawBurst(of: kind) }
        }
        if random.happens(perMille: 250) { drawLaterConfiguration() }
        scenario.steps.sort { $0.at < $1.at }
        return scenario
    }

    private mutating func drawBurst(of kind: Kind) {
        var time = anyTime()
        if kind == .approvals { return drawApproval(at: time) }
        let pace = random.pick([20, 500, 5_000] as [Int64])
        for action in actions(of: kind) {
            time += random.pick(0...pace)
            scenario.steps.append(ServiceStep(at: time, action))
        }
    }

    /// A change of the password between the approval of a device and its next poll, which follow after 3 and 5 seconds.
    private mutating func drawApproval(at time: Int64) {
        let (device, approver) = (anyDevice(), anyDevice())
        let steps: [(Int64, ServiceAction)] = [
            (0, .logIn(device: approver)), (4_000, .approve(device: device, approver: approver)),
            (4_000 + random.pick(3_000...5_000), .changePassword(device: approver)),
            (14_000 + random.pick(0...4_000), .write(device: device, key: 1)),
        ]
        scenario.steps += steps.map { ServiceStep(at: time + $0.0, $0.1) }
    }

    private mutating func drawLaterConfiguration() {
        scenario.later = LaterConfiguration(
            isVerified: random.happens(perMille: 500), extraMonths: random.pick(0...1))
        let time = anyTime()
        for server in scenario.servers.indices where random.happens(perMille: 700) {
            scenario.steps.append(ServiceStep(at: time + random.pick(0...60_000), .reconfigure(server: server)))
        }
    }

    private mutating func anyTime() -> Int64 { random.pick(anchors) + random.pick(0...8_000) }
    private mutating func anyDevice() -> Int { Int(random.pick(0...Int64(scenario.devices.count - 1))) }

    private mutating func actions(of kind: Kind) -> [ServiceAction] {
        switch kind {
        case .seasons: sales(of: StoreDesk.seasons)
        case .renewals: sales(of: StoreDesk.renewals)
        case .coins: coins()
        case .claims: claims()
        case .forgeries: [.forge(device: anyDevice(), sale: Int(random.pick(0...11)))]
        case .content: content()
        case .floods: [.flood(device: anyDevice(), count: Int(random.pick(10...90)))]
        case .guesses: guesses()
        case .catchUp: [.catchUp]
        case .former: former()
        case .approvals: []
        }
    }

    private mutating func anySale(of sales: Range<Int>) -> Int {
        Int(random.pick(Int64(sales.lowerBound)...Int64(sales.upperBound - 1)))
    }

    /// Statements about some sales, mostly by one buyer, in any order, with refunds and reversals.
    private mutating func sales(of sales: Range<Int>) -> [ServiceAction] {
        let buyer = anyDevice()
        var actions: [ServiceAction] = []
        if random.happens(perMille: 350) {
            actions.append(
                .nameOwner(device: random.happens(perMille: 700) ? buyer : anyDevice(), sale: anySale(of: sales)))
        }
        for _ in 0..<random.pick(1...6) {
            let sale = anySale(of: sales)
            let device = random.happens(perMille: 800) ? buyer : anyDevice()
            switch random.pick(0...9) {
            case 0...3: actions.append(.present(device: device, sale: sale, isRestore: random.happens(perMille: 300)))
            case 4: actions.append(.buy(device: device, sale: sale))
            case 5...6: actions.append(.notify(sale: sale))
            case 7: actions.append(.refund(sale: sale))
            case 8: actions += [.refund(sale: sale), .reverseRefund(sale: sale)]
            default: actions.append(.present(device: anyDevice(), sale: sale, isRestore: true))
            }
        }
        return actions
    }

    private mutating func coins() -> [ServiceAction] {
        let buyer = anyDevice()
        var actions: [ServiceAction] = []
        for _ in 0..<random.pick(1...2) {
            let sale = anySale(of: StoreDesk.coins)
            actions.append(
                random.happens(perMille: 500)
                    ? .buy(device: buyer, sale: sale) : .present(device: buyer, sale: sale, isRestore: false))
        }
        for _ in 0..<random.pick(1...8) {
            let device = random.happens(perMille: 600) ? buyer : anyDevice()
            actions.append(.use(device: device, spend: Int(random.pick(0...9))))
        }
        return actions
    }

    /// A report without evidence beside evidence by others.
    private mutating func claims() -> [ServiceAction] {
        let sale = anySale(of: 0..<12)
        var actions: [ServiceAction] = [.report(device: anyDevice(), sale: sale)]
        for _ in 0..<random.pick(0...3) {
            switch random.pick(0...3) {
            case 0: actions.append(.report(device: anyDevice(), sale: sale))
            case 1: actions.append(.notify(sale: sale))
            default:
                let isRestore = random.happens(perMille: 400)
                actions.append(.present(device: anyDevice(), sale: sale, isRestore: isRestore))
            }
        }
        return actions
    }

    private mutating func guesses() -> [ServiceAction] {
        let isParallel = random.happens(perMille: 500)
        return [.guessOften(device: anyDevice(), count: Int(random.pick(5...60)), isParallel: isParallel)]
    }

    /// A statement from before a refund, by a device that learns of the refund later or never.
    private mutating func former() -> [ServiceAction] {
        let sale = anySale(of: 0..<12)
        var actions: [ServiceAction] = [.notify(sale: sale), .refund(sale: sale)]
        if random.happens(perMille: 500) {
            let owner = anyDevice()
            actions.insert(.present(device: owner, sale: sale, isRestore: false), at: 1)
            if random.happens(perMille: 300) { actions.append(.erase(device: owner)) }
        }
        return actions + [.presentFormer(device: anyDevice(), sale: sale, isRestore: false)]
    }

    private mutating func content() -> [ServiceAction] {
        let (device, sale) = (anyDevice(), anySale(of: 0..<6))
        var actions: [ServiceAction] = [
            .present(device: device, sale: sale, isRestore: false), .openContent(device: device),
        ]
        if random.happens(perMille: 400) { actions.append(.refund(sale: sale)) }
        if random.happens(perMille: 300) { actions.append(.logOut(device: device, everywhere: true)) }
        return actions + [.openContent(device: device)]
    }
}
