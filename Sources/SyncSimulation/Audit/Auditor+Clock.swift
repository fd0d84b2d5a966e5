import EntitlementSync
import Entitlements
import SyncCore

/// How far a device's time may be from the true time, in milliseconds, by what it heard and by how its clock was moved
/// since.
struct ClockBounds {
    var lowest: Int64
    var highest: Int64

    func union(_ other: ClockBounds) -> ClockBounds {
        ClockBounds(lowest: min(lowest, other.lowest), highest: max(highest, other.highest))
    }
}

extension Auditor {
    /// A process heard what time the remote has.
    func didHear(_ serverTime: Int64, in process: SimulatedProcess) {
        let device = process.device.index
        process.answersHeard += 1
        let error = serverTime - world.trueTime
        let correction = abs(process.device.clockOffset - error)
        if correction > 60_000 {
            process.device.correctionCount += 1
            process.device.hasUnkeptCorrection = true
        }
        if correction > World.hour { world.marks.reach(.clockCorrected) }
        if world.remote.clockOffset != 0 { world.marks.reach(.serverWrong) }
        let heard = ClockBounds(lowest: error, highest: error)
        // A contact may set the time back.
        shownTimes[device] = nil
        // Of several answers under way, or one during which the clock was moved, nobody here knows which one counts.
        if process.isOverlapping || process.device.clockMoves != process.clockMovesSeen {
            clocks[device] = clocks[device].map { $0.union(heard) }
        } else {
            clocks[device] = heard
            contacted.insert(device)
        }
    }

    /// An answer is about to be believed. It is right to within its way: what a process has taken for now stays now if
    /// the answer contradicts it by no more.
    func expectNoStepBack(by serverTime: Int64, in process: SimulatedProcess) {
        let device = process.device
        guard device.running.count == 1, process.requestsUnderWay == 1, process.clockMovesSeen == device.clockMoves,
            let before = process.store?.clockStatus.now.milliseconds,
            (0...world.trueTime - process.lastRequestAt).contains(before - serverTime)
        else { return }
        // As soon as all has run that now can.
        world.scheduler.at(world.scheduler.now + 1) { [unowned self] in
            guard process.isAlive, device.running.count == 1, process.clockMovesSeen == device.clockMoves,
                let after = process.store?.clockStatus.now.milliseconds, after < before
            else { return }
            world.report(
                .clock, "an answer put the time back by \(before - after) ms, and was less exact than that",
                lane: device.lane)
        }
    }

    func hearing(of process: SimulatedProcess) -> Hearing {
        Hearing(
            answers: process.answersHeard, clockMoves: process.device.clockMoves,
            signatures: process.device.signatureCount)
    }

    /// A sync has ended well, during which a server that is never wrong said what time it is: now the process knows it,
    /// whatever it and the device's other process believed before. To within the longest way of an answer.
    func checkSetRight(since beginning: Hearing, _ call: World.Call) {
        let device = call.process.device
        let now = hearing(of: call.process)
        guard world.scenario.remote.tellsTime, !world.scenario.movesRemoteClock, now.answers > beginning.answers,
            now.clockMoves == beginning.clockMoves, now.signatures == beginning.signatures,
            let time = call.process.store?.clockStatus.now.milliseconds
        else { return }
        let error = time - world.trueTime
        guard abs(error) > 121_000 else { return }
        world.report(.clock, "a sync has ended well, and time is wrong by \(error) ms", lane: device.lane)
    }

    func didMoveClock(of device: SimulatedDevice, by amount: Int64) {
        device.clockMoves += 1
        if abs(amount) > 60_000 { device.correctionCount += 1 }
        if amount < 0 { world.marks.reach(.clockSetBack) }
        for index in [device.index] {
            clocks[index]?.move(by: amount)
            keptClocks[index]?.move(by: amount)
        }
    }

    func didStart(_ process: SimulatedProcess) {
        let device = process.device
        // A second process may know of other contacts.
        guard device.running.count == 1 else {
            device.hasHadTwoProcesses = true
            return
        }
        // What moved on by less than ten minutes need not have been kept.
        if keptContacted.contains(device.index) {
            contacted.insert(device.index)
        } else {
            contacted.remove(device.index)
            shownTimes[device.index] = nil
        }
        if unkeptClocks.contains(device.index) {
            shownTimes[device.index] = keptShownTimes[device.index]
        } else if let shown = shownTimes[device.index] {
            shownTimes[device.index] = shown - 605_000
        }
        clocks[device.index] = keptClocks[device.index].map {
            ClockBounds(lowest: $0.lowest - 605_000, highest: $0.highest + 605_000)
        }
    }

    func didKeepClock(of device: Int) {
        keptClocks[device] = clocks[device]
        keptShownTimes[device] = shownTimes[device]
        if contacted.contains(device) { keptContacted.insert(device) }
        unkeptClocks.remove(device)
    }

    func didEnd(_ process: SimulatedProcess) {
        let device = process.device
        if device.running.isEmpty { clocks[device.index] = nil }
        if hasClaim(on: device.index), !device.hasInterruptedClaim {
            device.hasInterruptedClaim = true
            world.marks.reach(.claimInterrupted)
        }
    }

    /// A store's signature was recorded: it is at least as late as the signature, so that the device may have become
    /// righter.
    func didSeeSignature(on device: SimulatedDevice) {
        if device.clockOffset < -60_000 { device.correctionCount += 1 }
        device.signatureCount += 1
        clocks[device.index]?.allowTruth()
        keptClocks[device.index]?.allowTruth()
    }

    /// A device showed `time` as its now.
    func checkClock(_ time: Int64, of device: SimulatedDevice) {
        checkMark(time, of: device)
        guard world.scenario.remote.tellsTime, !device.hasHadTwoProcesses || isHealed,
            let bounds = clocks[device.index]
        else { return }
        let error = time - world.trueTime
        // A minute for what happened between the answer and the look.
        guard error < bounds.lowest - 60_000 || error > bounds.highest + 60_000 else { return }
        world.report(
            .clock, "the device is wrong by \(error) ms, \(bounds.lowest) to \(bounds.highest) can be explained",
            lane: device.lane)
    }
}

extension Auditor {
    /// Between two contacts time does not go back, whoever sets the wall clock back. Of two looks at once either may
    /// have come first.
    private func checkMark(_ time: Int64, of device: SimulatedDevice) {
        guard !device.hasHadTwoProcesses, contacted.contains(device.index),
            stepsUnderWay[device.index, default: 0] <= 1,
            device.running.allSatisfy({ $0.requestsUnderWay == 0 })
        else { return }
        let shown = shownTimes[device.index] ?? time
        shownTimes[device.index] = max(shown, time)
        guard time < shown else { return }
        world.report(.clock, "time went back from \(shown.date) to \(time.date)", lane: device.lane)
    }
}

extension ClockBounds {
    mutating func allowTruth() { highest = max(highest, 0) }

    /// The wall clock was moved: back, time may be missing; ahead, it may be too late until the next contact.
    mutating func move(by amount: Int64) {
        if amount < 0 { lowest += amount } else { highest += amount }
    }
}

extension Scenario {
    /// Whether the remote's clock is ever wrong.
    fileprivate var movesRemoteClock: Bool {
        steps.contains { if case .moveRemoteClock = $0.action { true } else { false } }
    }
}
