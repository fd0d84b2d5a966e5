import Foundation
package import SyncCore
import SyncService
import Synchronization

/// The access log: one line for each request, with time, client address, account, method, route, status, bytes and
/// milliseconds. It never contains a path, a query, a header or anything else that may be secret.
///
/// Lines are written in batches, at most ``delay`` after their requests, so that a request does not wait for the disk
/// or the terminal. A process that is killed loses the lines of that period.
package final class AccessLog: Sendable {
    /// The maximum time before a line is written.
    package static let delay = Duration.milliseconds(100)
    /// The number of buffered bytes beyond which the lines are written at once.
    private static let batchByteCount = 32 << 10

    private struct State {
        var lines: [UInt8] = []
        /// The second for which `start` was formatted.
        var second: Int = .min
        /// The start of a line of that second.
        var start: [UInt8] = []
        /// Wakes the writing task; `nil` if none is running.
        var waiting: AsyncStream<Void>.Continuation?
    }

    private let label: String
    private let host: HostServices
    private let write: @Sendable ([UInt8]) -> Void
    private let state = Mutex(State())
    /// Held while lines are written, so that they stay in order.
    private let writing = Mutex(())

    /// - Parameters:
    ///   - label: the label of each line, as in the rest of the log.
    ///   - host: the source of timers.
    ///   - write: writes complete lines.
    package init(label: String, host: HostServices = .system, write: @escaping @Sendable ([UInt8]) -> Void) {
        (self.label, self.host, self.write) = (label, host, write)
    }

    /// Writes each batch ``delay`` after its first line, until the task is cancelled; then writes the remaining lines.
    func run() async {
        let (noted, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        state.withLock { $0.waiting = continuation }
        for await _ in noted {
            // Throws when the task is cancelled; the rest is then written at once.
            try? await host.sleep(for: Self.delay)
            flush()
        }
        flush()
    }

    /// Writes all buffered lines.
    package func flush() {
        writing.withLock { _ in
            let lines = state.withLock { state in
                let lines = state.lines
                state.lines.removeAll(keepingCapacity: lines.count <= 4 * Self.batchByteCount)
                return lines
            }
            if !lines.isEmpty { write(lines) }
        }
    }

    /// Adds the line of an answer.
    func add(_ answer: ServiceResponse, _ exchange: Exchange, elapsed: Duration, byteCount: Int) {
        let line = AccessLine.text(answer, exchange, elapsed: elapsed, byteCount: byteCount)
        let (isFirst, isFull) = state.withLock { state in
            let isFirst = state.lines.isEmpty
            let start = start(in: &state)
            state.lines += start
            state.lines += line.utf8
            if isFirst { state.waiting?.yield() }
            return (isFirst && state.waiting == nil, state.lines.count > Self.batchByteCount)
        }
        // There is no writing task, or the buffer is full.
        if isFirst || isFull { flush() }
    }

    /// `2026-01-31T12:00:00+0000 info syncd: `, in the time zone of this machine, as in the rest of the log.
    private func start(in state: inout State) -> [UInt8] {
        let now = time(nil)
        if state.second != now {
            state.second = now
            state.start =
                TimeText.bytes(of: now, "%Y-%m-%dT%H:%M:%S%z", localtime_r) + Array(" info \(label): ".utf8)
        }
        return state.start
    }
}
