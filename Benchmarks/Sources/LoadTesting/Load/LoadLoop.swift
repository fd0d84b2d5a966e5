import NIOCore
import NIOPosix

/// The connections of one event loop and their results. Confined to that loop.
final class LoadLoop {
    private struct Slot {
        var work: any LoadWork
        var connection: LoadConnection?
    }

    /// The fixed, evenly spaced instants at which requests are due.
    private struct Schedule {
        let start: NIODeadline
        let interval: Double
        let offset: Double
        var place = 0

        var next: NIODeadline { start + .nanoseconds(Int64((Double(place) + offset) * interval)) }
    }

    let eventLoop: any EventLoop
    private let target: LoadTarget
    private let plan: LoadPlan
    private var slots: [Slot]
    private var free = CircularBuffer<LoadConnection>()
    private var schedule: Schedule?
    private var end = NIODeadline.distantFuture
    private var timer: Scheduled<Void>?
    private var isStarted = false
    private var isOver = false
    private var underway = 0
    private(set) var report: LoadReport
    private(set) var streams: StreamGroup?
    private let opening: EventLoopPromise<Void>
    private let ending: EventLoopPromise<LoadReport>
    private let index: Int

    /// The part of a plan that one loop carries out.
    struct Part: Sendable {
        var works: [any LoadWork]
        var streams: [WatchedStreams]
        /// The index of the loop.
        var index: Int
    }

    init(_ part: Part, of plan: LoadPlan, at target: LoadTarget, on eventLoop: any EventLoop) {
        (self.eventLoop, self.plan, self.target) = (eventLoop, plan, target)
        slots = part.works.map { Slot(work: $0) }
        report = LoadReport(kinds: plan.kinds, seconds: plan.seconds)
        opening = eventLoop.makePromise()
        ending = eventLoop.makePromise()
        index = part.index
        if !part.streams.isEmpty { streams = StreamGroup(part.streams, at: target, of: self) }
    }

    var opened: EventLoopFuture<Void> { opening.futureResult }
    var finished: EventLoopFuture<LoadReport> { ending.futureResult }

    /// Opens all streams, then all connections.
    func open() {
        let streams = streams?.open() ?? eventLoop.makeSucceededVoidFuture()
        let bound = NIOLoopBound(self, eventLoop: eventLoop)
        streams.flatMap { () -> EventLoopFuture<Void> in
            let loop = bound.value
            return EventLoopFuture.andAllSucceed(loop.slots.indices.map { loop.connect($0) }, on: loop.eventLoop)
        }.cascade(to: opening)
    }

    private func connect(_ slot: Int) -> EventLoopFuture<Void> {
        let bound = NIOLoopBound(self, eventLoop: eventLoop)
        return LoadLoop.connect(to: target, on: eventLoop) { channel in
            let connection = LoadConnection(slot: slot, of: bound.value)
            bound.value.slots[slot].connection = connection
            try channel.pipeline.syncOperations.addHandler(connection)
        }.map { _ in }
    }

    /// Connects and calls `prepare` to set up the channel's pipeline.
    static func connect(
        to target: LoadTarget, on eventLoop: any EventLoop,
        _ prepare: @escaping @Sendable (any Channel) throws -> Void
    ) -> EventLoopFuture<any Channel> {
        ClientBootstrap(group: eventLoop)
            .channelOption(.socketOption(.tcp_nodelay), value: 1)
            .connectTimeout(.seconds(10))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try prepare(channel) }
            }
            .connect(host: target.host, port: target.port)
    }

    /// Sends requests from `start` to `end`.
    func start(at start: NIODeadline, until end: NIODeadline) {
        // It may have been stopped before.
        guard !isOver else { return }
        self.end = end
        isStarted = true
        if let rate = plan.rate {
            let nanoseconds = 1_000_000_000 / rate
            schedule = Schedule(
                start: start, interval: nanoseconds * Double(plan.loopCount),
                offset: Double(index) / Double(plan.loopCount))
        }
        pump()
        if let reopening = plan.reopening {
            after(start + .nanoseconds(Int64(reopening * 1e9))) { $0.streams?.reopen() }
        }
        checkTimeouts()
        after(end) { $0.finishIfDone() }
        after(end + .nanoseconds(Int64(plan.patience * 1e9))) { $0.stop() }
    }

    /// Fails requests and events that have timed out, once a second.
    private func checkTimeouts() {
        guard !isOver else { return }
        let limit = NIODeadline.now() - .nanoseconds(Int64(plan.patience * 1e9))
        for slot in slots { if let sent = slot.connection?.sent, sent < limit { slot.connection?.timeOut() } }
        streams?.timeOut(before: limit)
        after(NIODeadline.now() + .seconds(1)) { $0.checkTimeouts() }
    }

    @discardableResult
    func after(_ instant: NIODeadline, _ action: @escaping @Sendable (LoadLoop) -> Void) -> Scheduled<Void> {
        let bound = NIOLoopBound(self, eventLoop: eventLoop)
        return eventLoop.scheduleTask(deadline: instant) { action(bound.value) }
    }

    /// Ends the run; outstanding requests are no failures.
    func cancel() {
        end = min(end, NIODeadline.now())
        schedule = nil
        underway = 0
        stop(isCancelled: true)
    }

    /// Ends the run; outstanding requests have failed.
    func stop(isCancelled: Bool = false) {
        guard !isOver else { return }
        isStarted = false
        isOver = isCancelled
        for slot in slots { slot.connection?.timeOut() }
        streams?.timeOut(before: .distantFuture)
        streams?.timeOutMissing()
        // Requests that were due and never sent have waited until now, at least.
        let now = NIODeadline.now()
        var slot = 0
        while let due = schedule?.next, due < min(end, now) {
            report.unsent += 1
            // The connections would have sent them in turn.
            report.kinds[slots[slot].work.next().kind].latencies.record((now - due).nanoseconds)
            slot = (slot + 1) % slots.count
            schedule?.place += 1
        }
        isOver = true
        timer?.cancel()
        for slot in slots { slot.connection?.close() }
        streams?.close()
        ending.succeed(report)
    }

    /// True if requests remain to be sent. Those that were due before the end are sent after it.
    private var isSending: Bool { NIODeadline.now() < end || (schedule?.next ?? end) < end }

    private var isDone: Bool { underway == 0 && !isSending && streams?.isQuiet ?? true }

    func finishIfDone() { if isStarted, isDone { stop() } }
}

