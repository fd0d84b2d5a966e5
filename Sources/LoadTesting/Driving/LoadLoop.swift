import NIOCore
import NIOPosix

/// The connections of one event loop, and what they have seen. Stays on that loop.
final class LoadLoop {
    private struct Slot {
        var work: any LoadWork
        var connection: LoadConnection?
    }

    /// When requests are due: evenly, at instants that nothing moves.
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
    private(set) var watch: WatchGroup?
    private let opening: EventLoopPromise<Void>
    private let ending: EventLoopPromise<LoadReport>

    /// What the loop's part of the plan is.
    struct Part: Sendable {
        var works: [any LoadWork]
        var streams: [WatchedStreams]
        /// Of how many loops it is which.
        var index: Int
    }

    init(_ part: Part, of plan: LoadPlan, at target: LoadTarget, on eventLoop: any EventLoop) {
        (self.eventLoop, self.plan, self.target) = (eventLoop, plan, target)
        slots = part.works.map { Slot(work: $0) }
        report = LoadReport(kinds: plan.kinds, seconds: plan.seconds)
        opening = eventLoop.makePromise()
        ending = eventLoop.makePromise()
        index = part.index
        if !part.streams.isEmpty { watch = WatchGroup(part.streams, at: target, of: self) }
    }

    private let index: Int

    var opened: EventLoopFuture<Void> { opening.futureResult }
    var finished: EventLoopFuture<LoadReport> { ending.futureResult }

    /// Connects all of them, the streams first.
    func open() {
        let streams = watch?.open() ?? eventLoop.makeSucceededVoidFuture()
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
        }
    }

    static func connect(
        to target: LoadTarget, on eventLoop: any EventLoop,
        _ prepare: @escaping @Sendable (any Channel) throws -> Void
    ) -> EventLoopFuture<Void> {
        ClientBootstrap(group: eventLoop)
            .channelOption(.socketOption(.tcp_nodelay), value: 1)
            .connectTimeout(.seconds(10))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let makeEncryption = target.makeEncryption {
                        try channel.pipeline.syncOperations.addHandler(try makeEncryption())
                    }
                    try prepare(channel)
                }
            }
            .connect(host: target.host, port: target.port).map { _ in }
    }

    /// Begins to ask, until `end`.
    func start(at start: NIODeadline, until end: NIODeadline) {
        // It may have been stopped before it began.
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
        watchTimes(from: start)
        after(end) { $0.finishIfDone() }
        after(end + .nanoseconds(Int64(plan.patience * 1e9))) { $0.stop() }
    }

    private func watchTimes(from start: NIODeadline) {
        if let reopening = plan.reopening, watch != nil {
            after(start + .nanoseconds(Int64(reopening * 1e9))) { $0.watch?.reopen() }
        }
        checkTimes()
    }

    /// Looks once a second for answers that take too long.
    private func checkTimes() {
        guard !isOver else { return }
        let limit = NIODeadline.now() - .nanoseconds(Int64(plan.patience * 1e9))
        for slot in slots { if let sent = slot.connection?.sent, sent < limit { slot.connection?.giveUp() } }
        watch?.giveUp(before: limit)
        after(NIODeadline.now() + .seconds(1)) { $0.checkTimes() }
    }

    @discardableResult
    func after(_ instant: NIODeadline, _ action: @escaping @Sendable (LoadLoop) -> Void) -> Scheduled<Void> {
        let bound = NIOLoopBound(self, eventLoop: eventLoop)
        return eventLoop.scheduleTask(deadline: instant) { action(bound.value) }
    }

    /// Ends, whatever is under way: nobody is to blame for what was not answered until somebody cancelled.
    func cancel() {
        end = min(end, NIODeadline.now())
        schedule = nil
        underway = 0
        stop(isCancelled: true)
    }

    /// Ends. What is under way has failed.
    func stop(isCancelled: Bool = false) {
        guard !isOver else { return }
        isStarted = false
        isOver = isCancelled
        for slot in slots { slot.connection?.giveUp() }
        watch?.giveUp(before: .distantFuture)
        watch?.giveUpMissing()
        // What was due and never sent has waited until now, at least.
        let now = NIODeadline.now()
        var slot = 0
        while let due = schedule?.next, due < min(end, now) {
            report.unsent += 1
            // They would have been sent by all in turn.
            report.kinds[slots[slot].work.next().kind].latencies.record((now - due).nanoseconds)
            slot = (slot + 1) % slots.count
            schedule?.place += 1
        }
        isOver = true
        timer?.cancel()
        for slot in slots { slot.connection?.close() }
        watch?.close()
        ending.succeed(report)
    }

    /// Whether there are requests to be sent, now or later. What was due before the end is, also after it.
    private var isAsking: Bool { NIODeadline.now() < end || (schedule?.next ?? end) < end }

    private var isDone: Bool { underway == 0 && !isAsking && watch?.isQuiet ?? true }

    func finishIfDone() { if isStarted, isDone { stop() } }
}

// What connections tell.
extension LoadLoop {
    func opened(_ connection: LoadConnection) { makeFree(connection) }

    func makeFree(_ connection: LoadConnection) {
        free.append(connection)
        pump()
    }

    /// Sends what is due by whoever is free.
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
            watch?.expect(slot: connection.slot, due: due)
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
            watch?.forget(slot: connection.slot)
        }
        return isExpected
    }

    func answered(_ connection: LoadConnection, due: NIODeadline, kind: Int, isExpected: Bool, isReady: Bool) {
        underway -= 1
        let now = NIODeadline.now()
        report.kinds[kind].latencies.record((now - due).nanoseconds)
        if watch?.isReopening(since: due) == true { report.meanwhile.record((now - due).nanoseconds) }
        if now <= end { report.answeredInTime += 1 }
        if isReady, watch?.isWaiting(slot: connection.slot, connection) != true {
            makeFree(connection)
        } else {
            finishIfDone()
        }
    }

    func failed(_ connection: LoadConnection, _ trouble: LoadReport.Trouble, wasAsked: Bool) {
        guard !isOver else { return }
        report.note(trouble)
        if wasAsked {
            underway -= 1
            slots[connection.slot].work.loseAnswer()
            watch?.forget(slot: connection.slot)
        }
    }

    /// Another takes its place as long as requests are made.
    func closed(_ connection: LoadConnection) {
        free.removeAll { $0 === connection }
        slots[connection.slot].connection = nil
        reconnect(connection.slot)
    }

    private func reconnect(_ slot: Int) {
        guard isStarted, isAsking else { return finishIfDone() }
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
