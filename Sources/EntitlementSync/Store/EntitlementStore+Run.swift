public import Entitlements
import SyncCore
import Synchronization

extension EntitlementStore {
    /// Returns a stream of the current snapshot and of every snapshot after a change.
    ///
    /// A slow reader misses intermediate snapshots, never the latest. Changes made through this store object appear at
    /// once. Changes by other processes, by other devices and by the passage of time appear while
    /// ``run(pollingEvery:noticeBeforeExpiry:)`` runs.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    public func snapshots() async throws(EntitlementError) -> AsyncStream<Snapshot> {
        feed.subscribe(startingWith: try await publish(session).snapshot)
    }

    /// The events from now on. A reader that falls behind by more than 1,000 events misses the oldest.
    public var events: AsyncStream<EntitlementEvent> {
        feed.subscribeToEvents()
    }

    /// Keeps this device up to date until the task is cancelled.
    ///
    /// Syncs at once, after each recording, when the remote signals a change, and at least once per polling interval.
    /// Also detects changes by other processes, and the start and end of periods. Without a remote or an account it
    /// does not sync.
    ///
    /// A failed sync is reported as ``EntitlementEvent/failed(_:)`` and retried after pauses from one second up to the
    /// polling interval, at most 15 minutes; in the first minute of an outage, up to five seconds. A longer time that
    /// the remote asks for is honoured.
    ///
    /// - Parameters:
    ///   - interval: The longest time between two syncs; it is shortened at random by up to a tenth. Must be positive.
    ///   - notice: The time before the end of a group at which ``EntitlementEvent/expiring(_:at:)`` is sent.
    public func run(
        pollingEvery interval: Duration = .seconds(60), noticeBeforeExpiry notice: Duration = .seconds(3 * 86_400)
    ) async {
        await run(pollingEvery: interval, noticeBeforeExpiry: notice) { _ in }
    }

    /// Keeps this device up to date, and reports each round.
    ///
    /// - Parameters:
    ///   - wakes: Yields when the remote may be reachable again: the network came back, or the machine was suspended.
    ///   - afterRound: Receives the outcome of each round.
    package func run(
        pollingEvery interval: Duration = .seconds(60), noticeBeforeExpiry notice: Duration = .seconds(3 * 86_400),
        wakingOn wakes: AsyncStream<Void>? = nil, afterRound: @escaping @Sendable (RunRound) async -> Void
    ) async {
        precondition(interval > .zero, "the polling interval must be positive")
        let streams: [(AsyncStream<Void>?, WakeUp.Reasons)] = [
            (remote?.signals(), .remote), (local.signals(), .local), (wakes, .network),
        ]
        await withTaskGroup(of: Void.self) { group in
            for case (let stream?, let reason) in streams {
                group.addTask { for await _ in stream { self.wakeUp.signal(reason) } }
            }
            await keepCurrent(SyncPace(interval: interval, host: host), notice: notice, afterRound: afterRound)
            group.cancelAll()
        }
    }

    /// A stream that yields when the local store may have changed; `nil` if it cannot be watched.
    package func localSignals() -> AsyncStream<Void>? { local.signals() }

    /// Lets ``run(pollingEvery:noticeBeforeExpiry:)`` retry a failed sync at once, for example after a log-in.
    package func retrySync() { wakeUp.signal(.network) }

    private func keepCurrent(
        _ pace: SyncPace, notice: Duration, afterRound: @Sendable (RunRound) async -> Void
    ) async {
        var pace = pace
        var reasons: WakeUp.Reasons = []
        var announced: [GroupID: Timestamp] = [:]
        while !Task.isCancelled {
            var round = RunRound(isSignalled: reasons.contains(.remote))
            var state: LocalState?
            do {
                try await followDevice()
                let session = session
                if try await isSyncDue(&pace, reasons, &state, of: session) {
                    round.hasSynced = true
                    let synced = try await sync(session).state
                    pace.didSync(synced, of: session.account)
                    state = synced
                }
            } catch {
                round.failure = error
            }
            do {
                // Time passes and other processes write even if the sync failed.
                if state == nil {
                    state = try await publish(session).state
                    try clock.checkRead()
                }
                if let state { announce(endsOf: state.replay, within: notice, except: &announced) }
            } catch {
                round.failure = round.failure ?? error
            }
            if Task.isCancelled { return }
            if let failure = round.failure {
                pace.didFail(failure, of: session.account)
                feed.publish(.failed(failure))
            }
            round.isFailing = pace.isFailing
            await afterRound(round)
            reasons = await waitForSignal(atMost: pause(pace.untilNextSync, notice: notice))
        }
    }

    /// Returns `true` if the account must be synced now.
    ///
    /// - Parameter state: The state of the store, if it had to be read.
    private func isSyncDue(
        _ pace: inout SyncPace, _ reasons: WakeUp.Reasons, _ state: inout LocalState?, of session: AccountSession
    ) async throws(EntitlementError) -> Bool {
        guard remote != nil, !session.account.isAnonymous else {
            // There is nothing to retry but the local store.
            pace.didSync(nil, of: session.account)
            return false
        }
        if pace.isDue(reasons, for: session.account) { return true }
        guard reasons.contains(.local), pace.allowsNews else { return false }
        let held = try await publish(session).state
        state = held
        return pace.hasNews(held)
    }

    /// Returns after a signal, with its reasons, or after `duration`.
    private func waitForSignal(atMost duration: Duration) async -> WakeUp.Reasons {
        await withTaskGroup(of: WakeUp.Reasons.self) { group in
            group.addTask { await self.wakeUp.wait() }
            group.addTask {
                // The sleep throws only on cancellation, after which there is nothing left to do.
                do { try await self.host.sleep(for: duration) } catch {}
                return []
            }
            var reasons = await group.next() ?? []
            group.cancelAll()
            for await more in group { reasons.formUnion(more) }
            return reasons
        }
    }

    private func pause(_ longest: Duration, notice: Duration) -> Duration {
        guard let state = session.lastState else { return longest }
        let (replay, now) = (state.replay, now)
        // A grant that cannot be read has no end.
        let limit = (try? limit(of: state, at: now)) ?? nil
        let boundaries = [
            replay.nextBoundary(after: now), limit?.nextBoundary(after: now),
            replay.nextBoundary(after: Timestamp(milliseconds: now.milliseconds + notice.milliseconds))
                .map { Timestamp(milliseconds: $0.milliseconds - notice.milliseconds) },
        ]
        // `now` does not advance until the corrected clock reaches its marks, so the wait is measured from the
        // corrected clock.
        let corrected = clock.corrected
        let waits = boundaries.compactMap { $0 }.map { Duration.milliseconds($0.milliseconds - corrected.milliseconds) }
        return ([longest] + waits.filter { $0 > .zero }).min() ?? longest
    }

    private func announce(endsOf replay: Replay, within notice: Duration, except announced: inout [GroupID: Timestamp])
    {
        let ends = replay.snapshot(at: now).ends(within: notice)
        for (group, end) in ends.sorted(by: { $0.key < $1.key }) where announced[group] != end {
            feed.publish(.expiring(group, at: end))
        }
        announced = ends
    }

    /// Reads the local store, and stores the clock's marks if they have advanced.
    func load(_ session: AccountSession) async throws(EntitlementError) -> LocalState {
        let state = try await session.read()
        await keepClock()
        return state
    }

    /// Stores this process's marks of the time, if they have advanced.
    ///
    /// An access check does not depend on the outcome. If the local store fails, the marks in memory still count, and
    /// the failure is reported once until storing succeeds.
    private func keepClock() async {
        do throws(EntitlementError) {
            try await clock.keep()
            clock.didKeep()
        } catch {
            // Cancellation of the caller is not reported as a failure.
            if !Task.isCancelled, clock.didFailToKeep() { feed.publish(.failed(error)) }
        }
    }

    /// Publishes all changes since the last publication, made through this store object or elsewhere.
    @discardableResult
    func publish(
        _ session: AccountSession
    ) async throws(EntitlementError) -> (state: LocalState, snapshot: Snapshot) {
        try await publish(try await load(session), of: session)
    }

    /// Publishes `state`, or the contents of the store by now if another state was published in the meantime.
    ///
    /// - Returns: The published state, and its snapshot.
    @discardableResult
    func publish(
        _ state: LocalState, of session: AccountSession
    ) async throws(EntitlementError) -> (state: LocalState, snapshot: Snapshot) {
        await keepClock()
        var current = (state: state, snapshot: try snapshot(of: state, in: session))
        while !feed.publish(current.state, current.snapshot, of: session.account) {
            current.state = try await load(session)
            current.snapshot = try snapshot(of: current.state, in: session)
        }
        return current
    }

    /// Publishes facts that this store object has just written. The facts are durable even if publishing fails.
    ///
    /// - Parameter state: The state after the last write; `nil` to read the store.
    func publish(_ facts: [Fact], in session: AccountSession, _ state: LocalState? = nil) async {
        if !facts.isEmpty { wakeUp.signal() }
        do {
            if let state { try await publish(state, of: session) } else { try await publish(session) }
        } catch {
            // Cancellation of the caller is not reported as a failure.
            if !Task.isCancelled { feed.publish(.failed(error)) }
        }
    }
}

extension Snapshot {
    /// Returns the ends of the active groups that end within `notice`.
    ///
    /// An end is announced if the previous result lacks it. A group whose end moved is thus announced again when the
    /// new end is near.
    package func ends(within notice: Duration) -> [GroupID: Timestamp] {
        subscriptions.reduce(into: [:]) { ends, subscription in
            guard subscription.isActive, let end = subscription.expires,
                end.milliseconds - at.milliseconds <= notice.milliseconds
            else { return }
            ends[subscription.group] = end
        }
    }
}

extension Duration {
    /// The duration in whole milliseconds, limited to 10,000 years.
    var milliseconds: Int64 {
        let seconds = min(components.seconds, 315_576_000_000)
        return seconds * 1_000 + components.attoseconds / 1_000_000_000_000_000
    }
}
