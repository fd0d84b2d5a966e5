import NIOCore

/// The event streams of one event loop and the events that they have yet to receive. Confined to that loop.
///
/// A stream that is lost reconnects after the reconnection time that the server last sent on it (`retry`), or 1 s.
final class StreamGroup {
    private struct Outstanding {
        var due: NIODeadline
        var count: Int
        var writer: LoadConnection?
    }

    /// The number of streams that connect at once before the run starts: more would overflow a short accept queue.
    private static let connectingCount = 64
    /// The number of streams that ``reopen()`` closes at once. Writers have a turn in between, so that their latencies
    /// are those of the server and not of this loop.
    private static let closingCount = 64

    private let plans: [WatchedStreams]
    private let target: LoadTarget
    private unowned let loop: LoadLoop
    /// The open and connecting streams of each writer.
    private var streams: [[StreamConnection]]
    /// The events of each writer's last write.
    private var outstanding: [Outstanding?]
    private let totalCount: Int
    private var openCount = 0
    /// The time since which streams are missing; `nil` while all are open.
    private var lost: NIODeadline?
    /// The time at which the last missing stream was open again.
    private var restored: NIODeadline?
    /// The writers whose streams have yet to connect before the run starts.
    private var pending: [Int] = []
    private var connecting = 0
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
        streams = plans.map { _ in [] }
        outstanding = plans.map { _ in nil }
        totalCount = plans.reduce(0) { $0 + $1.count }
        ready = loop.eventLoop.makePromise()
    }

    /// True if no event is outstanding and no stream missing.
    var isQuiet: Bool { missingCount == 0 && outstanding.allSatisfy { $0 == nil } }

    private var missingCount: Int { lost == nil ? 0 : totalCount - openCount }

    /// Returns `true` if streams were missing at `instant` or are missing now.
    func isReopening(since instant: NIODeadline) -> Bool {
        missingCount > 0 || restored.map { instant < $0 } ?? false
    }

    func open() -> EventLoopFuture<Void> {
        pending = plans.indices.flatMap { Array(repeating: $0, count: plans[$0].count) }
        connectPending()
        return ready.futureResult
    }

    private func connectPending() {
        while connecting < Self.connectingCount, let slot = pending.popLast() {
            connecting += 1
            connect(slot, isInitial: true, reconnectionTime: .seconds(1))
        }
        if connecting == 0, pending.isEmpty, !isReady {
            isReady = true
            if let refusal { ready.fail(Refused(status: refusal)) } else { ready.succeed() }
        }
    }

    private func endInitial(_ stream: StreamConnection) {
        guard stream.isInitial else { return }
        stream.isInitial = false
        connecting -= 1
        connectPending()
    }

    private func connect(_ slot: Int, isInitial: Bool = false, reconnectionTime: TimeAmount) {
        let stream = StreamConnection(
            slot: slot, request: plans[slot].request, isInitial: isInitial, reconnectionTime: reconnectionTime,
            of: self)
        streams[slot].append(stream)
        let bound = NIOLoopBound((group: self, stream: stream), eventLoop: loop.eventLoop)
        LoadLoop.connect(to: target, on: loop.eventLoop) { channel in
            try channel.pipeline.syncOperations.addHandler(bound.value.stream)
        }.whenFailure { bound.value.group.failed(bound.value.stream, $0) }
    }

    private func reconnect(_ stream: StreamConnection) {
        let (slot, time) = (stream.slot, stream.reconnectionTime)
        loop.after(NIODeadline.now() + time) { loop in
            guard let group = loop.streams, !group.isClosed else { return }
            group.connect(slot, reconnectionTime: time)
        }
    }

    /// Closes all streams, as a restart of the server would; each reconnects after its reconnection time.
    func reopen() {
        lost = lost ?? NIODeadline.now()
        openCount = 0
        let closing = streams.flatMap(\.self)
        for slot in streams.indices {
            streams[slot] = []
            forgetEvents(slot: slot)
        }
        closeInTurns(closing[...])
    }

    private func closeInTurns(_ closing: ArraySlice<StreamConnection>) {
        guard !isClosed, !closing.isEmpty else { return }
        for stream in closing.prefix(Self.closingCount) {
            stream.close()
            reconnect(stream)
        }
        let rest = NIOLoopBound(closing.dropFirst(Self.closingCount), eventLoop: loop.eventLoop)
        loop.after(NIODeadline.now() + .milliseconds(2)) { $0.streams?.closeInTurns(rest.value) }
    }

    func close() {
        isClosed = true
        for stream in streams.flatMap(\.self) { stream.close() }
        if !isReady {
            isReady = true
            ready.fail(CancellationError())
        }
    }
}

