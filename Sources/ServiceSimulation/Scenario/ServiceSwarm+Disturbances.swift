import SyncCoreTesting
import SyncSimulation

extension ServiceScenario {
    /// Adds faults of the store and of programs, conditional writes and restores at random times. They have a generator
    /// of their own, so that the other steps of a seed do not depend on them.
    mutating func addDisturbances() {
        var random = RandomSource(seed: seed).generator(for: 1, 0, .scenario)
        var added: [ServiceStep] = []
        let end = steps.last?.at ?? 1_000
        func anyTime() -> Int64 {
            // Mostly close to another step, while something happens.
            guard random.happens(perMille: 800), let step = steps.randomElement(using: &random) else {
                return random.pick(1_000...end)
            }
            return max(1_000, step.at + random.pick(-500...2_000))
        }
        func anyDevice() -> Int { Int(random.pick(0...Int64(devices.count - 1))) }
        func anyServer() -> Int { Int(random.pick(0...Int64(servers.count - 1))) }
        func add(_ perMille: Int, _ most: Int64, _ action: () -> ServiceAction) {
            guard random.happens(perMille: perMille) else { return }
            for _ in 0..<random.pick(1...most) { added.append(ServiceStep(at: anyTime(), action())) }
        }
        add(150, 2) { .stop(server: anyServer(), pause: random.pick(1...20_000)) }
        // The cluster has failures of its own.
        if cluster == nil {
            add(150, 2) {
                .failStore(perMille: Int(random.pick(20...600)), milliseconds: random.pick(100...15_000))
            }
        }
        add(100, 2) { .expireCursors }
        add(200, 3) { .replace(device: anyDevice(), key: Int(random.pick(0...2))) }
        add(150, 2) { .delete(device: anyDevice(), key: Int(random.pick(0...2))) }
        if steps.contains(where: \.action.isSupport) {
            add(300, 2) { .interruptSupport(afterOperations: Int(random.pick(0...40))) }
        }
        if ownership == .transfer, random.happens(perMille: 400) {
            let sale = Int(random.pick(0...5))
            var time = anyTime()
            for _ in 0..<random.pick(2...5) {
                added.append(ServiceStep(at: time, .present(device: anyDevice(), sale: sale, isRestore: true)))
                time +=
                    random.happens(perMille: 400)
                    ? random.pick(80_000_000...100_000_000) : random.pick(1_500...20_000)
            }
        }
        steps = (steps + added).sorted { $0.at < $1.at }
    }
}

extension ServiceAction {
    fileprivate var isSupport: Bool { if case .support = self { true } else { false } }
}
