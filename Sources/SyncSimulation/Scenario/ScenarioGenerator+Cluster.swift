import SyncCoreTesting

extension ScenarioGenerator {
    /// Gives some scenarios a cluster as the remote, and fails it over.
    mutating func drawCluster() {
        // Uses a stream of its own, so that the other decisions of the seed stay the same.
        var random = RandomSource(seed: scenario.seed).generator(for: 3, 0, .scenario)
        guard random.happens(perMille: 250), scenario.remote.comparesAndSwaps else { return }
        scenario.remote.cluster = ClusterSetup(
            slowCommits: Int(random.pick(0...800)), longestCommit: Int(random.pick(1...20_000)),
            longestLag: Int(random.pick(0...10_000)))
        for _ in 0..<random.pick(0...4) {
            let time = random.pick(0...Int64(scenario.days) * World.day - 1)
            let count = random.happens(perMille: 200) ? 0 : Int(random.pick(1...6))
            add(.failOver(afterWrites: count, promotion: random.pick(20...20_000)), at: time, on: nil)
        }
        for _ in 0..<random.pick(0...2) {
            let time = random.pick(0...Int64(scenario.days) * World.day - 1)
            add(.switchOver(promotion: random.pick(20...20_000)), at: time, on: nil)
        }
    }
}
