import SyncCore
import SyncCoreTesting
import SyncService
import SyncSimulation

/// A machine on which one process of the server runs at a time. Single-threaded.
final class ServerMachine: @unchecked Sendable {
    let index: Int
    let lane: Int
    unowned let world: ServiceWorld
    /// The error of its wall clock, in milliseconds.
    var clockOffset: Int64
    private(set) var process: ServerProcess?
    /// True once it runs with the later configuration.
    private(set) var isReconfigured = false
    private var launchCount = 0

    init(_ index: Int, lane: Int, clockOffset: Int64, world: ServiceWorld) {
        (self.index, self.lane, self.clockOffset, self.world) = (index, lane, clockOffset, world)
    }

    var isRunning: Bool { process?.isAlive == true }

    /// Starts a process unless one runs.
    func start() {
        guard !isRunning else { return }
        launchCount += 1
        let process = ServerProcess(on: self, launch: launchCount)
        self.process = process
        world.limits.didStartServer()
        world.recorder.record(lane, .started, launchCount, .started(process: launchCount))
        process.task = world.spawn { await process.live() }
    }

    /// Starts the process again with the later configuration.
    func reconfigure() {
        guard !isReconfigured else { return }
        isReconfigured = true
        kill(restartAfter: 1_000_000)
    }

    /// Kills the process, and starts another one after this many microseconds; `nil` for none.
    func kill(restartAfter pause: Int64?) {
        guard let process, process.isAlive else { return }
        process.end()
        world.recorder.record(lane, .crashed, launchCount, .crashed(process: launchCount))
        guard let pause else { return }
        world.reach(.killed)
        world.scheduler.at(world.scheduler.now + pause) { [self] in if !world.isNight, !world.isOver { start() } }
    }
}

extension ServerMachine {
    /// Stops the process as SIGTERM does: it accepts no more requests, answers those under way, ends its streams, and
    /// then ends. Another one starts after this many microseconds.
    func stop(restartAfter pause: Int64) async {
        guard let process, process.isAlive, !process.isStopping else { return }
        world.reach(.stopped)
        await process.drain()
        guard process.isAlive else { return }
        kill(restartAfter: pause)
    }
}

/// One process of the server, which runs the production service. Single-threaded.
///
/// A killed process is cut off: none of its operations on the store has an effect, and its responses are not sent. A
/// frozen one gets nothing from its store, its timers and its clients until it continues.
final class ServerProcess: @unchecked Sendable {
    let machine: ServerMachine
    private(set) var isAlive = true
    /// The service once it is open.
    private(set) var service: EntitlementService?
    /// The name of the process in the projection.
    let writer: ProjectionWriter
    fileprivate(set) var task: Task<Void, Never>?
    /// The number of operations until it is killed, and the pause before the next process, in microseconds.
    var pendingKill: (operations: Int, pause: Int64)?
    /// The number of writes after which it is frozen before the next one, and for how long, in microseconds.
    var pendingSuspension: (writes: Int, length: Int64)?
    /// The virtual time until which it is frozen, in microseconds.
    private(set) var frozenUntil: Int64 = 0
    /// The number of requests that are not answered yet.
    var requestCount = 0
    /// True while it answers its last requests.
    private(set) var isStopping = false
    /// True once the service and the projector have ended.
    private var hasEnded = false
    /// The projector whose lease is given up in the end.
    private var projector: Projector?
    private var bits: SeededGenerator
    private var pauses: SeededGenerator

    init(on machine: ServerMachine, launch: Int) {
        self.machine = machine
        writer = ProjectionWriter(lane: machine.lane, launch: launch)
        bits = machine.world.random.generator(for: 100 + machine.index, launch, .host)
        pauses = machine.world.random.generator(for: 100 + machine.index, launch, .disk)
    }

    var world: ServiceWorld { machine.world }

    var host: HostServices {
        HostServices(
            now: { self.world.scheduler.trueTime + self.machine.clockOffset }, timer: ServerTimer(process: self),
            randomBits: { self.bits.next() })
    }

