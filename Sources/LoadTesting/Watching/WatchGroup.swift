import NIOCore

/// The event streams of one event loop, and which of them are to hear of which write. Stays on that loop.
final class WatchGroup {
    private struct Waiting {
        var due: NIODeadline
        var left: Int
        var writer: LoadConnection?
    }

    /// How many are connected at once: more would wait in the server's queue, which may be short.
    private static let connectingCount = 64
    /// How many are closed, and then opened again, before writers have a turn: what they measure is to be the server's
    /// time, and not that of their own loop.
    private static let reopeningCount = 64

    private let plans: [WatchedStreams]
    private var requests: [RequestBytes]
    private let target: LoadTarget
    private unowned let loop: LoadLoop
    private var streams: [[StreamConnection]]
    private var waiting: [Waiting?]
    private var pending: [Int] = []
    private var opening = 0
    /// Since when streams that were closed are to be open again; `nil` while none is missing.
    private var reopened: NIODeadline?
    /// When the last of them was.
    private var allOpen: NIODeadline?
    private var openCount = 0
    private var refusal: Int?
    private let ready: EventLoopPromise<Void>
    private var isReady = false
    private var isClosed = false

    /// The server refuses event streams.
    struct Refused: Error, CustomStringConvertible {
        let status: Int
        var description: String { "the server answers \(status) to an event stream" }
    }

    init(_ plans: [WatchedStreams], at target: LoadTarget, of loop: LoadLoop) {
        (self.plans, self.target, self.loop) = (plans, target, loop)
        requests = plans.map(\.request)
        streams = plans.map { _ in [] }
        waiting = plans.map { _ in nil }
        ready = loop.eventLoop.makePromise()
    }

    /// Whether no write's event is awaited, and no stream that was closed to be opened again.
    var isQuiet: Bool { missingCount == 0 && waiting.allSatisfy { $0 == nil } }

    private var missingCount: Int {
        reopened == nil ? 0 : plans.reduce(0) { $0 + $1.count } - openCount
    }

    /// Whether streams were to be opened again at `instant` or after it, and not all of them were open before.
    func isReopening(since instant: NIODeadline) -> Bool {
        missingCount > 0 || allOpen.map { instant < $0 } ?? false
    }

    /// Those that are not open again will not be.
    func giveUpMissing() { loop.note(.notReopened, count: missingCount) }

    func open() -> EventLoopFuture<Void> {
        pending = plans.indices.flatMap { Array(repeating: $0, count: plans[$0].count) }
        fill()
        return ready.futureResult
    }

    /// Closes all of them and opens them again, all at once: as after a restart of the server.
    func reopen() {
        reopened = NIODeadline.now()
        openCount = 0
        let closed = streams.flatMap(\.self)
        for slot in streams.indices {
            streams[slot] = []
            forget(slot: slot, keepingWriter: true)
        }
        let slots = plans.indices.flatMap { Array(repeating: $0, count: plans[$0].count) }
        inTurns(closed[...]) { _, stream in
            stream.leave()
        } then: { group in
            group.inTurns(slots[...]) {
                $0.connect($1)
            } then: { _ in
            }
        }
    }

    /// Calls `body` with all of `elements`, some at a time, and then `next`.
    private func inTurns<Element>(
        _ elements: ArraySlice<Element>, _ body: @escaping (WatchGroup, Element) -> Void,
        then next: @escaping (WatchGroup) -> Void
    ) {
        guard !isClosed else { return }
        guard !elements.isEmpty else { return next(self) }
        for element in elements.prefix(Self.reopeningCount) { body(self, element) }
        let rest = NIOLoopBound(
            (elements.dropFirst(Self.reopeningCount), body, next), eventLoop: loop.eventLoop)
        // Not at once, so that the loop looks for answers in between.
        loop.after(NIODeadline.now() + .milliseconds(2)) { loop in
            let (elements, body, next) = rest.value
            loop.watch?.inTurns(elements, body, then: next)
        }
    }

    func close() {
        isClosed = true
        for stream in streams.flatMap(\.self) { stream.leave() }
        if !isReady {
            isReady = true
            ready.fail(CancellationError())
        }
    }

    private func fill() {
        while opening < Self.connectingCount, let slot = pending.popLast() {
            opening += 1
            connect(slot)
        }
        if opening == 0, pending.isEmpty, !isReady {
            isReady = true
            if let refusal { ready.fail(Refused(status: refusal)) } else { ready.succeed() }
        }
    }

