import Entitlements
package import SyncCore
package import SyncProtocol
import Synchronization

/// Delivers the events of a projection's outbox to endpoints, at least once, and in order for each account.
///
/// Only the server that projects delivers, and only while it does. After a take-over a receiver may get an event twice,
/// with the same id. The endpoints share nothing but the database, so none delays another one.
package final class WebhookSender: Sendable {
    /// The number of requests to all endpoints at a time, and to one endpoint.
    private static let (totalCount, endpointCount) = (64, 8)
    /// The polling interval.
    private static let pause = Duration.seconds(1)
    /// The time for which events are kept, in milliseconds.
    static let retention: Int64 = 30 * 86_400_000
    /// The number of failures, and the time without a delivery in milliseconds, after which one delivery shows that an
    /// endpoint works again, so that no event waits any longer.
    private static let (failureCount, outage) = (Int64(10), Int64(600_000))

    /// The figures about one endpoint, for metrics.
    package struct Progress: Hashable, Sendable {
        package var name: String
        /// The numbers of deliveries, failed attempts and new dead letters by this process.
        package var delivered = 0
        package var failed = 0
        package var died = 0
        /// The number of dead letters, and the time since the oldest event that is not delivered yet, in milliseconds;
        /// `nil` at a server that does not deliver.
        package var deadLetters: Int64?
        package var age: Int64?
    }

    let tables: WebhookTables
    let host: HostServices
    private let projector: Projector
    private let transport: @Sendable (WebhookEndpoint.Network) -> any HTTPTransport
    private let onError: @Sendable (BackendError) -> Void
    private let onNote: @Sendable (String) -> Void
    private let configured: Mutex<[WebhookEndpoint]?>
    private let reconfigured = SignalHub()
    private let progresses = Mutex<[String: Progress]>([:])

    /// A sender of the events that `projector` writes into `database`.
    ///
    /// - Parameters:
    ///   - endpoints: The endpoints; `nil` to keep what is known about earlier ones, and to deliver nothing.
    ///   - transport: The transport that connects to the addresses of a network only, and uses no proxy.
    ///   - onError: Receives errors of the database. The sender tries again.
    ///   - onNote: Receives messages for the operator.
    package init(
        _ projector: Projector, _ database: any ProjectionDatabase, endpoints: [WebhookEndpoint]?, host: HostServices,
        transport: @escaping @Sendable (WebhookEndpoint.Network) -> any HTTPTransport,
        onError: @escaping @Sendable (BackendError) -> Void, onNote: @escaping @Sendable (String) -> Void
    ) {
        (self.projector, tables) = (projector, WebhookTables(database: database))
        configured = Mutex(endpoints)
        (self.host, self.transport, self.onError, self.onNote) = (host, transport, onError, onNote)
    }

    /// The endpoints; `nil` if none are configured.
    var endpoints: [WebhookEndpoint]? { configured.withLock { $0 } }

    /// Replaces the endpoints.
    package func use(_ endpoints: [WebhookEndpoint]?) {
        configured.withLock { $0 = endpoints }
        reconfigured.signal()
    }

    /// The figures about all endpoints.
    package var progress: [Progress] {
        progresses.withLock { $0.values.sorted { $0.name < $1.name } }
    }

    /// Delivers until the task is cancelled.
    package func run() async {
        let signals = reconfigured.subscribe()
        repeat {
            let endpoints = endpoints
            progresses.withLock { all in
                all = all.filter { name, _ in endpoints?.contains { $0.name == name } == true }
                for endpoint in endpoints ?? [] {
                    all[endpoint.name] = all[endpoint.name] ?? Progress(name: endpoint.name)
                }
            }
            await withDiscardingTaskGroup { group in
                group.addTask { await self.keepHouse(endpoints) }
                let limit = max(1, min(Self.endpointCount, Self.totalCount / max(1, endpoints?.count ?? 1)))
                for endpoint in endpoints ?? [] { group.addTask { await self.deliver(to: endpoint, limit: limit) } }
                for await _ in signals where self.endpoints != endpoints { break }
                group.cancelAll()
            }
        } while !Task.isCancelled
    }

    // MARK: housekeeping

    /// Forgets endpoints that are no longer configured, deletes old events, and counts.
    private func keepHouse(_ endpoints: [WebhookEndpoint]?) async {
        var (known, pruned): (Int64?, Duration?) = (nil, nil)
        let elapsed = host.stopwatch()
        repeat {
            guard let epoch = projector.epoch else {
                update { (_, progress) in (progress.deadLetters, progress.age) = (nil, nil) }
                continue
            }
            do throws(BackendError) {
                if known != epoch, let endpoints {
                    for item in try await tables.forget(allBut: endpoints.map(\.name), epoch: epoch) {
                        onNote(
                            "the webhook \(item.name) is no longer configured: it is forgotten, with "
                                + "\(item.count) undelivered events and dead letters")
                    }
                }
                known = epoch
                if pruned.map({ elapsed() - $0 >= .seconds(3_600) }) ?? true {
                    var last: Int64? = 0
                    while let number = last {
                        last = try await tables.prune(
                            before: host.now() - Self.retention, after: number, limit: 1_000, epoch: epoch)
                    }
                    pruned = elapsed()
                }
                try await count()
            } catch {
                if !Task.isCancelled { onError(error) }
            }
        } while (try? await host.sleep(for: .seconds(5))) != nil
    }

    private func count() async throws(BackendError) {
        guard progresses.withLock({ !$0.isEmpty }) else { return }
        let reports = Dictionary(try await tables.reports().map { ($0.name, $0) }) { $1 }
        let now = host.now()
        update { (name, progress) in
            progress.deadLetters = reports[name]?.dead
            progress.age = reports[name].map { $0.oldest.map { max(0, now - $0) } ?? 0 }
        }
    }

    private func update(_ change: (String, inout Progress) -> Void) {
        progresses.withLock { all in
            for name in all.keys { if var progress = all[name] { change(name, &progress); all[name] = progress } }
        }
    }

    // MARK: delivering

    /// The deliveries of one endpoint that are under way.
    private final class Work: Sendable {
        struct Result: Sendable {
            var epoch: Int64
            var account: String
            /// `nil` if nothing was attempted.
            var lane: DeliveryLane?
        }

        let wake = SignalHub()
        private let results = Mutex<[Result]>([])

        func add(_ result: Result) {
            results.withLock { $0.append(result) }
            wake.signal()
        }

        /// The results so far, whose deliveries are under way until ``drop(_:)``.
        var finished: [Result] { results.withLock { $0 } }

        /// Drops the first results.
        func drop(_ count: Int) { results.withLock { $0.removeFirst(count) } }
    }

    private func deliver(to endpoint: WebhookEndpoint, limit: Int) async {
        let work = Work()
        let signals = work.wake.subscribe()
        await withDiscardingTaskGroup { group in
            group.addTask { for await _ in self.projector.appended.subscribe() { work.wake.signal() } }
            group.addTask { while (try? await self.host.sleep(for: Self.pause)) != nil { work.wake.signal() } }
            var running: Set<[UInt8]> = []
            var failures = 0
            for await _ in signals {
                let finished = work.finished
                do throws(BackendError) {
                    guard let epoch = projector.epoch else {
                        settle(finished, work, &running)
                        continue
                    }
                    let accounts = try await advance(endpoint, finished, limit, running, epoch)
                    settle(finished, work, &running)
                    for account in accounts where running.count < limit {
                        guard running.insert(Array(account.utf8)).inserted else { continue }
                        group.addTask {
                            work.add(await self.deliver(to: endpoint, account: account, epoch: epoch))
                        }
                    }
                    failures = 0
                } catch {
                    guard !Task.isCancelled else { break }
                    onError(error)
                    failures = min(failures + 1, 5)
                    guard (try? await host.sleep(for: Self.pause * (1 << failures))) != nil else { break }
                }
            }
            group.cancelAll()
        }
    }

    private func settle(_ finished: [Work.Result], _ work: Work, _ running: inout Set<[UInt8]>) {
        work.drop(finished.count)
        for result in finished { running.remove(Array(result.account.utf8)) }
    }

    /// Records results, takes new events from the outbox, and returns accounts with an event that is due.
    private func advance(
        _ endpoint: WebhookEndpoint, _ finished: [Work.Result], _ limit: Int, _ running: Set<[UInt8]>, _ epoch: Int64
    ) async throws(BackendError) -> [String] {
        let name = endpoint.name
        // Results of an earlier epoch belong to a server that may have delivered the same events.
        let outcomes = finished.compactMap { result in
            result.epoch == epoch ? result.lane.map { WebhookTables.Outcome(account: result.account, lane: $0) } : nil
        }
        var (known, due) = try await position(of: endpoint, limit + running.count, epoch)
        guard var position = known else { return [] }
        if !outcomes.isEmpty {
            let isDelivered = outcomes.contains { !$0.lane.delivered.isEmpty }
            let isRecovered =
                isDelivered && position.failures >= Self.failureCount
                && host.now() - position.lastDelivery >= Self.outage
            guard
                try await tables.record(
                    outcomes, of: name, at: host.now(), isRecovered: isRecovered, epoch: epoch)
            else { return [] }
            count(outcomes, name)
        }
        while position.taken < position.lastEvent, !Task.isCancelled {
            guard try await tables.take(position, for: endpoint, at: host.now(), epoch: epoch) else { return [] }
            (known, due) = try await self.position(of: endpoint, limit + running.count, epoch)
            guard let next = known, next.taken > position.taken else { break }
            position = next
            // What is due is delivered before more is taken.
            if due.count >= limit { break }
        }
        guard !outcomes.isEmpty else { return due }
        return try await self.position(of: endpoint, limit + running.count, epoch).due
    }

    /// The position of an endpoint, which is added if it is not known, and accounts with an event that is due.
    private func position(
        of endpoint: WebhookEndpoint, _ limit: Int, _ epoch: Int64
    ) async throws(BackendError) -> (position: WebhookTables.Position?, due: [String]) {
        let now = host.now()
        if let known = try await tables.position(of: endpoint.name, at: now, limit: limit) {
            return (known.position, known.due)
        }
        guard try await tables.add(endpoint.name, at: now, epoch: epoch) else { return (nil, []) }
        onNote("the webhook \(endpoint.name) is new: it receives the events from now on")
        let known = try await tables.position(of: endpoint.name, at: now, limit: limit)
        return (known?.position, known?.due ?? [])
    }

    private func count(_ outcomes: [WebhookTables.Outcome], _ name: String) {
        progresses.withLock { all in
            for outcome in outcomes {
                all[name]?.delivered += outcome.lane.delivered.count
                all[name]?.failed += outcome.lane.failureCount
                all[name]?.died += outcome.lane.dead.count
            }
        }
    }

    /// Delivers the next events of one account, until one fails.
    private func deliver(to endpoint: WebhookEndpoint, account: String, epoch: Int64) async -> Work.Result {
        var result = Work.Result(epoch: epoch, account: account)
        do throws(BackendError) {
            var (lane, events) = try await tables.lane(of: account, for: endpoint.name)
            var generator = host.generator
            while let next = lane.next(at: host.now()), projector.epoch == epoch {
                let attempt: DeliveryResult
                if let event = events[next.event] {
                    do throws(TransportError) { attempt = try await send(WebhookMessage(event), to: endpoint) } catch {
                        // A request that was cancelled is no attempt.
                        break
                    }
                } else {
                    attempt = .refused("the event was deleted")
                }
                lane.record(attempt, at: host.now(), jitter: Double.random(in: 0...1, using: &generator))
            }
            result.lane = lane
        } catch {
            if !Task.isCancelled { onError(error) }
        }
        return result
    }

    /// Attempts to deliver a message.
    ///
    /// - Throws: `TransportError` only if the task is cancelled.
    func send(_ message: WebhookMessage, to endpoint: WebhookEndpoint) async throws(TransportError) -> DeliveryResult {
        do throws(TransportError) {
            return DeliveryResult(
                try await transport(endpoint.network).send(
                    message.request(to: endpoint, at: host.now()), body: message.body,
                    timeout: DeliveryResult.timeout, maximumByteCount: DeliveryResult.maximumByteCount))
        } catch {
            guard error.kind != .cancelled else { throw error }
            return DeliveryResult(error)
        }
    }
}
