public import Entitlements
import SyncCore
import Synchronization

extension EntitlementStore {
    /// What holds now, and what holds after every change from now on. A slow reader misses old states, never the
    /// latest.
    ///
    /// Changes of this store object appear at once; those of other processes, of other devices and of time passing
    /// while ``run(pollingEvery:noticeBeforeExpiry:)`` runs.
    ///
    /// - Throws: ``EntitlementError`` of kind `storage` or `damaged`.
    public func snapshots() async throws(EntitlementError) -> AsyncStream<Snapshot> {
        let session = session
        let turn = feed.takeTurn()
        let state = try await session.ledgers.current()
        let snapshot = try await snapshot(of: state, in: session)
        return feed.subscribe(startingWith: state, snapshot, of: session.account, turn: turn)
    }

    /// What happens from now on. A reader that falls behind by more than 1,000 events misses the oldest.
    public var events: AsyncStream<EntitlementEvent> {
        feed.subscribeToEvents()
    }

    /// Keeps this device current until the task is cancelled: syncs at once, when something was recorded here, when
    /// the remote signals, and now and then; notices what other processes wrote and when a period begins or ends.
    ///
    /// A sync that fails is told by ``EntitlementEvent/failed(_:)`` and tried again, at first after a second, then
    /// after twice as long each time up to the polling interval. Without a remote or an account it only watches.
    ///
    /// - Parameters:
    ///   - interval: how long to wait at most before looking again, more than zero.
    ///   - notice: how long before the end of a group ``EntitlementEvent/expiring(_:at:)`` is sent.
    public func run(
        pollingEvery interval: Duration = .seconds(60), noticeBeforeExpiry notice: Duration = .seconds(3 * 86_400)
    ) async {
        precondition(interval > .zero, "an interval is more than zero")
        await withTaskGroup(of: Void.self) { group in
            for stream in [remote?.signals(), local.signals()].compactMap({ $0 }) {
                group.addTask { for await _ in stream { self.wakeUp.signal() } }
            }
            await keepCurrent(interval: interval, notice: notice)
            group.cancelAll()
        }
    }

    private func keepCurrent(interval: Duration, notice: Duration) async {
        var failures = 0
        var announced: [GroupID: Timestamp] = [:]
        while !Task.isCancelled {
            var failure: EntitlementError?
            do {
                try await clock.load()
                try await followDevice()
            } catch { failure = error }
            let session = session
            if remote != nil, !session.account.isAnonymous {
                do { _ = try await sync(session, isDryRun: false) } catch { failure = error }
            }
            // Also without a connection time passes, and other processes write.
            do {
                announce(endsOf: try await tell(session).replay, within: notice, except: &announced)
            } catch {
                failure = failure ?? error
            }
            if Task.isCancelled { return }
            failures = failure == nil ? 0 : failures + 1
            if let failure { feed.tell(.failed(failure)) }
            await waitForNews(atMost: pause(interval: interval, failures: failures, notice: notice))
        }
    }

    /// Returns when something was signalled or `duration` is over.
    private func waitForNews(atMost duration: Duration) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.wakeUp.wait() }
            group.addTask {
                // Sleeping ends early only by cancellation, and then nothing is left to do.
                do { try await self.host.sleep(for: duration) } catch {}
            }
            await group.next()
            group.cancelAll()
        }
    }

    private func pause(interval: Duration, failures: Int, notice: Duration) -> Duration {
        let longest = failures > 0 ? min(interval, .seconds(1 << min(failures - 1, 16))) : interval
        guard let replay = session.ledgers.lastReplay else { return longest }
        let now = now
        let boundaries = [
            replay.nextBoundary(after: now),
            replay.nextBoundary(after: Timestamp(milliseconds: now.milliseconds + notice.milliseconds))
                .map { Timestamp(milliseconds: $0.milliseconds - notice.milliseconds) },
        ]
        // While a mark holds the clock it stands still, and it is longer until a boundary than it shows.
        let shown = clock.shown
        let waits = boundaries.compactMap { $0 }.map { Duration.milliseconds($0.milliseconds - shown.milliseconds) }
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
            feed.tell(.expiring(subscription.group, at: end))
        }
    }

    /// Tells everybody what changed since they were told last, by this store or by others.
    @discardableResult
    func tell(_ session: AccountSession) async throws(EntitlementError) -> LocalLedgers.State {
        await refreshClock()
        let turn = feed.takeTurn()
        let state = try await session.ledgers.current()
        feed.tell(state, try await snapshot(of: state, in: session), of: session.account, turn: turn)
        return state
    }

    /// Takes up what other processes know of the time, and keeps what this one knows.
    ///
    /// Who asks for access does not depend on it: where the local store fails, what is known already counts, and the
    /// failure is told, once until it has gone well again.
    func refreshClock() async {
        do throws(EntitlementError) {
            try await clock.load()
            try await clock.keep()
            clock.didRefresh()
        } catch {
            // A caller who was cancelled has stopped listening to the reasons.
            if !Task.isCancelled, clock.didFailToRefresh() { feed.tell(.failed(error)) }
        }
    }

    /// Tells of facts that this store has just written. They are written, whatever becomes of telling.
    func tell(of facts: [Fact], in session: AccountSession) async {
        if !facts.isEmpty { wakeUp.signal() }
        do {
            try await tell(session)
        } catch {
            // A caller who was cancelled has stopped listening to the reasons.
            if !Task.isCancelled { feed.tell(.failed(error)) }
        }
    }
}

extension Duration {
    /// Whole milliseconds; what is longer than 10,000 years is cut.
    fileprivate var milliseconds: Int64 {
        let seconds = min(components.seconds, 315_576_000_000)
        return seconds * 1_000 + components.attoseconds / 1_000_000_000_000_000
    }
}
