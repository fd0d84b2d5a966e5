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

/// The expectations for a device's clock.
struct ExpectedClock {
    /// `nil` if nothing is known about its error.
    var bounds: ClockBounds?
    /// True if the device received the remote's time.
    var isContacted = false
    /// The greatest time that the device has shown since then.
    var shown: Int64?
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
        var clock = clocks[device] ?? ExpectedClock()
        // A contact may set the device's time back.
        clock.shown = nil
        // If several answers are in flight, or the clock moved meanwhile, any of the answers may be the one in use.
        if process.isOverlapping || process.device.clockMoves != process.clockMovesSeen {
            clock.bounds = clock.bounds?.union(heard)
        } else {
            (clock.bounds, clock.isContacted) = (heard, true)
        }
        clocks[device] = clock
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
            report(.clock, "an answer set the time back by \(before - after) ms, less than its uncertainty", device)
        }
    }

    func clockEvidence(of process: SimulatedProcess) -> ClockEvidence {
        ClockEvidence(
            answers: process.timedAnswerCount, clockMoves: process.device.clockMoves,
            signatures: process.device.signatureCount)
    }

    /// Checks the time of a process after a successful sync with a server whose clock is never wrong.
    func checkClockCorrected(since beginning: ClockEvidence, _ call: World.Call) {
        let device = call.device
        let now = clockEvidence(of: call.process)
        guard world.scenario.remote.tellsTime, !world.scenario.movesRemoteClock, now.answers > beginning.answers,
            now.clockMoves == beginning.clockMoves, now.signatures == beginning.signatures,
            let time = call.process.store?.clockStatus.now.milliseconds
        else { return }
        let error = time - world.trueTime
        guard abs(error) > 121_000 else { return }
        report(.clock, "a sync succeeded, but time is wrong by \(error) ms", device)
    }

    func didMoveClock(of device: SimulatedDevice, by amount: Int64) {
        device.clockMoves += 1
        if abs(amount) > 60_000 { device.correctionCount += 1 }
        if amount < 0 { world.marks.reach(.clockSetBack) }
        clocks[device.index]?.bounds?.move(by: amount)
        savedClocks[device.index]?.bounds?.move(by: amount)
    }

    func didStart(_ process: SimulatedProcess) {
        let device = process.device
        // A second process may know of other contacts with the remote.
        guard device.running.count == 1 else {
            device.hasHadTwoProcesses = true
            return
        }
        // The store may be up to ten minutes behind: smaller progress of the clock need not be saved.
        var clock = savedClocks[device.index] ?? ExpectedClock()
        clock.bounds = clock.bounds.map { ClockBounds(lowest: $0.lowest - 605_000, highest: $0.highest + 605_000) }
        if !unsavedClocks.contains(device.index) {
            clock.shown = clock.isContacted ? clocks[device.index]?.shown.map { $0 - 605_000 } : nil
        }
        clocks[device.index] = clock
    }

    func didSaveClock(of device: Int) {
        savedClocks[device] = clocks[device]
        unsavedClocks.remove(device)
    }

    func didEnd(_ process: SimulatedProcess) {
        let device = process.device
        if device.running.isEmpty { clocks[device.index]?.bounds = nil }
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
        clocks[device.index]?.bounds?.allowTruth()
        savedClocks[device.index]?.bounds?.allowTruth()
    }

    /// Checks the time that a device takes for now.
    func checkClock(_ time: Int64, of device: SimulatedDevice) {
        checkMark(time, of: device)
        guard world.scenario.remote.tellsTime, !device.hasHadTwoProcesses || isHealed,
            let bounds = clocks[device.index]?.bounds
        else { return }
        let error = time - world.trueTime
        // One minute of tolerance for the time between the answer and the observation.
        guard error < bounds.lowest - 60_000 || error > bounds.highest + 60_000 else { return }
        report(
            .clock, "the device is wrong by \(error) ms, outside of \(bounds.lowest) to \(bounds.highest) ms", device)
    }
}

extension Auditor {
    /// Checks that time does not go back between two contacts, even if the wall clock is set back. Of two concurrent
    /// observations either may have come first.
    private func checkMark(_ time: Int64, of device: SimulatedDevice) {
        guard !device.hasHadTwoProcesses, clocks[device.index]?.isContacted == true,
            stepsUnderWay[device.index, default: 0] <= 1,
            device.running.allSatisfy({ $0.requestsUnderWay == 0 })
        else { return }
        let shown = clocks[device.index]?.shown ?? time
        clocks[device.index]?.shown = max(shown, time)
        guard time < shown else { return }
        report(.clock, "time went back from \(shown.date) to \(time.date)", device)
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
