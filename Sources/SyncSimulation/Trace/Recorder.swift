/// Takes down what happens. The hash is taken of everything; the words only when somebody will read them. One thread
/// only.
final class Recorder {
    private let scheduler: Scheduler
    private let isRecording: Bool
    private(set) var events: [TraceEvent] = []
    /// FNV-1a, 64 bits, over all that was noted.
    private(set) var hash: UInt64 = 0xCBF2_9CE4_8422_2325

    init(scheduler: Scheduler, isRecording: Bool) {
        self.scheduler = scheduler
        self.isRecording = isRecording
    }

    /// Milliseconds since the beginning of the run.
    var now: Int64 { scheduler.now / 1_000 }

    /// - Parameters:
    ///   - lane: where.
    ///   - code: what, as a number of its own for each kind of event; with `detail`, all that goes into the hash.
    ///   - kind: what, in words.
    func note(_ lane: Int, _ code: Code, _ detail: Int = 0, _ kind: @autoclosure () -> TraceEvent.Kind) {
        mix(UInt64(bitPattern: scheduler.now))
        mix(UInt64(truncatingIfNeeded: lane << 8 | code.rawValue))
        mix(UInt64(truncatingIfNeeded: detail))
        if isRecording { events.append(TraceEvent(at: now, lane: lane, kind())) }
    }

    /// Mixes bytes into the hash: contents that two runs must agree on.
    func mix(_ bytes: [UInt8]) {
        for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    }

    func mix(_ word: UInt64) {
        hash = (hash ^ word) &* 0x100_0000_01B3
        hash ^= hash >> 29
    }

    /// What was noted; the numbers are part of trace hashes.
    enum Code: Int {
        case begun = 1
        case ended, sent, arrived, lost, started, crashed, disturbed, believes, clock, store, healed, violated, other
    }
}
