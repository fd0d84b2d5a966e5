import SyncCoreTesting
import SyncSimulation

/// Lets the servers of half of the scenarios derive rows, with faults of their own. It draws from a stream of its own,
/// so that a scenario without a projection stays as it was.
struct ProjectionGenerator {
    private var random: SeededGenerator
    private var scenario: ServiceScenario
    private var added: [ServiceStep] = []

    init(seed: UInt64, _ scenario: ServiceScenario) {
        random = RandomSource(seed: seed).generator(for: 0, 3, .scenario)
        self.scenario = scenario
    }

    mutating func draw() -> ServiceScenario {
        guard random.happens(perMille: 500) else { return scenario }
        var setup = ProjectionSetup()
        if scenario.servers.count > 1, random.happens(perMille: 250) { setup.idleServer = anyServer() }
        setup.deliversEvents = random.happens(perMille: 500)
        if setup.deliversEvents, random.happens(perMille: 500) { setup.lostDeliveries = Int(random.pick(0...300)) }
        scenario.projection = setup
        if setup.deliversEvents { add(400, 2) { .failReceiver(milliseconds: $0.random.pick(500...60_000)) } }
        if random.happens(perMille: 300) { addSubscription() }
        add(350, 2) {
            .failProjection(perMille: Int($0.random.pick(50...800)), milliseconds: $0.random.pick(500...30_000))
        }
        add(300, 2) {
            .freezeProjector(afterTransactions: Int($0.random.pick(0...5)), milliseconds: $0.random.pick(500...60_000))
        }
        add(250, 2) {
            .killProjector(afterTransactions: Int($0.random.pick(0...5)), pause: $0.random.pick(1...20_000))
        }
        add(250, 2) {
            let isInterrupted = $0.random.happens(perMille: 400)
            return .reindex(afterOperations: isInterrupted ? Int($0.random.pick(0...30)) : nil)
        }
        add(200, 2) { .freeze(server: $0.anyServer(), milliseconds: $0.random.pick(15_000...120_000)) }
        add(150, 2) { _ in .expireCursors }
        scenario.steps = (scenario.steps + added).sorted { $0.at < $1.at }
        return scenario
    }

    /// A subscription whose end comes while something happens.
    private mutating func addSubscription() {
        let time = (scenario.steps.last?.at ?? 0) + random.pick(2_000...10_000)
        let end = time + StoreDesk.periodLength + random.pick(-20_000...60_000)
        added.append(ServiceStep(at: time, .present(device: anyDevice(), sale: 12, isRestore: false)))
        added.append(ServiceStep(at: end, .read(device: anyDevice(), key: 0)))
        if random.happens(perMille: 500) { added.append(ServiceStep(at: end + 40_000, .sync(device: anyDevice()))) }
    }

    private mutating func anyServer() -> Int { Int(random.pick(0...Int64(scenario.servers.count - 1))) }
    private mutating func anyDevice() -> Int { Int(random.pick(0...Int64(scenario.devices.count - 1))) }

    private mutating func add(_ perMille: Int, _ most: Int64, _ action: (inout Self) -> ServiceAction) {
        guard random.happens(perMille: perMille) else { return }
        let end = scenario.steps.last?.at ?? 1_000
        for _ in 0..<random.pick(1...most) {
            // Mostly shortly before another step.
            let step = random.pick(scenario.steps)
            let time = random.happens(perMille: 800) ? step.at - random.pick(-300...1_500) : random.pick(1_000...end)
            added.append(ServiceStep(at: max(1_000, time), action(&self)))
        }
    }
}
