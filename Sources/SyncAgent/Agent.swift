package import EntitlementSync
package import Entitlements
package import Logging
package import SyncCore
import Synchronization

/// Keeps the local store of a device in step with its remotes, and turns changes into events.
package final class Agent: Sendable {
    /// The time and result of the last attempts to sync.
    package struct Progress: Sendable {
        /// The time of the last success.
        package var lastSync: Timestamp?
        /// The failure of the last round, and its time.
        package var failure: (error: EntitlementError, at: Timestamp)?
    }

    /// The store of the first remote, which local programs use.
    package let store: EntitlementStore
    package let events: EventFeed
    /// The program that gets the events, if there is one.
    package let program: EventProgram?
    /// The stores of further remotes. All stores share one local backend.
    private let others: [EntitlementStore]
    private let interval: Duration
    private let notice: Duration
    private let host: HostServices
    private let logger: Logger
    private let state = Mutex(Progress())
    private let onProgress: @Sendable (Progress) -> Void
    /// Yields when the state may have changed. One task reads it, so that states are observed in their order.
    private let changes: AsyncStream<Void>
    private let change: AsyncStream<Void>.Continuation

    /// - Parameters:
    ///   - stores: A store for each remote, over the same local backend; one or more.
    ///   - interval: The longest time between two syncs.
    ///   - notice: The time before the end of a subscription at which the state is examined.
    ///   - onProgress: Called after each round of the first store.
    package init(
        _ stores: [EntitlementStore], events: EventFeed, program: EventProgram?, pollingEvery interval: Duration,
        noticeBeforeExpiry notice: Duration, host: HostServices, logger: Logger,
        onProgress: @escaping @Sendable (Progress) -> Void
    ) {
        precondition(!stores.isEmpty, "an agent needs a store")
        (store, others) = (stores[0], Array(stores.dropFirst()))
        (self.events, self.program, self.interval, self.notice) = (events, program, interval, notice)
        (self.host, self.logger, self.onProgress) = (host, logger, onProgress)
        (changes, change) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    package var progress: Progress { state.withLock { $0 } }

    /// Works until the task is cancelled.
    package func run(wakingOn wakes: WakeSignals) async {
        await withTaskGroup(of: Void.self) { group in
            for other in others {
                group.addTask { [interval, notice] in
                    await other.run(
                        pollingEvery: interval, noticeBeforeExpiry: notice, wakingOn: wakes.subscribe()
                    ) {
                        await self.log($0, of: other)
                    }
                }
            }
            group.addTask { [interval, notice, store] in
                await store.run(
                    pollingEvery: interval, noticeBeforeExpiry: notice, wakingOn: wakes.subscribe()
                ) { await self.didRound($0) }
            }
            group.addTask { await self.observeChanges() }
            if let signals = store.localSignals() {
                // A sync may wait for its remote for a long time. Changes of the store are reported meanwhile.
                group.addTask { for await _ in signals { self.change.yield() } }
            }
            group.addTask { await self.sendSignsOfLife() }
            if let program { group.addTask { [events] in await program.run(events) } }
            await group.waitForAll()
        }
    }

    private func didRound(_ round: RunRound) async {
        let now = store.clockStatus.now
        let progress = state.withLock { progress in
            if round.hasSynced, round.failure == nil { progress.lastSync = now }
            if let failure = round.failure {
                progress.failure = (failure, now)
            } else if !round.isFailing {
                progress.failure = nil
            }
            return progress
        }
        await log(round, of: store)
        // An event would keep the name of an erased account on this device.
        if round.failure?.kind != .accountErased, round.failure != nil || !round.isFailing {
            await events.add(round.failure, at: now, account: store.account)
        }
        change.yield()
        onProgress(progress)
    }

    private func observeChanges() async {
        for await _ in changes {
            do throws(EntitlementError) { await events.observe(try await store.currentState()) } catch {
                if !Task.isCancelled { logger.error("the local store cannot be read: \(error)") }
            }
        }
    }

    private func log(_ round: RunRound, of store: EntitlementStore) async {
        guard let failure = round.failure else { return }
        logger.warning("\(store.account): \(failure)")
    }

    /// Wakes the readers of events, so that connections whose reader has gone are noticed.
    private func sendSignsOfLife() async {
        while true {
            do { try await host.sleep(for: .seconds(15)) } catch { return }
            events.tick()
        }
    }
}
