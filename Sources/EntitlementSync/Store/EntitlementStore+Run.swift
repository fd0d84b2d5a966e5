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
        snapshotFeed.subscribe(startingWith: try await snapshot(), keeping: 1)
    }

    /// What happens from now on. A reader that falls behind by more than 1,000 events misses the oldest.
    public var events: AsyncStream<EntitlementEvent> {
        eventFeed.subscribe(keeping: 1_000)
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
            do {
                if remote != nil, !account.isAnonymous { try await sync() }
                let state = try await ledgers.current()
                await publish(try await snapshot(of: state))
                announce(endsOf: state.replay, within: notice, except: &announced)
                failures = 0
            } catch {
                failures += 1
                eventFeed.send(.failed(error))
            }
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
        if failures > 0 { return min(interval, .seconds(1 << min(failures - 1, 16))) }
        guard let replay = ledgers.lastReplay else { return interval }
        let now = now
        let boundaries = [
            replay.nextBoundary(after: now),
            replay.nextBoundary(after: Timestamp(milliseconds: now.milliseconds + notice.milliseconds))
                .map { Timestamp(milliseconds: $0.milliseconds - notice.milliseconds) },
        ]
        let waits = boundaries.compactMap { $0 }.map { Duration.milliseconds($0.milliseconds - now.milliseconds) }
        return ([interval] + waits.filter { $0 > .zero }).min() ?? interval
    }

    private func announce(endsOf replay: Replay, within notice: Duration, except announced: inout [GroupID: Timestamp])
    {
        let now = now
        for subscription in replay.snapshot(at: now).subscriptions where subscription.isActive {
            guard let end = subscription.expires, announced[subscription.group] != end,
                end.milliseconds - now.milliseconds <= notice.milliseconds
            else { continue }
            announced[subscription.group] = end
            eventFeed.send(.expiring(subscription.group, at: end))
        }
    }

    /// Tells everybody what changed since `before`, by this store's `facts` and by what others wrote meanwhile.
    func publish(changesSince before: LocalLedgers.State, facts: [Fact]) async throws(EntitlementError) {
        let after = try await ledgers.current()
        guard after.account.version != before.account.version || after.device.version != before.device.version else {
            return
        }
        if !facts.isEmpty { wakeUp.signal() }
        let mine = Set(facts)
        let known = Set(before.facts.purchases.map(\.transaction))
        let arrived = after.facts.purchases.filter { !known.contains($0.transaction) && !mine.contains(.purchase($0)) }
        if !arrived.isEmpty { eventFeed.send(.restored(arrived.map(\.transaction))) }
        let revoked = after.facts.revocations.keys.filter { before.facts.revocations[$0] == nil }
        if !revoked.isEmpty { eventFeed.send(.revoked(revoked.sorted())) }
        await publish(try await snapshot(of: after), previous: try await snapshot(of: before))
    }

    private func publish(_ snapshot: Snapshot, previous: Snapshot? = nil) async {
        let last = lastPublished.withLock { last in
            defer { last = snapshot }
            return last
        }
        if let last = last ?? previous {
            let changes = AccessChange.between(last, snapshot)
            if !changes.isEmpty { eventFeed.send(.accessChanged(changes)) }
            guard !last.holdsSame(as: snapshot) else { return }
        }
        snapshotFeed.send(snapshot)
    }
}

extension Snapshot {
    /// Whether both say the same but for the instant they are of.
    fileprivate func holdsSame(as other: Snapshot) -> Bool {
        var copy = self
        copy.at = other.at
        return copy == other
    }
}

extension Duration {
    /// Whole milliseconds; what is longer than 10,000 years is cut.
    fileprivate var milliseconds: Int64 {
        let seconds = min(components.seconds, 315_576_000_000)
        return seconds * 1_000 + components.attoseconds / 1_000_000_000_000_000
    }
}
