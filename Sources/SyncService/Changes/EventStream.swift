import HTTPTypes
import SyncCore
import SyncProtocol

/// The changes of a scope as server-sent events: first the changes since a cursor, then live changes.
actor EventStream {
    /// A random reconnection time, in milliseconds: one second plus up to half a millisecond for each of `streamCount`
    /// open streams, at most 30 s in total. It spreads the reconnections of thousands of clients that lose their
    /// connections at the same time, for example when the server restarts.
    static func retry(streamCount: Int, _ host: HostServices) -> UInt64 {
        1_000 + host.randomBits() % UInt64(1 + min(streamCount, 58_000) / 2)
    }

    /// Returns `true` if a request asks for a stream of events.
    static func isRequested(by request: HTTPRequest) -> Bool {
        (request.headerFields[.accept] ?? "").lowercased().split(separator: ",").contains { part in
            part.split(separator: ";").first?.filter { $0 != " " } == WireFields.eventStream
        }
    }

    private enum Phase {
        case greeting
        case catchingUp
        case listening
        case over
    }

    private let service: KeyValueService
    private let host: HostServices
    private var notes: AsyncStream<ChangeHub.Note>.Iterator
    private var phase = Phase.greeting
    private var cursor: ChangeCursor?
    private let isResumed: Bool
    private let retry: UInt64
    private let isTrusted: @Sendable () async -> Bool

    /// - Parameters:
    ///   - resumed: The last position that the client has seen; `nil` for a new client.
    ///   - listening: The notes of the hub from now on.
    ///   - streamCount: The number of open streams.
    ///   - isTrusted: Checks the client's token again, before each page that the client missed. Live changes need no
    ///     check, because the hub ends the notes before it sends changes that follow the end of the session.
    init(
        _ service: KeyValueService, from resumed: ChangeCursor?, listening: ChangeHub.Listening, streamCount: Int,
        host: HostServices, isTrusted: @escaping @Sendable () async -> Bool
    ) {
        self.isTrusted = isTrusted
        retry = Self.retry(streamCount: streamCount, host)
        (self.service, self.host) = (service, host)
        notes = listening.notes.makeAsyncIterator()
        isResumed = resumed != nil
        cursor = resumed ?? listening.from
    }

    /// The next piece of the body; `nil` at its end.
    func next() async -> [UInt8]? {
        switch phase {
        case .greeting:
            phase = isResumed ? .catchingUp : .listening
            // A new client learns its position, so that it can resume without missing anything.
            return Array("retry: \(retry)\n\n".utf8) + (isResumed ? [] : position(cursor))
        case .catchingUp: return await catchUp()
        case .listening: return await listen()
        case .over: return nil
        }
    }

    private func catchUp() async -> [UInt8]? {
        guard await isTrusted() else { return end(false) }
        do throws(BackendError) {
            // Skipping many changes of other keys may take long and would block the event loop.
            let page = try await withTaskExecutorPreference(LongWork.executor) {
                [service, cursor] () async throws(BackendError) in
                try await service.changes(since: cursor, limit: 256)
            }
            cursor = page.cursor ?? cursor
            if !page.hasMore { phase = .listening }
            return page.changes.flatMap(event) + position(cursor)
        } catch {
            return end(error.kind == .cursorExpired)
        }
    }

    private func listen() async -> [UInt8]? {
        while let note = await nextNote() {
            switch note {
            case .changes(let changes, let cursor):
                // Skips changes that the client received while it was catching up.
                if isResumed, let known = self.cursor, cursor.sequence <= known.sequence { continue }
                return changes.flatMap(event) + position(cursor)
            case .heartbeat(let cursor):
                return Array(": \(host.now())\n".utf8) + (cursor.map { position($0) } ?? Array("\n".utf8))
            case .expired: return end(true)
            case .events: continue
            }
        }
        phase = .over
        return nil
    }

    private func nextNote() async -> ChangeHub.Note? {
        var iterator = notes
        let note = await iterator.next(isolation: self)
        notes = iterator
        return note
    }

    private func end(_ isExpired: Bool) -> [UInt8]? {
        phase = .over
        return isExpired ? Array("event: expired\ndata: {}\n\n".utf8) : nil
    }

    private func position(_ cursor: ChangeCursor?) -> [UInt8] {
        guard let cursor else { return [] }
        return Array("id: \(CursorText.text(of: cursor))\nevent: cursor\ndata: {}\n\n".utf8)
    }

    /// An event without an id, because a client may resume only after a complete page.
    private func event(_ change: ChangePage.Change) -> [UInt8] {
        Array("event: change\ndata: ".utf8) + ChangePageBody.json(of: change) + Array("\n\n".utf8)
    }
}
