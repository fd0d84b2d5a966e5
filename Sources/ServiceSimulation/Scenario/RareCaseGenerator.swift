import SyncCoreTesting
import SyncSimulation

/// Adds a case that random steps rarely meet to the end of some scenarios: an interruption between two writes, or a
/// race about one purchase. It draws from a stream of its own, so that a scenario without a case stays as it was.
struct RareCaseGenerator {
    private enum Case: CaseIterable {
        case unstoredClaim, lateLedger, claimToRenewal, interruptedTransfer, lostRace, oldStatement, crowd
        case lateWrite, patientGuesses
    }

    private var random: SeededGenerator
    private var scenario: ServiceScenario
    private var time: Int64

    /// Sales of products that few other steps sell.
    private static let sales: ClosedRange<Int64> = 6...7

    init(seed: UInt64, _ scenario: ServiceScenario) {
        random = RandomSource(seed: seed).generator(for: 0, 2, .scenario)
        self.scenario = scenario
        time = (scenario.steps.last?.at ?? 0) + 10_000
    }

    mutating func draw() -> ServiceScenario {
        guard random.happens(perMille: 300) else { return scenario }
        switch random.pick(Case.allCases) {
        case .unstoredClaim: drawClaims(isStored: false)
        case .lateLedger: drawClaims(isStored: true)
        case .claimToRenewal: drawClaimToRenewal()
        case .interruptedTransfer: drawInterruptedTransfer()
        case .lostRace: drawLostRace()
        case .oldStatement: drawOldStatement()
        case .crowd: drawCrowd()
        case .lateWrite: drawLateWrite()
        case .patientGuesses: drawPatientGuesses()
        }
        return scenario
    }

    private mutating func add(_ action: ServiceAction, after pause: ClosedRange<Int64>) {
        time += random.pick(pause)
        scenario.steps.append(ServiceStep(at: time, action))
    }

    /// Two devices of different accounts, which log in.
    private mutating func pair() -> (Int, Int) {
        let first = Int(random.pick(0...Int64(scenario.devices.count - 1)))
        let name = ServiceAudit.folded(scenario.devices[first])
        let others = scenario.devices.indices.filter { ServiceAudit.folded(scenario.devices[$0]) != name }
        let second = others.isEmpty ? scenario.devices.count : random.pick(others)
        if others.isEmpty { scenario.devices.append(name == "birch" ? "cedar" : "birch") }
        for device in [first, second] { add(.signUp(device: device), after: 1_500...3_000) }
        return (first, second)
    }

    /// Lets several servers run, so that others answer while the first one is suspended.
    private mutating func addServer() {
        if scenario.servers.count < 2 { scenario.servers.append(0) }
    }

    private mutating func suspend(afterWrites most: ClosedRange<Int64>, milliseconds: ClosedRange<Int64>) {
        addServer()
        let action = ServiceAction.suspend(
            server: 0, afterWrites: Int(random.pick(most)), milliseconds: random.pick(milliseconds))
        add(action, after: 5_000...8_000)
    }

    /// Lets the servers trust their clients from the start.
    private mutating func trustClients() {
        (scenario.isVerified, scenario.later) = (false, nil)
        if scenario.ownership == .share { scenario.ownership = .keepWithFirst }
    }

    /// An account claims a purchase, and its ledger is stored late, or never. Another account reports the purchase.
    private mutating func drawClaims(isStored: Bool) {
        trustClients()
        let sale = Int(random.pick(Int64(StoreDesk.seasons.lowerBound)...Int64(StoreDesk.seasons.upperBound - 1)))
        let (first, second) = pair()
        suspend(afterWrites: 0...3, milliseconds: isStored ? 80_000...170_000 : 3_000...10_000)
        add(.report(device: first, sale: sale), after: 20...100)
        // The device does not try again.
        add(.logOut(device: first, everywhere: true), after: 1_000...2_500)
        if !isStored { add(.kill(server: 0, afterOperations: 0, pause: 1_000), after: 20...200) }
        add(.report(device: second, sale: sale), after: 64_000...78_000)
        add(.sync(device: second), after: 70_000...120_000)
    }

    /// An account has proved a renewal, and another one reports it.
    private mutating func drawClaimToRenewal() {
        trustClients()
        let (first, second) = pair()
        let sale = Int(random.pick(13...15))
        add(.present(device: first, sale: sale, isRestore: false), after: 2_000...5_000)
        // Renewals begin a day after each other.
        add(.signUp(device: second), after: 270_000_000...300_000_000)
        add(.report(device: second, sale: sale), after: 2_000...5_000)
        add(.sync(device: second), after: 2_000...90_000)
    }

    /// A server is suspended while it moves a sale to another account, and others answer about both accounts.
    private mutating func drawInterruptedTransfer() {
        scenario.ownership = .transfer
        let (sale, pair) = (Int(random.pick(Self.sales)), pair())
        add(.present(device: pair.0, sale: sale, isRestore: false), after: 2_000...5_000)
        suspend(afterWrites: 2...5, milliseconds: 60_000...120_000)
        add(.present(device: pair.1, sale: sale, isRestore: true), after: 20...100)
        for _ in 0..<3 {
            add(.grant(device: pair.1), after: 1_000...4_000)
            add(.grant(device: pair.0), after: 1_000...4_000)
        }
    }

    /// A server is suspended while it writes what an account presents, and the account loses the sale meanwhile.
    private mutating func drawLostRace() {
        scenario.ownership = .transfer
        let (sale, pair) = (Int(random.pick(Self.sales)), pair())
        add(.present(device: pair.0, sale: sale, isRestore: false), after: 2_000...5_000)
        suspend(afterWrites: 0...2, milliseconds: 15_000...60_000)
        add(.present(device: pair.0, sale: sale, isRestore: false), after: 20...100)
        add(.present(device: pair.1, sale: sale, isRestore: true), after: 1_000...6_000)
    }

    /// A restore presents a statement that was signed hours ago.
    private mutating func drawOldStatement() {
        scenario.ownership = .transfer
        let (sale, pair) = (Int(random.pick(Self.sales)), pair())
        add(.present(device: pair.0, sale: sale, isRestore: false), after: 2_000...5_000)
        add(.signUp(device: pair.1), after: 14_400_000...100_000_000)
        add(.presentFormer(device: pair.1, sale: sale, isRestore: true), after: 2_000...5_000)
    }

    /// More accounts present a shared sale than may have it.
    private mutating func drawCrowd() {
        scenario.ownership = .share
        let sale = Int(random.pick(Self.sales))
        let first = scenario.devices.count
        scenario.devices += (1...9).map { "member\($0)" }
        for device in first..<first + 9 { add(.signUp(device: device), after: 300...1_500) }
        for device in 0..<first + 9 where device == 0 || device >= first {
            add(.present(device: device, sale: sale, isRestore: false), after: 500...3_000)
        }
    }

    /// A server is suspended before it writes for an account, which is erased meanwhile.
    private mutating func drawLateWrite() {
        let (device, _) = pair()
        suspend(afterWrites: 0...1, milliseconds: 20_000...60_000)
        add(.write(device: device, key: 0), after: 20...100)
        add(.erase(device: device), after: 1_000...4_000)
    }

    /// Guesses between log-ins with the right password.
    private mutating func drawPatientGuesses() {
        let (device, _) = pair()
        for _ in 0..<10 {
            add(.guessOften(device: device, count: 9, isParallel: false), after: 1_000...3_000)
            add(.logIn(device: device), after: 6_000...9_000)
        }
    }
}
