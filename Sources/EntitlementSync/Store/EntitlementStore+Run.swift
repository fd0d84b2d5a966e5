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
    /// A failed sync is reported as ``EntitlementEvent/failed(_:)`` and retried with exponential back-off, from one
    /// second up to the polling interval.
    ///
    /// - Parameters:
    ///   - interval: The longest time between two syncs. Must be positive.
    ///   - notice: The time before the end of a group at which ``EntitlementEvent/expiring(_:at:)`` is sent.
    public func run(
        pollingEvery interval: Duration = .seconds(60), noticeBeforeExpiry notice: Duration = .seconds(3 * 86_400)
    ) async {
        await run(pollingEvery: interval, noticeBeforeExpiry: notice) { _ in }
    }

    /// Keeps this device up to date, and reports each round.
    ///
    /// - Parameter afterRound: Receives the failure of each round, or `nil` after a round without one.
    package func run(
        pollingEvery interval: Duration = .seconds(60), noticeBeforeExpiry notice: Duration = .seconds(3 * 86_400),
        afterRound: @escaping @Sendable (EntitlementError?) async -> Void
    ) async {
        precondition(interval > .zero, "the polling interval must be positive")
        await withTaskGroup(of: Void.self) { group in
            for stream in [remote?.signals(), local.signals()].compactMap({ $0 }) {
                group.addTask { for await _ in stream { self.wakeUp.signal() } }
            }
            await keepCurrent(interval: interval, notice: notice, afterRound: afterRound)
            group.cancelAll()
        }
    }

    private func keepCurrent(
        interval: Duration, notice: Duration, afterRound: @Sendable (EntitlementError?) async -> Void
    ) async {
        var failures = 0
        var announced: [GroupID: Timestamp] = [:]
        while !Task.isCancelled {
            var failure: EntitlementError?
            do { try await followDevice() } catch { failure = error }
            let session = session
            var state: LocalState?
            if remote != nil, !session.account.isAnonymous {
                do { state = try await sync(session).state } catch { failure = error }
            }
            do {
                // Time passes and other processes write even if the sync failed.
                if state == nil {
                    state = try await publish(session).state
                    try clock.checkRead()
                }
                if let state { announce(endsOf: state.replay, within: notice, except: &announced) }
            } catch {
                failure = failure ?? error
            }
            if Task.isCancelled { return }
            failures = failure == nil ? 0 : failures + 1
            if let failure { feed.publish(.failed(failure)) }
            await afterRound(failure)
            await waitForSignal(atMost: pause(interval: interval, failures: failures, notice: notice))
        }
    }

    /// Returns after a signal or after `duration`, whichever comes first.
    private func waitForSignal(atMost duration: Duration) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.wakeUp.wait() }
            group.addTask {
                // The sleep throws only on cancellation, after which there is nothing left to do.
                do { try await self.host.sleep(for: duration) } catch {}
            }
            await group.next()
            group.cancelAll()
        }
    }

    private func pause(interval: Duration, failures: Int, notice: Duration) -> Duration {
        let longest = failures > 0 ? min(interval, .seconds(1 << min(failures - 1, 16))) : interval
        guard let replay = session.lastReplay else { return longest }
        let now = now
        let boundaries = [
            replay.nextBoundary(after: now),
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
        let now = now
        for subscription in replay.snapshot(at: now).subscriptions where subscription.isActive {
            guard let end = subscription.expires, announced[subscription.group] != end,
                end.milliseconds - now.milliseconds <= notice.milliseconds
            else { continue }
            announced[subscription.group] = end
            feed.publish(.expiring(subscription.group, at: end))
        }
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

extension Duration {
    /// The duration in whole milliseconds, limited to 10,000 years.
    fileprivate var milliseconds: Int64 {
        let seconds = min(components.seconds, 315_576_000_000)
        return seconds * 1_000 + components.attoseconds / 1_000_000_000_000_000
    }
}
