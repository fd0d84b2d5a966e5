import CCurl
import SyncProtocol

/// Runs HTTP exchanges on one libcurl multi handle.
///
/// ``CurlQueue`` ensures that only one thread at a time uses it: the client's thread, or a caller's thread for a single
/// exchange.
final class CurlLoop {
    /// The maximum time for which a caller's thread drives its own exchange before the client's thread takes over.
    ///
    /// It applies only if the previous answer arrived within this time. Then the server is on the same machine or
    /// network, where a handover would take longer than the answer.
    private static let callerDrivingLimit = Duration.milliseconds(1)

    private let multi: UnsafeMutableRawPointer
    private let queue: CurlQueue
    private let configuration: CurlClient.Configuration
    private let clock = ContinuousClock()
    private var active: [UInt64: CurlHandle] = [:]
    private var ids: [UnsafeMutableRawPointer: UInt64] = [:]
    /// Handles for reuse. Setting one up costs more than a short exchange.
    private var idle: [CurlHandle] = []
    /// The number of active exchanges with an idle timeout.
    private var watchedCount = 0
    /// True if the last answer arrived within ``callerDrivingLimit``.
    private var isServerNear = false

    init(multi: UnsafeMutableRawPointer, queue: CurlQueue, configuration: CurlClient.Configuration) {
        (self.multi, self.queue, self.configuration) = (multi, queue, configuration)
    }

    /// Sets the connection limits and creates the first handle.
    func prepare() throws(TransportError) {
        let connections = configuration.maximumConnectionsPerHost
        precondition(connections >= 1, "maximumConnectionsPerHost must be 1 or more, not \(connections)")
        for (option, value) in [
            (CURLMOPT_MAX_HOST_CONNECTIONS, connections), (CURLMOPT_MAXCONNECTS, connections),
        ] {
            guard ccurl_multi_set_long(multi, option, value) == CURLM_OK else {
                throw .curl("libcurl does not support option \(option.rawValue) of a multi handle; use a newer version")
            }
        }
        idle.append(try CurlHandle(configuration))
    }

    /// The main function of the client's thread.
    func run() {
        while let commands = queue.take(isBusy: isBusy) {
            for command in commands { perform(command) }
            advance()
            if watchedCount > 0 { endTimedOut() }
            if isBusy, queue.rest() { curl_multi_poll(multi, nil, 0, pollTimeout(), nil) }
        }
        for id in active.keys.sorted() { end(id, .failure(.cancelled(mayHaveArrived: true))) }
        close()
    }

    /// Starts an exchange on the caller's thread, which must be the driver. There must be no other exchange.
    ///
    /// The client's thread takes over if the answer does not arrive at once or if another command is queued.
    func lead(_ id: UInt64, _ job: CurlJob) {
        let signals = ccurl_hold_pipe_signal()
        start(id, job)
        advance()
        let end = clock.now + Self.callerDrivingLimit
        while isServerNear, isBusy, clock.now < end, queue.rest() {
            curl_multi_poll(multi, nil, 0, 1, nil)
            advance()
        }
        ccurl_release_pipe_signal(signals)
        queue.endLeading(isBusy: isBusy)
    }

    private func advance() {
        var count: Int32 = 0
        curl_multi_perform(multi, &count)
        endFinished()
    }

    /// True if an exchange is active or libcurl has set a timer.
    private var isBusy: Bool {
        if !active.isEmpty { return true }
        var milliseconds = -1
        curl_multi_timeout(multi, &milliseconds)
        return milliseconds >= 0
    }

    /// Releases all resources.
    func close() {
        idle = []
        curl_multi_cleanup(multi)
    }

    private func perform(_ command: CurlQueue.Command) {
        switch command {
        case .start(let id, let job): start(id, job)
        case .cancel(let id):
            guard let handle = active[id] else { return }
            end(id, .failure(.cancelled(mayHaveArrived: handle.isSent)))
        case .resume(let id): active[id]?.resume()
        }
    }

    private func start(_ id: UInt64, _ job: CurlJob) {
        do throws(TransportError) {
            let handle = if let known = idle.popLast() { known } else { try CurlHandle(configuration) }
            try handle.begin(job, now: clock.now)
            guard curl_multi_add_handle(multi, handle.easy) == CURLM_OK else {
                handle.recycle()
                throw .curl("libcurl cannot start another exchange")
            }
            active[id] = handle
            ids[handle.easy] = id
            if handle.isWatched { watchedCount += 1 }
        } catch {
            job.receiver.fail(error)
        }
    }

    private func endFinished() {
        var code = CURLE_OK
        while let easy = ccurl_next_finished(multi, &code) {
            guard let id = ids[easy], let handle = active[id] else { continue }
            if let began = handle.began { isServerNear = clock.now - began < Self.callerDrivingLimit }
            end(id, handle.outcome(of: code))
        }
    }

    private func endTimedOut() {
        let now = clock.now
        for id in active.keys.sorted() {
            guard let handle = active[id], let deadline = handle.deadline, deadline <= now else { continue }
            end(
                id,
                .failure(
                    TransportError(
                        .timedOut, mayHaveArrived: handle.isSent,
                        message: "the server sent nothing within the idle timeout")))
        }
    }

    private func end(_ id: UInt64, _ outcome: Result<TransportAnswer, TransportError>) {
        guard let handle = active.removeValue(forKey: id) else { return }
        ids[handle.easy] = nil
        if handle.isWatched { watchedCount -= 1 }
        // If the exchange is incomplete, this closes the connection or the HTTP/2 stream.
        curl_multi_remove_handle(multi, handle.easy)
        let receiver = handle.receiver
        let hasHead = handle.hasToldHead
        handle.recycle()
        if idle.count < configuration.maximumConnectionsPerHost { idle.append(handle) }
        receiver?.end(outcome, hasHead: hasHead)
    }

    /// The maximum time to wait for events, in milliseconds. libcurl ends the wait earlier if one of its timers is due.
    private func pollTimeout() -> Int32 {
        guard watchedCount > 0 else { return .max }
        guard let next = active.values.compactMap(\.deadline).min() else { return .max }
        let now = clock.now
        guard next > now else { return 0 }
        return Int32(clamping: (now.duration(to: next) / .milliseconds(1)).rounded(.up).clampedInteger)
    }
}

extension Double {
    /// The value as an integer, or the maximum if it does not fit.
    fileprivate var clampedInteger: Int64 { Int64(exactly: self) ?? .max }
}

extension CurlJob.Receiver {
    /// Reports that the exchange was not started.
    func fail(_ error: TransportError) { end(.failure(error), hasHead: false) }

    /// Reports the outcome.
    ///
    /// - Parameter hasHead: true if the header of the stream was already reported.
    func end(_ outcome: Result<TransportAnswer, TransportError>, hasHead: Bool) {
        switch self {
        case .whole(let continuation, _): continuation.resume(returning: outcome)
        case .stream(let continuation, let buffer, _):
            let failure: TransportError? = if case .failure(let error) = outcome { error } else { nil }
            buffer.finish(failure)
            if !hasHead { continuation.resume(returning: outcome.map(\.response)) }
        }
    }
}
