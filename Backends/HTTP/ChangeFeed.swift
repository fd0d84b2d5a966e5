import HTTPTypes
import SyncCore
import SyncProtocol

/// One subscriber's ear at the server: the stream of `GET /v1/changes`, connected again whenever it ends.
///
/// It works only while somebody waits in ``next()``; what comes meanwhile waits in the connection and is one signal.
actor ChangeFeed {
    /// What it needs of its backend.
    struct Source: Sendable {
        var address: ServerAddress
        var transport: any HTTPStreamingTransport
        var token: HTTPBackend.Token
        var host: HostServices
        /// A server says something every 15 seconds.
        var idleTimeout = Duration.seconds(40)
        /// The pauses before connecting again; how often it tries is not bounded.
        var pauses = RetryPolicy(
            maximumAttempts: .max, firstDelay: .seconds(1), maximumDelay: .seconds(60), maximumTotalDelay: .seconds(60))
    }

    private enum Connected {
        case yes
        /// At a place that the server no longer knows: anything may have changed.
        case anew
        /// The server has no such stream, so that nothing will be heard of changes.
        case unheard
        case no(retryAfter: Duration?)
    }

    private let source: Source
    private var stream: TransportStream.AsyncIterator?
    private var events = ServerSentEvents()
    private var lastEventID = ""
    private var reconnectionTime: Duration?
    private var failedAttempts = 0
    private var refused: String?
    private var isWaitingForFirstByte = false

    init(_ source: Source) { self.source = source }

    /// Returns when something may have changed: after each connection, since nobody knows what happened before, and
    /// after each change. `nil` when the task is cancelled.
    func next() async -> Void? {
        while !Task.isCancelled {
            if stream != nil {
                if await isChanged() { return () }
                continue
            }
            switch await connect() {
            case .yes: return ()
            case .anew:
                lastEventID = ""
                return ()
            case .unheard:
                guard await pause(atLeast: source.pauses.maximumDelay) else { return nil }
                return ()
            case .no(let retryAfter):
                failedAttempts += 1
                guard await pause(atLeast: retryAfter ?? .zero) else { return nil }
            }
        }
        return nil
    }

    private func connect() async -> Connected {
        let stream: TransportStream
        var token: String?
        do {
            token = try await source.token(refused)
            stream = try await source.transport.stream(
                request(token), idleTimeout: source.idleTimeout, id: source.host.randomBits())
        } catch {
            return .no(retryAfter: (error as? BackendError)?.retryAfter)
        }
        let response = stream.response
        switch response.status.code {
        case 200 where response.headerFields[.contentType]?.hasPrefix("text/event-stream") == true:
            self.stream = stream.makeAsyncIterator()
            (events, refused, isWaitingForFirstByte) = (ServerSentEvents(), nil, true)
            return .yes
        case 401 where token != nil && refused == nil:
            // Tokens do not last; a new one is no failure.
            refused = token
            return await connect()
        case 410: return .anew
        case 200..<300, 404, 405, 406, 501: return .unheard
        default:
            // Whatever was refused may be another token by the next time.
            refused = response.status == .unauthorized ? token : nil
            return .no(retryAfter: RetryAfter.pause(of: response))
        }
    }

    private func request(_ token: String?) -> HTTPRequest {
        var fields: HTTPFields = [.accept: "text/event-stream"]
        if !lastEventID.isEmpty, let name = HTTPField.Name(WireFields.lastEventID) { fields[name] = lastEventID }
        return source.address.request(.get, "/v1/changes", fields, token: token)
    }

    /// Reads one piece of the stream; whether it tells of a change.
    private func isChanged() async -> Bool {
        guard var stream else { return false }
        // Nothing else touches it meanwhile: there is one reader.
        self.stream = nil
        do throws(TransportError) {
            guard let bytes = try await stream.next() else {
                await end()
                return false
            }
            // A connection that was good for something.
            if isWaitingForFirstByte { (isWaitingForFirstByte, failedAttempts) = (false, 0) }
            let heard = try events.feed(bytes)
            self.stream = stream
            return note(heard)
        } catch {
            await end()
            return false
        }
    }

    private func note(_ heard: [ServerSentEvents.Event]) -> Bool {
        if !events.lastEventID.isEmpty { lastEventID = events.lastEventID }
        if let time = events.reconnectionTime { reconnectionTime = .milliseconds(min(time, 60_000)) }
        if heard.contains(where: { $0.name == "expired" }) {
            (stream, lastEventID) = (nil, "")
            return true
        }
        return heard.contains { $0.name == "change" }
    }

    /// After a stream has ended: a moment, so that all who were cut off together do not come back together.
    private func end() async {
        failedAttempts += 1
        _ = await pause(atLeast: .zero)
    }

    /// Waits as the number of failures says; `false` when the task is cancelled.
    private func pause(atLeast minimum: Duration) async -> Bool {
        var generator = source.host.generator
        var policy = source.pauses
        if let reconnectionTime { policy.firstDelay = min(reconnectionTime, policy.maximumDelay) }
        let delay = policy.delay(afterFailedAttempts: max(failedAttempts, 1), waited: .zero, using: &generator)
        do {
            try await source.host.sleep(for: (delay ?? policy.maximumDelay) + minimum)
            return true
        } catch {
            return false
        }
    }
}
