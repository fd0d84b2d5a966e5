import SyncCore
import SyncCoreTesting

/// A device's own store as seen by one of its processes. It injects errors, a full disk and delays, and fails every
/// operation of a crashed process. Single-threaded.
struct SimulatedDisk: ForwardingBackend, @unchecked Sendable {
    let process: SimulatedProcess

    var base: any KeyValueBackend { device.contents }

    private var device: SimulatedDevice { process.device }

    func read(_ key: EntryKey, unless knownVersion: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        try await perform(.read, key) { (contents) async throws(BackendError) in
            try await contents.read(key, unless: knownVersion)
        }
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        let answer = try await perform(.write, key) { (contents) async throws(BackendError) in
            try await contents.write(value, to: key, if: precondition)
        }
        if case .conflict = answer.outcome, device.running.count > 1 { process.world.marks.reach(.processesCollided) }
        return answer
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        try await perform(.delete, key) { (contents) async throws(BackendError) in
            try await contents.delete(key, if: precondition)
        }
    }

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        try await perform(.list, nil) { (contents) async throws(BackendError) in
            try await contents.list(prefix: prefix, after: cursor, limit: limit)
        }
    }

    func changes(since cursor: ChangeCursor?, prefix: String, limit: Int) async throws(BackendError)
        -> Answer<ChangePage>
    {
        try await perform(.changes, nil) { (contents) async throws(BackendError) in
            try await contents.changes(since: cursor, prefix: prefix, limit: limit)
        }
    }

    func latestCursor() async throws(BackendError) -> Answer<ChangeCursor?> {
        try await perform(.changes, nil) { (contents) async throws(BackendError) in
            try await contents.latestCursor()
        }
    }

    private func perform<Outcome: Sendable>(
        _ operation: BackendError.Operation, _ key: EntryKey?,
        _ body: (StoreContents) async throws(BackendError) -> Answer<Outcome>
    ) async throws(BackendError) -> Answer<Outcome> {
        try process.begin(operation, key)
        let rates = process.world.rates
        var random = process.world.random.generator(for: device.index, device.takeDiskNumber(), .disk)
        let changes = operation == .write || operation == .delete
        if random.happens(perMille: rates.diskErrors) {
            // A call that cannot read the saved time continues with the time of its process.
            if key?.text == "device/clock" { device.correctionCount += 1 }
            noteFailedWrite(key)
            throw BackendError(
                .busy, operation: operation, key: key, disposition: .transient, message: "simulated: the disk is busy")
        }
        if changes, device.isFull {
            process.world.marks.reach(.storeFull)
            noteFailedWrite(key)
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
            if happens { _ = try await body(device.contents) } else { noteFailedWrite(key) }
            throw BackendError(
                .other, operation: operation, key: key, disposition: .outcomeUnknown,
                message: "simulated: the outcome of the write is unknown")
        }
        let answer = try await body(device.contents)
        if isPausedAfter { await process.pause(pause) }
        if !process.isAlive, changes { process.world.marks.reach(.crashDuringLocalWrite) }
        try process.checkAlive(operation, key)
        return answer
    }

    /// Records that the store may not have saved the time.
    private func noteFailedWrite(_ key: EntryKey?) {
        if key?.text == "device/clock" { process.world.auditor.unsavedClocks.insert(device.index) }
    }
}