    /// Opens the service, again after each error, and runs it to the end.
    fileprivate func live() async {
        defer { hasEnded = true }
        let store = world.wrapStore(ServerStore(process: self, base: world.store))
        let configuration = machine.isReconfigured ? world.laterConfiguration : world.configuration
        while isAlive, service == nil {
            do throws(BackendError) {
                let service = try await EntitlementService(
                    store, configuration: configuration,
                    passwords: SlowPasswords(process: self), host: host,
                    onError: { _ in })
                if isAlive { self.service = service }
            } catch {
                await world.pause(1_000_000)
                await thaw()
            }
        }
        guard isAlive, let service else { return }
        guard let projection = world.projection, let projector = makeProjector(store, configuration) else {
            return await service.run()
        }
        let link = ReceiverLink(process: self, receiver: projection.receiver)
        let sender = WebhookSender(
            projector, ProjectionConnection(process: self, projection: projection), endpoints: EventReceiver.endpoints,
            host: host, transport: { _ in link }, onError: { _ in }, onNote: { _ in })
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await service.run() }
            group.addTask { await projector.run() }
            if world.scenario.projection?.deliversEvents == true { group.addTask { await sender.run() } }
        }
        self.projector = projector
    }

    private func makeProjector(_ store: any KeyValueBackend, _ configuration: ServiceConfiguration) -> Projector? {
        guard let projection = world.projection, let catalog = configuration.catalog,
            world.scenario.projection?.idleServer != machine.index
        else { return nil }
        return Projector(
            store, into: ProjectionConnection(process: self, projection: projection), catalog: catalog,
            json: configuration.catalogJSON, host: host
        ) { [world, lane = machine.lane] error in
            guard [.damaged, .newerFormat, .notAStore, .invalidCursor].contains(error.kind) else { return }
            world.report(.projection, "a projector fails: \(error)", lane: lane)
        }
    }

    func end() {
        isAlive = false
        task?.cancel()
        // The service retains its host services, which retain this process.
        service = nil
    }

    /// Answers the requests under way, waits until the service has ended, and gives the projector's lease up. Reports
    /// requests that do not end.
    fileprivate func drain() async {
        isStopping = true
        task?.cancel()
        // The time while it is frozen does not count.
        for _ in 0..<120 where isAlive && (requestCount > 0 || !hasEnded) {
            await thaw()
            await world.pause(1_000_000)
        }
        if isAlive, requestCount > 0 {
            world.report(.service, "a server that stops leaves \(requestCount) requests unanswered", lane: machine.lane)
        }
        if isAlive { await projector?.release() }
        projector = nil
    }

    func freeze(microseconds: Int64) { frozenUntil = max(frozenUntil, world.scheduler.now + microseconds) }

    func continueAtOnce() { frozenUntil = 0 }

    /// Waits until the process is not frozen.
    func thaw() async {
        while isAlive, frozenUntil > world.scheduler.now {
            await world.pause(min(frozenUntil - world.scheduler.now, 1_000_000))
        }
    }

    /// Begins an operation on the store, and takes the time of its way there. A scheduled kill happens here, or after
    /// the operation.
    ///
    /// - Returns: `true` if the process is killed after the operation.
    func begin(_ operation: BackendError.Operation, _ key: EntryKey?) async throws(BackendError) -> Bool {
        await take()
        if operation == .write || operation == .delete, key?.text != ProjectionAudit.leaseKey { suspend() }
        await thaw()
        var isLast = false
        if isAlive, let kill = pendingKill {
            if kill.operations > 0 {
                pendingKill?.operations -= 1
            } else if bits.happens(perMille: 500) {
                isLast = true
            } else {
                machine.kill(restartAfter: kill.pause)
            }
        }
        try checkAlive(operation, key)
        return isLast
    }

    /// Freezes the process if a suspension is due before this write.
    private func suspend() {
        guard isAlive, let suspension = pendingSuspension else { return }
        pendingSuspension = suspension.writes > 0 ? (suspension.writes - 1, suspension.length) : nil
        guard suspension.writes == 0 else { return }
        world.reach(.suspended)
        freeze(microseconds: suspension.length)
    }

    /// Ends an operation, and takes the time of its answer.
    func finish(_ operation: BackendError.Operation, _ key: EntryKey?, isLast: Bool) async throws(BackendError) {
        if isLast, isAlive, let kill = pendingKill { machine.kill(restartAfter: kill.pause) }
        await take()
        await thaw()
        try checkAlive(operation, key)
    }

    private func take() async {
        guard isAlive, pauses.happens(perMille: world.isCalm ? 50 : 300) else { return }
        await world.pause(pauses.pick(100...(pauses.happens(perMille: 100) ? 200_000 : 4_000)))
    }

    private func checkAlive(_ operation: BackendError.Operation, _ key: EntryKey?) throws(BackendError) {
        guard isAlive else {
            throw BackendError(.cancelled, operation: operation, key: key, message: "simulated: the process has ended")
        }
    }
}

