import CCurl
import SyncProtocol

/// Starts exchanges, drives libcurl and completes them. Only one thread uses it at a time, as ``CurlQueue`` ensures:
/// the client's thread, or the caller's thread for a single exchange.
final class CurlLoop {
    /// The time that a caller's thread waits for an answer, if the previous answer arrived within it. That happens on
    /// the same machine or network, where handing the exchange over would take longer than the answer.
    private static let patience = Duration.milliseconds(1)

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
    /// True if the last answer arrived within ``patience``.
    private var isNear = false

    init(multi: UnsafeMutableRawPointer, queue: CurlQueue, configuration: CurlClient.Configuration) {
        (self.multi, self.queue, self.configuration) = (multi, queue, configuration)
    }

    /// Prepares the first exchange.
    func prepare() throws(TransportError) {
        let connections = configuration.maximumConnectionsPerHost
        precondition(connections >= 1, "maximumConnectionsPerHost must be 1 or more")
        for (option, value) in [
            (CURLMOPT_MAX_HOST_CONNECTIONS, connections), (CURLMOPT_MAXCONNECTS, connections),
        ] {
            guard ccurl_multi_set_long(multi, option, value) == CURLM_OK else {
                throw .curl("libcurl does not know option \(option.rawValue)")
            }
        }
        idle.append(try CurlHandle(configuration))
    }

    /// The main function of the client's thread.
    func run() {
        while let commands = queue.take(isBusy: isBusy) {
            for command in commands { perform(command) }
            advance()
            if watchedCount > 0 { endSilent() }
            if isBusy, queue.rest() { curl_multi_poll(multi, nil, 0, pause(), nil) }
        }
        for id in active.keys.sorted() { end(id, .failure(.cancelled(mayHaveArrived: true))) }
        close()
    }

    /// Starts an exchange on the caller's thread, which drives and has no other exchange. The client's thread takes
    /// over unless the answer arrives at once, and as soon as there is another request.
    func lead(_ id: UInt64, _ job: CurlJob) {
        let signals = ccurl_hold_pipe_signal()
        start(id, job)
        advance()
        let end = clock.now + Self.patience
        while isNear, isBusy, clock.now < end, queue.rest() {
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

    /// True if there are exchanges, or timers of libcurl.
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
                throw .curl("libcurl refuses another exchange")
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
            if let began = handle.began { isNear = clock.now - began < Self.patience }
            end(id, handle.outcome(of: code))
        }
    }

    private func endSilent() {
        let now = clock.now
        for id in active.keys.sorted() {
            guard let handle = active[id], let deadline = handle.deadline, deadline <= now else { continue }
            end(
                id,
                .failure(
                    TransportError(
                        .timedOut, mayHaveArrived: handle.isSent, message: "the server was silent for too long")))
        }
    }

    private func end(_ id: UInt64, _ outcome: Result<TransportAnswer, TransportError>) {
        guard let handle = active.removeValue(forKey: id) else { return }
        ids[handle.easy] = nil
        if handle.isWatched { watchedCount -= 1 }
        // In the middle of an exchange this closes the connection, or the stream of HTTP/2.
        curl_multi_remove_handle(multi, handle.easy)
        let receiver = handle.receiver
        let hasHead = handle.hasToldHead
        handle.recycle()
        if idle.count < configuration.maximumConnectionsPerHost { idle.append(handle) }
        receiver?.end(outcome, hasHead: hasHead)
    }

    /// The maximum time to wait for events in milliseconds. libcurl adds its own timers.
    private func pause() -> Int32 {
        guard watchedCount > 0 else { return .max }
        let now = clock.now
        let next = active.values.compactMap(\.deadline).min()
        return next.map { Int32(clamping: $0 > now ? (now.duration(to: $0) / .milliseconds(1)).rounded(.up).whole : 0) }
            ?? .max
    }
}

extension Double {
    /// The value as an integer, limited to the maximum.
    fileprivate var whole: Int64 { Int64(exactly: self) ?? .max }
}

extension CurlJob.Receiver {
    /// Reports that the exchange was not started.
    func fail(_ error: TransportError) { end(.failure(error), hasHead: false) }

    /// Reports the outcome.
    ///
    /// - Parameter hasHead: true if the header of a stream was reported before.
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
