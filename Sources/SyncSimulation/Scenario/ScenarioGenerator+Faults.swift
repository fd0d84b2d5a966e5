import SyncCoreTesting

extension ScenarioGenerator {
    /// Adds the faults that happen at a given time.
    mutating func drawFaults() {
        if traits.crashes { drawCrashes() }
        if traits.losesLocalStores { drawLocalLosses() }
        if traits.losesRemote { drawRemoteLosses() }
        if traits.movesClocks { drawClocks() }
        if traits.movesClocks, traits.polls, traits.tellsTime { drawHeldClock() }
        if traits.movesClocks, traits.hasSecondProcess, traits.tellsTime { drawConflictingClocks() }
        if traits.roughness > 0 { drawCuts() }
        if traits.fills {
            add(.fill(random.pick(1...30) * World.day), at: anyTime, on: anyDevice)
            if random.happens(perMille: 500) { add(.fillRemote(random.pick(1...30) * World.day), at: anyTime, on: nil) }
        }
        if traits.lies { drawMaliciousWrites() }
    }

    private mutating func drawCrashes() {
        for _ in 0..<random.pick(1...6) {
            let count = random.happens(perMille: 200) ? 0 : Int(random.pick(1...25))
            let (device, process, time) = (anyDevice, anyProcess, anyTime)
            add(.crash(afterOperations: count), at: time, on: device, process: process)
            if random.happens(perMille: 500) {
                add(.sync, at: time + random.pick(0...2_000), on: device, process: process)
            }
        }
    }

    private mutating func drawLocalLosses() {
        for _ in 0..<random.pick(1...3) {
            let (device, time) = (anyDevice, anyTime)
            switch random.pick(0...4) {
            case 0: add(.wipe, at: time, on: device)
            case 1 where scenario.devices.count > 1: add(.lose, at: time, on: device)
            default:
                add(.backUp, at: time, on: device)
                add(.putBack, at: time + random.pick(1...100) * random.pick(1...World.day), on: device)
            }
        }
    }

    private mutating func drawRemoteLosses() {
        for _ in 0..<random.pick(1...2) {
            let time = anyTime
            if random.happens(perMille: 350) {
                add(.wipeRemote, at: time, on: nil)
            } else {
                add(.backUpRemote, at: time, on: nil)
                add(.putBackRemote, at: time + random.pick(1...100) * random.pick(1...World.day), on: nil)
            }
        }
    }

    private mutating func drawClocks() {
        for _ in 0..<random.pick(1...4) {
            let amount = random.pick([World.hour, World.day, 31 * World.day, 365 * World.day, 36_500 * World.day])
            add(.moveClock(random.happens(perMille: 500) ? amount : -amount), at: anyTime, on: anyDevice)
        }
        if random.happens(perMille: 300) {
            let amount = random.pick(-400...400) * World.day / 4
            add(.moveRemoteClock(amount, for: random.pick(60_000...World.day)), at: anyTime, on: nil)
        }
        // A user who sets the clock back every day.
        if random.happens(perMille: 150) {
            let device = anyDevice
            var time = anyTime
            for _ in 0..<10 {
                time += World.day
                add(.moveClock(-World.day), at: time, on: device)
                add(.look, at: time + World.hour, on: device)
            }
        }
    }

    /// Sets the clock of a polling device back right before a purchased week ends: the rollback guard then holds the
    /// time there for days.
    private mutating func drawHeldClock() {
        // Uses a stream of its own, so that the other decisions of the seed stay the same.
        var random = RandomSource(seed: scenario.seed).generator(for: 1, 0, .scenario)
        let time = random.pick(0...Int64(scenario.days) * World.day - 1)
        guard random.happens(perMille: 300), let device = scenario.devices.firstIndex(where: { $0.pollingHours != nil })
        else { return }
        let end = time + 5_000 + 7 * World.day
        add(.sync, at: time, on: device)
        add(.buy(Sale(newID("t"), of: "week")), at: time + 5_000, on: device)
        let last = end - random.pick(100...5_000)
        add(.look, at: last, on: device)
        add(.moveClock(-random.pick(1...31) * World.day), at: last + random.pick(50...100), on: device)
    }

    /// Moves the clock after two processes reached the remote; then one of them reaches it again, while the other one
    /// keeps its outdated time.
    private mutating func drawConflictingClocks() {
        var random = RandomSource(seed: scenario.seed).generator(for: 2, 0, .scenario)
        let time = random.pick(0...Int64(scenario.days) * World.day - 1)
        guard random.happens(perMille: 300) else { return }
        let device = Int(random.pick(0...Int64(scenario.devices.count - 1)))
        add(.sync, at: time, on: device, process: 0)
        add(.sync, at: time + World.hour, on: device, process: 1)
        add(.moveClock(random.pick(-400...400) * World.day / 4), at: time + 2 * World.hour, on: device)
        for round in 0..<random.pick(1...4) {
            let next = time + (3 + round) * World.hour
            add(.sync, at: next, on: device, process: 0)
            add(.look, at: next + random.pick(0...2_000), on: device, process: 1)
        }
    }

    private mutating func drawCuts() {
        for _ in 0..<random.pick(0...3) {
            let isBoth = random.happens(perMille: 500)
            let isOutgoing = random.happens(perMille: 500)
            add(
                .cut(
                    requests: isBoth || isOutgoing, answers: isBoth || !isOutgoing,
                    random.pick(1...40) * random.pick(1...World.day)), at: anyTime, on: anyDevice)
        }
    }

    private mutating func drawMaliciousWrites() {
        for _ in 0..<random.pick(1...3) {
            let lie: MaliciousWrite =
                switch random.pick(0...4) {
                case 0: .oldContent
                case 1: .deletion
                case 2: .garbage(random.pick(1...20) * World.day)
                case 3: .laterFormat(random.pick(1...20) * World.day)
                default: .forgedRefunds
                }
            add(.lie(lie), at: anyTime, on: nil)
        }
    }
}
