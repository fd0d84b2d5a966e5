import Foundation
import HTTPTypes
import SyncProtocol
import Synchronization

/// The times at which devices send requests, and at which their first request after a restart is answered.
final class Record: Sendable {
    private struct State {
        var attempts: [Double] = []
        var recoveries: [Int: Double] = [:]
    }

    private let start = ContinuousClock.now
    private let state = Mutex(State())

    /// The time since the program was started, in seconds.
    var now: Double { start.duration(to: .now) / .seconds(1) }
    /// The times of all requests since the last restart.
    var attempts: [Double] { state.withLock { $0.attempts } }
    /// The time of each device's first answer since the last restart.
    var recoveries: [Double] { state.withLock { Array($0.recoveries.values) } }
    var recoveredCount: Int { state.withLock { $0.recoveries.count } }

    /// Forgets everything, and returns the time.
    func restart() -> Double {
        state.withLock { $0 = State() }
        return now
    }

    func noteAttempt() { state.withLock { $0.attempts.append(now) } }

    func noteAnswer(of device: Int) { state.withLock { $0.recoveries[device] = $0.recoveries[device] ?? now } }
}

/// Sends the requests of a device, and records them.
struct RecordingTransport<Base: HTTPStreamingTransport>: HTTPStreamingTransport {
    let base: Base
    let device: Int
    let record: Record

    func send(
        _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int
    ) async throws(TransportError) -> TransportAnswer {
        record.noteAttempt()
        let answer = try await base.send(request, body: body, timeout: timeout, maximumByteCount: maximumByteCount)
        // An account without purchases has no ledger, and the answer is 404.
        if [200, 404].contains(answer.response.status.code) { record.noteAnswer(of: device) }
        return answer
    }

    func stream(
        _ request: HTTPRequest, idleTimeout: Duration
    ) async throws(TransportError) -> TransportStream {
        record.noteAttempt()
        return try await base.stream(request, idleTimeout: idleTimeout)
    }
}
