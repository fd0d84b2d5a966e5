import SyncCoreTesting

extension Drawing {
    /// What goes wrong at moments of its own.
    mutating func drawTrouble() {
        if traits.crashes { drawCrashes() }
        if traits.losesLocalStores { drawLocalLosses() }
        if traits.losesRemote { drawRemoteLosses() }
        if traits.movesClocks { drawClocks() }
        if traits.movesClocks, traits.polls, traits.tellsTime { drawStandstill() }
        if traits.movesClocks, traits.hasSecondProcess, traits.tellsTime { drawTwoOpinions() }
        if traits.roughness > 0 { drawCuts() }
        if traits.fills {
            add(.fill(dice.pick(1...30) * World.day), at: anyTime, on: anyDevice)
            if dice.happens(perMille: 500) { add(.fillRemote(dice.pick(1...30) * World.day), at: anyTime, on: nil) }
        }
        if traits.lies { drawLies() }
    }

    private mutating func drawCrashes() {
        for _ in 0..<dice.pick(1...6) {
            let count = dice.happens(perMille: 200) ? 0 : Int(dice.pick(1...25))
            let (device, process, time) = (anyDevice, anyProcess, anyTime)
            add(.crash(afterOperations: count), at: time, on: device, process: process)
            if dice.happens(perMille: 500) {
                add(.sync, at: time + dice.pick(0...2_000), on: device, process: process)
            }
        }
    }

    private mutating func drawLocalLosses() {
        for _ in 0..<dice.pick(1...3) {
            let (device, time) = (anyDevice, anyTime)
            switch dice.pick(0...4) {
            case 0: add(.wipe, at: time, on: device)
            case 1 where scenario.devices.count > 1: add(.lose, at: time, on: device)
            default:
                add(.backUp, at: time, on: device)
                add(.putBack, at: time + dice.pick(1...100) * dice.pick(1...World.day), on: device)
            }
        }
    }

    private mutating func drawRemoteLosses() {
        for _ in 0..<dice.pick(1...2) {
            let time = anyTime
            if dice.happens(perMille: 350) {
                add(.wipeRemote, at: time, on: nil)
            } else {
                add(.backUpRemote, at: time, on: nil)
                add(.putBackRemote, at: time + dice.pick(1...100) * dice.pick(1...World.day), on: nil)
            }
        }
    }

    private mutating func drawClocks() {
        for _ in 0..<dice.pick(1...4) {
            let amount = [World.hour, World.day, 31 * World.day, 365 * World.day, 36_500 * World.day][
                Int(dice.pick(0...4))]
            add(.moveClock(dice.happens(perMille: 500) ? amount : -amount), at: anyTime, on: anyDevice)
        }
        if dice.happens(perMille: 300) {
            let amount = dice.pick(-400...400) * World.day / 4
            add(.moveRemoteClock(amount, for: dice.pick(60_000...World.day)), at: anyTime, on: nil)
        }
        // Somebody who sets the clock back every day.
        if dice.happens(perMille: 150) {
            let device = anyDevice
            var time = anyTime
            for _ in 0..<10 {
                time += World.day
                add(.moveClock(-World.day), at: time, on: device)
                add(.look, at: time + World.hour, on: device)
            }
        }
    }

    /// On a device that keeps itself current the clock is set back right before a week that was bought ends: a mark
    /// holds the time there for days.
    private mutating func drawStandstill() {
        // With dice of its own: what else the seed draws is as it was.
        var dice = Dice(seed: scenario.seed).generator(for: 1, 0, .drawing)
        let time = dice.pick(0...Int64(scenario.days) * World.day - 1)
        guard dice.happens(perMille: 300), let device = scenario.devices.firstIndex(where: { $0.pollingHours != nil })
        else { return }
        let end = time + 5_000 + 7 * World.day
        add(.sync, at: time, on: device)
        add(.buy(Sale(newTransaction(), of: "week")), at: time + 5_000, on: device)
        let last = end - dice.pick(100...5_000)
        add(.look, at: last, on: device)
        add(.moveClock(-dice.pick(1...31) * World.day), at: last + dice.pick(50...100), on: device)
    }

    /// Two processes have met the remote, the device's clock is moved, and one meets it again while the other keeps
    /// what it still believes.
    private mutating func drawTwoOpinions() {
        var dice = Dice(seed: scenario.seed).generator(for: 2, 0, .drawing)
        let time = dice.pick(0...Int64(scenario.days) * World.day - 1)
        guard dice.happens(perMille: 300) else { return }
        let device = Int(dice.pick(0...Int64(scenario.devices.count - 1)))
        add(.sync, at: time, on: device, process: 0)
        add(.sync, at: time + World.hour, on: device, process: 1)
        add(.moveClock(dice.pick(-400...400) * World.day / 4), at: time + 2 * World.hour, on: device)
        for round in 0..<dice.pick(1...4) {
            let next = time + (3 + round) * World.hour
            add(.sync, at: next, on: device, process: 0)
            add(.look, at: next + dice.pick(0...2_000), on: device, process: 1)
        }
    }

    private mutating func drawCuts() {
        for _ in 0..<dice.pick(0...3) {
            let isBoth = dice.happens(perMille: 500)
            let isOutgoing = dice.happens(perMille: 500)
            add(
                .cut(
                    requests: isBoth || isOutgoing, answers: isBoth || !isOutgoing,
                    dice.pick(1...40) * dice.pick(1...World.day)), at: anyTime, on: anyDevice)
        }
    }

    private mutating func drawLies() {
        for _ in 0..<dice.pick(1...3) {
            let lie: Lie =
                switch dice.pick(0...4) {
                case 0: .oldContent
                case 1: .deletion
                case 2: .garbage(dice.pick(1...20) * World.day)
                case 3: .laterFormat(dice.pick(1...20) * World.day)
                default: .forgedRefunds
                }
            add(.lie(lie), at: anyTime, on: nil)
        }
    }
}