    private func connect(_ slot: Int, isRenewal: Bool = false) {
        // Written, so that it can tell whether its token is replaced.
        _ = requests[slot].bytes()
        let request = requests[slot]
        let bound = NIOLoopBound(self, eventLoop: loop.eventLoop)
        LoadLoop.connect(to: target, on: loop.eventLoop) { channel in
            let group = bound.value
            let stream = StreamConnection(slot: slot, request: request, isRenewal: isRenewal, of: group)
            group.streams[slot].append(stream)
            try channel.pipeline.syncOperations.addHandler(stream)
        }.whenFailure { error in
            let group = bound.value
            group.loop.note(.notConnected)
            if group.isReady { return group.again(slot) }
            group.isReady = true
            group.ready.fail(error)
        }
    }

    /// Tries once more, a little later.
    private func again(_ slot: Int) {
        loop.after(NIODeadline.now() + .milliseconds(200)) { loop in
            guard let watch = loop.watch, !watch.isClosed else { return }
            watch.connect(slot)
        }
    }
}

// What writers tell.
extension WatchGroup {
    /// A write is sent: every open stream is to hear of it.
    func expect(slot: Int, due: NIODeadline) {
        var count = 0
        for stream in streams[slot] where stream.isOpen {
            stream.isExpecting = true
            count += 1
        }
        waiting[slot] = count == 0 ? nil : Waiting(due: due, left: count)
    }

    /// Whether streams have not heard of the last write yet. Then `writer` writes again when they have.
    func isWaiting(slot: Int, _ writer: LoadConnection) -> Bool {
        guard waiting[slot] != nil else { return false }
        waiting[slot]?.writer = writer
        return true
    }

    /// Nothing was written.
    func forget(slot: Int, keepingWriter: Bool = false) {
        for stream in streams[slot] { stream.isExpecting = false }
        let writer = waiting[slot]?.writer
        waiting[slot] = nil
        if keepingWriter, let writer { loop.makeFree(writer) }
    }

    /// Whoever has not heard of a write that was due before `limit` will not.
    func giveUp(before limit: NIODeadline) {
        for slot in waiting.indices {
            guard let awaited = waiting[slot], awaited.due < limit else { continue }
            loop.note(.unheard, count: awaited.left)
            forget(slot: slot, keepingWriter: true)
        }
    }

    private func hear(_ stream: StreamConnection) {
        guard stream.isExpecting, let awaited = waiting[stream.slot] else { return }
        stream.isExpecting = false
        waiting[stream.slot]?.left -= 1
        guard awaited.left == 1 else { return }
        waiting[stream.slot] = nil
        if let writer = awaited.writer { loop.makeFree(writer) } else { loop.finishIfDone() }
    }
}

// What streams tell.
extension WatchGroup {
    func opened(_ stream: StreamConnection) {
        openCount += 1
        if let reopened {
            if !stream.isRenewal { loop.noteReopened(since: reopened) }
            // Whatever ends later is missing from then on.
            if missingCount == 0 { (self.reopened, allOpen) = (nil, NIODeadline.now()) }
            loop.finishIfDone()
        }
        guard !isReady else { return }
        opening -= 1
        fill()
    }

    func heard(by stream: StreamConnection) {
        guard stream.isExpecting, let awaited = waiting[stream.slot] else { return }
        loop.noteHeard(since: awaited.due)
        hear(stream)
    }

    func refused(_ stream: StreamConnection, _ status: Int) {
        streams[stream.slot].removeAll { $0 === stream }
        loop.noteRefused(status)
        if isReady { return again(stream.slot) }
        refusal = status
        opening -= 1
        pending = []
        fill()
    }

    func ended(_ stream: StreamConnection, _ trouble: LoadReport.Trouble, wasOpen: Bool) {
        if wasOpen {
            openCount -= 1
            // The server ended it; from then on it is to be open again.
            if isReady, !isClosed, reopened == nil, !stream.isOutdated { reopened = NIODeadline.now() }
        }
        streams[stream.slot].removeAll { $0 === stream }
        hear(stream)
        guard !isClosed else { return }
        // It lasts as long as its token: that is no trouble.
        if wasOpen, isReady, stream.isOutdated { return connect(stream.slot, isRenewal: true) }
        loop.note(trouble)
        if isReady { return again(stream.slot) }
        opening -= 1
        fill()
    }
}
