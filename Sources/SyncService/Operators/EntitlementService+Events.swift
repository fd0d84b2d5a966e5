import Entitlements
import HTTPTypes
import SyncCore
import SyncProtocol

// The events of the projection, as pages and as a stream.
extension EntitlementService {
    /// The time between two looks for further events, while a client listens to them.
    private static let eventPause = Duration.milliseconds(500)

    /// The response to `GET /v1/events`.
    func events(_ call: Call, for caller: OperatorCaller) async throws -> ServiceResponse {
        let log = EventLog(tables: try projectedRows())
        guard EventStream.isRequested(by: call.request.head) else {
            let limit = try call.query.pageSize(configuration.limits)
            let after = try call.query["after"].map { (text) throws(RequestError) in try EventLog.number(text) }
            let page = try await log.page(after: after, limit: limit)
            return try call.response(page.json, to: caller)
        }
        let resumed = HTTPField.Name(WireFields.lastEventID).flatMap { call.fields[$0] } ?? call.query["after"]
        let after = try resumed.map { (text) throws(RequestError) in try EventLog.number(text) }
        // An event that was pruned is refused before the stream begins. A client that knows none begins at the end.
        var position = try await log.last()
        if let after { position = try await log.page(after: after, limit: 1).after }
        let listening = hub.listen(nil, origin: caller.origin, expires: caller.expires)
        // The token may have been revoked after it was verified and before the hub had this listener.
        do { _ = try await identify(call.request.head, peer: call.peer) } catch {
            listening.end()
            throw error
        }
        let retry = EventStream.retry(streamCount: streamCount, host)
        let stream = OutboxStream(
            log, after: position, notes: listening.notes, retry: retry, host: host, onError
        ) { [self, head = call.request.head, peer = call.peer] in (try? await identify(head, peer: peer)) != nil }
        var response = HTTPResponse(status: .ok)
        WireFields.addEventStreamFields(to: &response.headerFields)
        return ServiceResponse(response, body: .stream(AsyncStream { await stream.next() }, end: listening.end))
    }

    /// Wakes the streams when there are further events. The projection may be written by another server.
    func followEvents() async {
        guard let projector else { return }
        var known: Int64?
        while (try? await host.sleep(for: Self.eventPause)) != nil {
            guard hub.hasEventListeners, projector.state?.catalogue != nil else { continue }
            do throws(BackendError) {
                let last = try await EventLog(tables: projector.tables).last()
                if last != known { hub.announceEvents() }
                known = last
            } catch {
                guard !Task.isCancelled else { return }
                onError(error)
            }
        }
    }
}

/// The events of a projection in the order of their numbers, which have no gaps until events are pruned.
struct EventLog: Sendable {
    struct Page: Sendable {
        /// The event before the page.
        var after: Int64
        var events: [(number: Int64, kind: String, json: [UInt8])]
        /// True if there are further events.
        var hasMore: Bool

        var last: Int64 { events.last?.number ?? after }

        var json: [UInt8] {
            var json = Array("{\"events\": [".utf8)
            for (index, event) in events.enumerated() {
                if index > 0 { json += ", ".utf8 }
                json += event.json
            }
            return json + "], \"next\": \(last), \"more\": \(hasMore)}".utf8
        }
    }

    let tables: ProjectionTables

    /// The number of an event in a request.
    static func number(_ text: String) throws(RequestError) -> Int64 {
        guard text.utf8.allSatisfy(\.isASCIIDigit), let number = Int64(text) else {
            throw RequestError(.badRequest, "after must be the number of an event, not \"\(text.singleLine)\"")
        }
        return number
    }

    /// The number of the last event.
    func last() async throws(BackendError) -> Int64 {
        try await tables.rows("SELECT last_event FROM state WHERE id = 0").first?[0].integer ?? 0
    }

