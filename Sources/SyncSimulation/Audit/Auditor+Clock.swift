import EntitlementSync
import Entitlements
import SyncCore

/// The range in which a device's clock error must lie, in milliseconds, given the server times it received and the
/// moves of its clock since then.
struct ClockBounds {
    var lowest: Int64
    var highest: Int64

    func union(_ other: ClockBounds) -> ClockBounds {
        ClockBounds(lowest: min(lowest, other.lowest), highest: max(highest, other.highest))
    }
}

extension Auditor {
    /// Records that a process received the remote's time.
    func didReceiveServerTime(_ serverTime: Int64, in process: SimulatedProcess) {
        let device = process.device.index
        process.timedAnswerCount += 1
        let error = serverTime - world.trueTime
        let correction = abs(process.device.clockOffset - error)
        if correction > 60_000 {
            process.device.correctionCount += 1
            process.device.hasUnsavedCorrection = true
        }
        if correction > World.hour { world.marks.reach(.clockCorrected) }
        if world.remote.clockOffset != 0 { world.marks.reach(.serverWrong) }
        let heard = ClockBounds(lowest: error, highest: error)
        // A contact may set the device's time back.
        observedTimes[device] = nil
        // With several answers in flight, or a clock that moved while waiting, it is unknown which answer the process
        // uses.
        if process.isOverlapping || process.device.clockMoves != process.clockMovesSeen {
            clocks[device] = clocks[device].map { $0.union(heard) }
        } else {
            clocks[device] = heard
            contacted.insert(device)
        }
    }

    /// Expects that an answer does not set the time back within its own uncertainty.
    func expectNoStepBack(by serverTime: Int64, in process: SimulatedProcess) {
        let device = process.device
        guard device.running.count == 1, process.requestsUnderWay == 1, process.clockMovesSeen == device.clockMoves,
            let before = process.store?.clockStatus.now.milliseconds,
            (0...world.trueTime - process.lastRequestAt).contains(before - serverTime)
        else { return }
        // Checked once all jobs that are ready have run.
        world.scheduler.at(world.scheduler.now + 1) { [unowned self] in
            guard process.isAlive, device.running.count == 1, process.clockMovesSeen == device.clockMoves,
                let after = process.store?.clockStatus.now.milliseconds, after < before
            else { return }
            world.report(
                .clock, "an answer set the time back by \(before - after) ms, less than its uncertainty",
                lane: device.lane)
        }
    }

    func clockEvidence(of process: SimulatedProcess) -> ClockEvidence {
        ClockEvidence(
            answers: process.timedAnswerCount, clockMoves: process.device.clockMoves,
            signatures: process.device.signatureCount)
    }

    /// Checks that a process has the right time after a successful sync with a server whose clock is never wrong.
    func checkClockCorrected(since beginning: ClockEvidence, _ call: World.Call) {
        let device = call.process.device
        let now = clockEvidence(of: call.process)
        guard world.scenario.remote.tellsTime, !world.scenario.movesRemoteClock, now.answers > beginning.answers,
            now.clockMoves == beginning.clockMoves, now.signatures == beginning.signatures,
            let time = call.process.store?.clockStatus.now.milliseconds
        else { return }
        let error = time - world.trueTime
        guard abs(error) > 121_000 else { return }
        world.report(.clock, "a sync succeeded, but time is wrong by \(error) ms", lane: device.lane)
    }

    func didMoveClock(of device: SimulatedDevice, by amount: Int64) {
        device.clockMoves += 1
        if abs(amount) > 60_000 { device.correctionCount += 1 }
        if amount < 0 { world.marks.reach(.clockSetBack) }
        for index in [device.index] {
            clocks[index]?.move(by: amount)
            savedClocks[index]?.move(by: amount)
        }
    }

    func didStart(_ process: SimulatedProcess) {
        let device = process.device
        // A second process may know of other contacts with the remote.
        guard device.running.count == 1 else {
            device.hasHadTwoProcesses = true
            return
        }
        // The store may be up to ten minutes behind: smaller progress of the clock need not be saved.
        if savedContacted.contains(device.index) {
            contacted.insert(device.index)
        } else {
            contacted.remove(device.index)
            observedTimes[device.index] = nil
        }
        if unsavedClocks.contains(device.index) {
            observedTimes[device.index] = savedObservedTimes[device.index]
        } else if let shown = observedTimes[device.index] {
            observedTimes[device.index] = shown - 605_000
        }
        clocks[device.index] = savedClocks[device.index].map {
            ClockBounds(lowest: $0.lowest - 605_000, highest: $0.highest + 605_000)
        }
    }

    func didSaveClock(of device: Int) {
        savedClocks[device] = clocks[device]
        savedObservedTimes[device] = observedTimes[device]
        if contacted.contains(device) { savedContacted.insert(device) }
        unsavedClocks.remove(device)
    }

    func didEnd(_ process: SimulatedProcess) {
        let device = process.device
        if device.running.isEmpty { clocks[device.index] = nil }
        if hasClaim(on: device.index), !device.hasInterruptedClaim {
            device.hasInterruptedClaim = true
            world.marks.reach(.claimInterrupted)
        }
    }

    /// Records that a signed statement was seen. It is now at least as late as the signature, so the device's clock
    /// may have improved.
    func didSeeSignature(on device: SimulatedDevice) {
        if device.clockOffset < -60_000 { device.correctionCount += 1 }
        device.signatureCount += 1
        clocks[device.index]?.allowTruth()
        savedClocks[device.index]?.allowTruth()
    }

    /// Checks the time that a device takes for now.
    func checkClock(_ time: Int64, of device: SimulatedDevice) {
        checkMark(time, of: device)
        guard world.scenario.remote.tellsTime, !device.hasHadTwoProcesses || isHealed,
            let bounds = clocks[device.index]
        else { return }
        let error = time - world.trueTime
        // One minute of tolerance for the time between the answer and the observation.
        guard error < bounds.lowest - 60_000 || error > bounds.highest + 60_000 else { return }
        world.report(
            .clock, "the device is wrong by \(error) ms, outside of \(bounds.lowest) to \(bounds.highest) ms",
            lane: device.lane)
    }
}

extension Auditor {
    /// Checks that time does not go back between two contacts, even if the wall clock is set back. Of two concurrent
    /// observations either may have come first.
    private func checkMark(_ time: Int64, of device: SimulatedDevice) {
        guard !device.hasHadTwoProcesses, contacted.contains(device.index),
            stepsUnderWay[device.index, default: 0] <= 1,
            device.running.allSatisfy({ $0.requestsUnderWay == 0 })
        else { return }
        let shown = observedTimes[device.index] ?? time
        observedTimes[device.index] = max(shown, time)
        guard time < shown else { return }
        world.report(.clock, "time went back from \(shown.date) to \(time.date)", lane: device.lane)
    }
}

extension ClockBounds {
    mutating func allowTruth() { highest = max(highest, 0) }

    /// Widens the bounds after a move of the wall clock: a move back may lose time, a move ahead may add time until
    /// the next contact.
    mutating func move(by amount: Int64) {
        if amount < 0 { lowest += amount } else { highest += amount }
    }
}

extension Scenario {
    /// True if the remote's clock is ever wrong.
    fileprivate var movesRemoteClock: Bool {
        steps.contains { if case .moveRemoteClock = $0.action { true } else { false } }
    }
}
