import SyncCore
import SyncCoreTesting

/// A device's own store as seen by one of its processes. It injects errors, a full disk and delays, and fails every
/// operation of a crashed process. Single-threaded.
struct SimulatedDisk: ForwardingBackend, @unchecked Sendable {
    let process: SimulatedProcess

    var base: any KeyValueBackend { device.contents }

    private var device: SimulatedDevice { process.device }

    func forward<Outcome: Sendable>(
        _ operation: BackendError.Operation, _ key: EntryKey?,
        _ call: (any KeyValueBackend) async throws(BackendError) -> Answer<Outcome>
    ) async throws(BackendError) -> Answer<Outcome> {
        try process.begin(operation, key)
        let rates = process.world.rates
        device.operationCount += 1
        var random = process.world.random.generator(for: device.index, device.operationCount, .disk)
        let changes = operation == .write || operation == .delete
        if random.happens(perMille: rates.diskErrors) {
            // A call that cannot read the saved time continues with the time of its process.
            if key?.text == "device/clock" { device.correctionCount += 1 }
            didFailToWrite(key)
            throw BackendError(.busy, operation: operation, key: key, message: "simulated: the disk is busy")
        }
        if changes, device.isFull {
            process.world.marks.reach(.storeFull)
            didFailToWrite(key)
            throw BackendError(.full, operation: operation, key: key, message: "simulated: no space is left")
        }
        // All random numbers are drawn before any branch, so that later numbers stay the same.
        let isPausedBefore = random.happens(perMille: rates.diskPauses)
        let isPausedAfter = random.happens(perMille: rates.diskPauses)
        let pause = random.pick(20...20_000)
        let isUnknown = changes && random.happens(perMille: rates.diskUnknowns)
        let happens = random.happens(perMille: 500)
        if isPausedBefore { await process.pause(pause) }
        if !process.isAlive, changes { process.world.marks.reach(.crashDuringLocalWrite) }
        try process.checkAlive(operation, key)
        if isUnknown {
            if happens { _ = try await call(base) } else { didFailToWrite(key) }
            throw BackendError(
                .other, operation: operation, key: key, disposition: .outcomeUnknown,
                message: "simulated: the outcome of the write is unknown")
        }
        let answer = try await call(base)
        if isPausedAfter { await process.pause(pause) }
        if !process.isAlive, changes { process.world.marks.reach(.crashDuringLocalWrite) }
        try process.checkAlive(operation, key)
        if operation == .write, case .conflict? = answer.outcome as? WriteOutcome, device.running.count > 1 {
            process.world.marks.reach(.processesCollided)
        }
        return answer
    }

    /// Records that the store may not have saved the time.
    private func didFailToWrite(_ key: EntryKey?) {
        if key?.text == "device/clock" { process.world.auditor.unsavedClocks.insert(device.index) }
    }
}
