/// Records events. All of them go into the hash; the trace is kept only on request. Single-threaded.
package final class Recorder {
    private let scheduler: Scheduler
    private let isRecording: Bool
    package private(set) var events: [TraceEvent] = []
    /// The 64-bit FNV-1a hash of all recorded events.
    package private(set) var hash: UInt64 = 0xCBF2_9CE4_8422_2325

    package init(scheduler: Scheduler, isRecording: Bool) {
        self.scheduler = scheduler
        self.isRecording = isRecording
    }

    /// Milliseconds since the start of the run.
    package var now: Int64 { scheduler.now / 1_000 }

    /// - Parameters:
    ///   - lane: The lane of the event.
    ///   - code: The kind of event, as a number. Only `lane`, `code` and `detail` go into the hash.
    ///   - kind: The event for the trace.
    package func record(_ lane: Int, _ code: Code, _ detail: Int = 0, _ kind: @autoclosure () -> TraceEvent.Kind) {
        mix(UInt64(bitPattern: scheduler.now))
        mix(UInt64(truncatingIfNeeded: lane << 8 | code.rawValue))
        mix(UInt64(truncatingIfNeeded: detail))
        if isRecording { events.append(TraceEvent(at: now, lane: lane, kind())) }
    }

    /// Mixes bytes into the hash.
    package func mix(_ bytes: [UInt8]) {
        for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    }

    package func mix(_ word: UInt64) {
        hash = (hash ^ word) &* 0x100_0000_01B3
        hash ^= hash >> 29
    }

    /// The kinds of events. Their numbers are part of trace hashes.
    package enum Code: Int {
        case begun = 1
        case ended, sent, arrived, lost, started, crashed, disturbed, believes, clock, store, healed, violated, other
    }
}