// Called by writers.
extension StreamGroup {
    /// Expects the event of a write, which is about to be sent, on every open stream.
    func expect(slot: Int, due: NIODeadline) {
        let open = streams[slot].filter(\.isOpen)
        for stream in open { stream.isExpecting = true }
        outstanding[slot] = open.isEmpty ? nil : Outstanding(due: due, count: open.count)
    }

    /// Returns `true` if events of the last write are outstanding. If so, `writer` becomes free when they have arrived.
    func isWaiting(slot: Int, _ writer: LoadConnection) -> Bool {
        guard outstanding[slot] != nil else { return false }
        outstanding[slot]?.writer = writer
        return true
    }

    /// Stops expecting the event of the last write.
    func forgetEvents(slot: Int) {
        for stream in streams[slot] { stream.isExpecting = false }
        let writer = outstanding[slot]?.writer
        outstanding[slot] = nil
        if let writer { loop.makeFree(writer) }
    }

    /// Reports the outstanding events of writes that were due before `limit` as missing.
    func timeOut(before limit: NIODeadline) {
        for slot in outstanding.indices {
            guard let events = outstanding[slot], events.due < limit else { continue }
            loop.note(.unheard, count: events.count)
            forgetEvents(slot: slot)
        }
    }

    /// Reports the streams that are missing.
    func timeOutMissing() { loop.note(.notReopened, count: missingCount) }

    private func stopExpecting(_ stream: StreamConnection) {
        guard stream.isExpecting, let events = outstanding[stream.slot] else { return }
        stream.isExpecting = false
        outstanding[stream.slot]?.count -= 1
        guard events.count == 1 else { return }
        outstanding[stream.slot] = nil
        if let writer = events.writer { loop.makeFree(writer) } else { loop.finishIfDone() }
    }
}

// Called by streams.
extension StreamGroup {
    func opened(_ stream: StreamConnection) {
        openCount += 1
        if let lost {
            loop.noteReopened(since: lost)
            if missingCount == 0 { (self.lost, restored) = (nil, NIODeadline.now()) }
            loop.finishIfDone()
        }
        endInitial(stream)
    }

    func receivedEvent(_ stream: StreamConnection) {
        guard stream.isExpecting, let events = outstanding[stream.slot] else { return }
        loop.noteHeard(since: events.due)
        stopExpecting(stream)
    }

    func refused(_ stream: StreamConnection, _ status: Int) {
        streams[stream.slot].removeAll { $0 === stream }
        loop.noteRefused(status)
        guard stream.isInitial else { return reconnect(stream) }
        refusal = status
        pending = []
        endInitial(stream)
    }

    func ended(_ stream: StreamConnection, _ trouble: LoadReport.Trouble, wasOpen: Bool) {
        streams[stream.slot].removeAll { $0 === stream }
        stopExpecting(stream)
        guard !isClosed else { return }
        if wasOpen { openCount -= 1 }
        // The server ends a stream with its token, which is no failure.
        if !wasOpen || !stream.isOutdated {
            loop.note(trouble)
            if wasOpen, isReady { lost = lost ?? NIODeadline.now() }
        }
        if stream.isInitial { endInitial(stream) } else { reconnect(stream) }
    }

    private func failed(_ stream: StreamConnection, _ error: any Error) {
        guard let place = streams[stream.slot].firstIndex(where: { $0 === stream }) else { return }
        streams[stream.slot].remove(at: place)
        loop.note(.notConnected)
        guard isReady else {
            (isReady, pending) = (true, [])
            return ready.fail(error)
        }
        if !isClosed { reconnect(stream) }
    }
}
