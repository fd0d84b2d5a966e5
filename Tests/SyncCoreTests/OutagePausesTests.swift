import SyncCore
import SyncCoreTesting
import Testing

@Suite("Pauses during an outage")
struct OutagePausesTests {
    @Test("In the first minute no pause exceeds 5 s, then they grow to the longest; each is at least half its bound")
    func growth() {
        for seed in 0..<100 as Range<UInt64> {
            var generator = SeededGenerator(seed: seed)
            var pauses = OutagePauses(longest: .seconds(900))
            var waited = Duration.zero
            var last = Duration.zero
            for _ in 0..<40 {
                last = pauses.next(using: &generator)
                if waited < .seconds(60) { #expect(last <= .seconds(5)) }
                waited += last
            }
            #expect(last >= .seconds(450) && last <= .seconds(900))
            pauses.reset()
            #expect(pauses.next(using: &generator) <= .seconds(1))
        }
    }

    @Test("A thousand devices that lost their server together do not return together")
    func spread() {
        var returns: [Duration] = []
        for seed in 0..<1_000 as Range<UInt64> {
            var generator = SeededGenerator(seed: seed)
            var pauses = OutagePauses(longest: .seconds(60))
            var time = Duration.zero
            // The server is away for 30 s.
            while time < .seconds(30) { time += pauses.next(using: &generator) }
            returns.append(time)
        }
        let slots = Dictionary(grouping: returns) { Int($0 / .milliseconds(100)) }
        #expect(slots.values.map(\.count).max() ?? 0 < 60)
        #expect(returns.allSatisfy { $0 <= .seconds(35) })
    }

    @Test("The time that the remote asks for is added in full, up to a day")
    func asked() {
        var generator = SeededGenerator(seed: 1)
        var pauses = OutagePauses(longest: .seconds(60))
        let pause = pauses.next(asked: .seconds(120), using: &generator)
        #expect(pause >= .seconds(120.5) && pause <= .seconds(121))
        #expect(pauses.next(asked: .seconds(1_000_000_000), using: &generator) <= .seconds(86_402))
        #expect(pauses.next(asked: .seconds(-5), using: &generator) > .zero)
    }
}
