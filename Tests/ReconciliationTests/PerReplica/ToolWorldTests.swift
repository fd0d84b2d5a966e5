import EntitlementsTestSupport
import TestSupport
import Testing

@Suite("Devices whose folders a file-sync tool shares")
struct ToolWorldTests {
    @Test("Whatever the tool does, no acknowledged fact is lost, all devices converge, and idle syncs write nothing")
    func worlds() async throws {
        let cases = Soak.caseCount(3_000, least: 500)
        let seed = printedSeed("file-sync tool")
        var total = ToolWorld.Tally()
        var facts = 0
        for number in 0..<cases {
            let place: Comment = "seed \(seed), case \(number)"
            var random = SplitMix64(seed: seed &+ UInt64(number) &* 0xD1B5_4A32_D192_ED03)
            var world = try ToolWorld(devices: Int(random.int(2...4)), random: random)
            for _ in 0..<150 { try await world.step() }
            try await world.heal(rounds: 4)
            try #require(world.violation == nil, place)
            let contents = try await world.contents()
            try #require(Set(contents).count == 1, "\(contents); \(place)")
            try #require(world.acknowledged & ~contents[0] == 0, "lost \(world.acknowledged & ~contents[0]); \(place)")
            try #require(contents[0] & ~world.recorded == 0, place)
            let idle = Array(repeating: [1, 0, 0], count: world.devices.count)
            try #require(try await world.idleRequests() == idle, place)
            world.restartAll()
            try #require(try await world.idleRequests() == idle, place)
            try #require(world.violation == nil, place)
            total.add(world.tally)
            facts += contents[0].nonzeroBitCount
        }
        print("\(cases) worlds, \(facts) facts: \(total)")
        #expect(facts > cases * 5)
        for count in [total.halves, total.copies, total.olderFiles, total.losses, total.clones, total.restores] {
            #expect(count > cases / 10, "\(total)")
        }
        #expect(total.unreadable > cases / 10, "\(total)")
    }
}

extension ToolWorld.Tally {
    fileprivate mutating func add(_ other: ToolWorld.Tally) {
        halves += other.halves
        copies += other.copies
        olderFiles += other.olderFiles
        losses += other.losses
        clones += other.clones
        restores += other.restores
        unreadable += other.unreadable
    }
}