// Called by connections.
extension LoadLoop {
    func opened(_ connection: LoadConnection) { makeFree(connection) }

    func makeFree(_ connection: LoadConnection) {
        free.append(connection)
        pump()
    }

    /// Sends due requests over free connections.
    private func pump() {
        guard isStarted else { return }
        let now = NIODeadline.now()
        while let connection = free.first {
            let due = schedule?.next ?? now
            guard due < end else { break }
            guard due <= now else {
                schedule(at: due)
                break
            }
            free.removeFirst()
            if schedule != nil {
                schedule?.place += 1
                if now - due > .milliseconds(1) { report.late += 1 }
            }
            let request = slots[connection.slot].work.next()
            report.sent += 1
            underway += 1
            streams?.expect(slot: connection.slot, due: due)
            connection.send(request, due: due, at: now)
        }
        finishIfDone()
    }

    private func schedule(at due: NIODeadline) {
        guard timer == nil else { return }
        timer = after(due) { loop in
            loop.timer = nil
            loop.pump()
        }
    }

    func receive(_ head: AnswerHead, by connection: LoadConnection) -> Bool {
        report.statuses[head.status, default: 0] += 1
        let isExpected = slots[connection.slot].work.isExpected(head)
        if !isExpected {
            report.unexpected[head.status, default: 0] += 1
            streams?.forgetEvents(slot: connection.slot)
        }
        return isExpected
    }

    func answered(_ connection: LoadConnection, due: NIODeadline, kind: Int, isExpected: Bool, isReady: Bool) {
        underway -= 1
        let now = NIODeadline.now()
        report.kinds[kind].latencies.record((now - due).nanoseconds)
        if streams?.isReopening(since: due) == true { report.meanwhile.record((now - due).nanoseconds) }
        if now <= end { report.answeredInTime += 1 }
        if isReady, streams?.isWaiting(slot: connection.slot, connection) != true {
            makeFree(connection)
        } else {
            finishIfDone()
        }
    }

    func failed(_ connection: LoadConnection, _ trouble: LoadReport.Trouble, wasPending: Bool) {
        guard !isOver else { return }
        report.note(trouble)
        if wasPending {
            underway -= 1
            slots[connection.slot].work.loseAnswer()
            streams?.forgetEvents(slot: connection.slot)
        }
    }

    /// Replaces the connection while requests remain.
    func closed(_ connection: LoadConnection) {
        free.removeAll { $0 === connection }
        slots[connection.slot].connection = nil
        reconnect(connection.slot)
    }

    private func reconnect(_ slot: Int) {
        guard isStarted, isSending else { return finishIfDone() }
        let bound = NIOLoopBound(self, eventLoop: eventLoop)
        connect(slot).whenFailure { _ in
            let loop = bound.value
            loop.report.note(.notConnected)
            loop.after(NIODeadline.now() + .milliseconds(100)) { $0.reconnect(slot) }
        }
    }

    func note(_ trouble: LoadReport.Trouble, count: Int = 1) { if !isOver { report.note(trouble, count: count) } }
    func noteRefused(_ status: Int) { if !isOver { report.unexpected[status, default: 0] += 1 } }
    func noteHeard(since due: NIODeadline) { report.heard.record((NIODeadline.now() - due).nanoseconds) }
    func noteReopened(since begin: NIODeadline) { report.reopened.record((NIODeadline.now() - begin).nanoseconds) }
}