    /// The events after number `after`; from the first one that is kept if it is `nil`.
    ///
    /// - Throws: ``RequestError`` with the status 410 if the next event was pruned, or if there was no event `after`.
    func page(after: Int64?, limit: Int) async throws -> Page {
        let found = try await tables.database.read([
            SQLStatement("SELECT last_event FROM state WHERE id = 0"),
            SQLStatement(
                "SELECT id, kind, body FROM events WHERE id > $1 ORDER BY id LIMIT $2",
                [.integer(after ?? 0), .integer(Int64(limit) + 1)]),
        ])
        let last = found[0].first?[0].integer ?? 0
        var events: [(number: Int64, kind: String, json: [UInt8])] = []
        for row in found[1] {
            guard let number = row[0].integer, let kind = row[1].text, let body = row[2].text else { continue }
            events.append((number, kind, Self.json(number, body)))
        }
        if let after, after > last {
            throw RequestError(
                .gone,
                "the last event is \(last), so there was no event \(after): the projection was replaced; read the "
                    + "customers again, and go on with after=\(last)")
        }
        let first = events.first?.number ?? last + 1
        if let after, first != after + 1 {
            throw RequestError(
                .gone,
                "the events \(after + 1) to \(first - 1) were deleted because of their age; read the customers again, "
                    + "and go on with after=\(first - 1)")
        }
        // An event that a webhook has not delivered may be older than a gap. The next page is refused there.
        let isWhole = { (index: Int) in events[index].number == first + Int64(index) }
        let page = events.indices.prefix(limit).prefix(while: isWhole).map { events[$0] }
        return Page(after: first - 1, events: page, hasMore: page.count < events.count)
    }

    /// The event with its number as the first member.
    private static func json(_ number: Int64, _ body: String) -> [UInt8] {
        Array("{\"id\": \(number), ".utf8) + body.utf8.dropFirst()
    }
}

/// The events of a projection as server-sent events: those since a number, then live ones.
actor OutboxStream {
    private static let pageCount = 256

    private let log: EventLog
    private let host: HostServices
    private let onError: @Sendable (BackendError) -> Void
    private let isTrusted: @Sendable () async -> Bool
    private var notes: AsyncStream<ChangeHub.Note>.Iterator
    private var position: Int64
    private var greeting: [UInt8]?
    private var isOver = false

    /// - Parameters:
    ///   - position: The number of the last event that the client knows.
    ///   - notes: The notes of the hub, which end with the caller's token.
    ///   - retry: The reconnection time, in milliseconds.
    ///   - isTrusted: Checks the client's token again, before each page.
    init(
        _ log: EventLog, after position: Int64, notes: AsyncStream<ChangeHub.Note>, retry: UInt64, host: HostServices,
        _ onError: @escaping @Sendable (BackendError) -> Void, isTrusted: @escaping @Sendable () async -> Bool
    ) {
        (self.log, self.position, self.host, self.onError) = (log, position, host, onError)
        self.isTrusted = isTrusted
        self.notes = notes.makeAsyncIterator()
        // A new client learns its position, so that it can resume without missing anything.
        greeting = Array("retry: \(retry)\n\nid: \(position)\nevent: position\ndata: {}\n\n".utf8)
    }

    /// The next piece of the body; `nil` at its end.
    func next() async -> [UInt8]? {
        if let greeting {
            self.greeting = nil
            return greeting
        }
        while !isOver {
            guard await isTrusted() else { break }
            do {
                let page = try await log.page(after: position, limit: Self.pageCount)
                guard page.events.isEmpty else {
                    position = page.last
                    return page.events.flatMap { event in
                        Array("id: \(event.number)\nevent: \(event.kind)\ndata: ".utf8) + event.json + "\n\n".utf8
                    }
                }
            } catch {
                isOver = true
                if let error = error as? BackendError, !Task.isCancelled { onError(error) }
                // The client's next request is refused with the reason.
                return error is RequestError ? Array("event: expired\ndata: {}\n\n".utf8) : nil
            }
            switch await nextNote() {
            case .heartbeat: return Array(": \(host.now())\n\n".utf8)
            case nil: isOver = true
            case .changes, .expired, .events: continue
            }
        }
        return nil
    }

    private func nextNote() async -> ChangeHub.Note? {
        var iterator = notes
        let note = await iterator.next(isolation: self)
        notes = iterator
        return note
    }
}