/// The store of the servers, as one process reaches it.
struct ServerStore: ForwardingBackend, SynchronousReading {
    let process: ServerProcess
    let base: any KeyValueBackend

    func forward<Outcome: Sendable>(
        _ operation: BackendError.Operation, _ key: EntryKey?,
        _ call: (any KeyValueBackend) async throws(BackendError) -> Answer<Outcome>
    ) async throws(BackendError) -> Answer<Outcome> {
        let isLast = try await process.begin(operation, key)
        let begun = process.world.scheduler.now
        let result: Result<Answer<Outcome>, BackendError>
        do throws(BackendError) {
            result = .success(
                try await process.world.storeFaults.perform(operation, key) { () async throws(BackendError) in
                    try await call(base)
                })
        } catch {
            result = .failure(error)
        }
        process.world.didCall(operation, key)
        if case .success(let answer) = result, case .written(let version)? = answer.outcome as? WriteOutcome {
            process.world.audit.didStore("\(version)", begun: begun)
        }
        try await process.finish(operation, key, isLast: isLast)
        return try result.get()
    }

    func changes(since cursor: ChangeCursor?, prefix: String, limit: Int) async throws(BackendError)
        -> Answer<ChangePage>
    {
        try await forward(.changes, nil) { (base) throws(BackendError) in
            try process.world.storeFaults.check(cursor)
            return try await base.changes(since: cursor, prefix: prefix, limit: limit)
        }
    }

    func readSynchronously(_ key: EntryKey, unless knownVersion: EntryVersion?) -> ReadOutcome? {
        guard process.isAlive else { return nil }
        return (base as? any SynchronousReading)?.readSynchronously(key, unless: knownVersion)
    }
}

/// The timer of a process. It does not stop while the process is frozen.
private struct ServerTimer: Clock {
    let process: ServerProcess

    private var timer: SimulationClock { SimulationClock(scheduler: process.world.scheduler) }
    var now: SimulationClock.Instant { timer.now }
    var minimumResolution: Duration { timer.minimumResolution }

    func sleep(until deadline: SimulationClock.Instant, tolerance: Duration?) async throws {
        try await timer.sleep(until: deadline, tolerance: tolerance)
        await process.thaw()
        guard process.isAlive, !Task.isCancelled else { throw CancellationError() }
    }
}

/// A replacement for the hashing of passwords that protects nothing, but takes time.
private struct SlowPasswords: PasswordHasher {
    let process: ServerProcess

    func hash(_ password: [UInt8], peer: String) async throws(CryptographyError) -> String {
        await process.world.pause(150_000)
        await process.thaw()
        return Hexadecimal.text(password)
    }

    func verify(_ password: [UInt8], _ hash: String, peer: String) async throws(CryptographyError) -> Bool {
        try await self.hash(password, peer: peer) == hash
    }
}
