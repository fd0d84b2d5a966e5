import HTTPTypes
import SyncCore
import SyncProtocol

/// One reconnecting subscription to the server's changes (the event stream of `GET /v1/changes`).
///
/// It works only while a caller waits in ``next()``. Events that arrive in between stay in the connection and become
/// one signal.
actor ChangeSubscription {
    /// The part of the backend that the subscription uses.
    struct Source: Sendable {
        var address: ServerAddress
        var transport: any HTTPStreamingTransport
        var token: HTTPBackend.Token
        var host: HostServices
        /// A server sends a heartbeat every 15 seconds.
        var idleTimeout = Duration.seconds(40)
        /// The longest pause between reconnections. Their number is not limited.
        var longestPause = Duration.seconds(60)
    }

    private enum Connected {
        case yes
        /// Connected without the old cursor, which has expired. Anything may have changed.
        case restarted
        /// The server has no event stream, so no changes will arrive.
        case unsupported
        case no(retryAfter: Duration?)
    }

    private let source: Source
    private var stream: TransportStream.AsyncIterator?
    private var events = ServerSentEvents()
    private var lastEventID = ""
    private var reconnectionTime: Duration?
    private var pauses: OutagePauses
    private var refused: String?
    private var isWaitingForFirstByte = false

    init(_ source: Source) {
        self.source = source
        pauses = OutagePauses(longest: source.longestPause)
    }

    /// Returns when something may have changed: after each connection, because earlier changes are unknown, and after
    /// each change. Returns `nil` if the task is cancelled.
    func next() async -> Void? {
        while !Task.isCancelled {
            if stream != nil {
                if await isChanged() { return () }
                continue
            }
            switch await connect() {
            case .yes: return ()
            case .restarted:
                lastEventID = ""
                return ()
            case .unsupported:
                // The caller polls.
                do { try await source.host.sleep(for: source.longestPause) } catch { return nil }
                return ()
            case .no(let retryAfter):
                guard await pause(asked: retryAfter) else { return nil }
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
            // Tokens expire, so a new one is not a failure.
            refused = token
            return await connect()
        case 410: return .restarted
        case 200..<300, 404, 405, 406, 501: return .unsupported
        default:
            // Only a token that was just refused must be replaced.
            refused = response.status == .unauthorized ? token : nil
            return .no(retryAfter: RetryAfter.pause(of: response))
        }
    }

    private func request(_ token: String?) -> HTTPRequest {
        var fields: HTTPFields = [.accept: "text/event-stream"]
        if !lastEventID.isEmpty, let name = HTTPField.Name(WireFields.lastEventID) { fields[name] = lastEventID }
        return source.address.request(.get, "/v1/changes", fields, token: token)
    }

    /// Reads one piece of the stream and returns true if it reports a change.
    private func isChanged() async -> Bool {
        guard var stream else { return false }
        // There is only one reader, so nothing else uses the stream in the meantime.
        self.stream = nil
        do throws(TransportError) {
            guard let bytes = try await stream.next() else {
                await end()
                return false
            }
            // The connection succeeded.
            if isWaitingForFirstByte {
                isWaitingForFirstByte = false
                pauses.reset()
            }
            let heard = try events.feed(bytes)
            self.stream = stream
            return handle(heard)
        } catch {
            await end()
            return false
        }
    }

    private func handle(_ heard: [ServerSentEvents.Event]) -> Bool {
        if !events.lastEventID.isEmpty { lastEventID = events.lastEventID }
        if let time = events.reconnectionTime { reconnectionTime = .milliseconds(min(time, 60_000)) }
        if heard.contains(where: { $0.name == "expired" }) {
            (stream, lastEventID) = (nil, "")
            return true
        }
        return heard.contains { $0.name == "change" }
    }

    /// Pauses after the end of a stream, so that clients that were disconnected together reconnect spread over time.
    private func end() async {
        _ = await pause(asked: nil)
    }

    /// Pauses before the next attempt, for the time that the server has asked for and a random one. Returns `false` if
    /// the task is cancelled.
    private func pause(asked: Duration?) async -> Bool {
        var generator = source.host.generator
        let first = reconnectionTime.map { min($0, source.longestPause) }
        do {
            try await source.host.sleep(for: pauses.next(asked: asked, first: first, using: &generator))
            return true
        } catch {
            return false
        }
    }
}
