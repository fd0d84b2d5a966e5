import Crypto
import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import SyncProtocol
import SyncService
import SyncSimulation

/// Everything in a run. Single-threaded.
final class ServiceWorld: @unchecked Sendable {
    let scenario: ServiceScenario
    let scheduler: Scheduler
    let recorder: Recorder
    let random: RandomSource
    let store: any KeyValueBackend
    let cluster: SimulatedCluster?
    let configuration: ServiceConfiguration
    /// The configuration of servers that were started with ``ServiceAction/reconfigure(server:)``.
    let laterConfiguration: ServiceConfiguration
    let desk = StoreDesk()
    private(set) var machines: [ServerMachine] = []
    private(set) var devices: [ClientDevice] = []
    private(set) lazy var audit = ServiceAudit(world: self)
    private(set) lazy var storeFaults = StoreFaults(world: self)
    /// The projection; `nil` if the scenario has none.
    private(set) lazy var projection = scenario.projection.map { _ in SimulatedProjection(world: self) }
    private(set) lazy var paidTime = PaidTimeAudit(world: self)
    private(set) lazy var limits = LimitAudit(world: self)
    private(set) lazy var content = ContentAudit(world: self)
    private(set) lazy var tokens = TokenAudit(world: self)
    /// The way of the store's notifications.
    private(set) lazy var storeLink = ClientLink(lane: storeLane, world: self)
    /// The knowledge of the owner of each name.
    var notebooks: [String: Notebook] = [:]
    private(set) var watchers: [StreamWatcher] = []
    let subject: SimulatedService.Subject
    /// The number of operations after which the next act of support is interrupted; `nil` for none.
    var pendingInterruption: Int?
    private var clientBits: SeededGenerator
    private(set) var violations: [ServiceViolation] = []
    private(set) var marks: [ServiceMark: Int] = [:]
    private var messageCount = 0
    /// The number of messages and actions under way, without those that last until the end.
    var workCount = 0
    /// The number of event streams under way.
    var streamCount = 0
    /// True once faults are over.
    var isCalm = false
    /// True while the servers are stopped.
    var isNight = false
    var isOver = false

    static let operatorToken = "operator-of-the-simulation"
    /// The root key of grants, and their lifetime in days.
    let grantRoot: Curve25519.Signing.PrivateKey
    static let grantDays = 7
    static let address = "https://sync.example.com"

    init(_ scenario: ServiceScenario, subject: SimulatedService.Subject, isRecording: Bool) {
        (self.scenario, self.subject) = (scenario, subject)
        scheduler = Scheduler(seed: scenario.seed)
        recorder = Recorder(scheduler: scheduler, isRecording: isRecording)
        random = RandomSource(seed: scenario.seed)
        clientBits = random.generator(for: 300, 0, .host)
        let bits = SharedBits(random.generator(for: 200, 0, .remote))
        let scheduler = scheduler
        let host = HostServices(
            now: { scheduler.trueTime }, timer: SimulationClock(scheduler: scheduler), randomBits: { bits.next() })
        let memory = MemoryBackend(host: host)
        cluster = scenario.cluster.map { setup in
            SimulatedCluster(
                setup, primary: memory, host: host, scheduler: scheduler, random: RandomSource(seed: scenario.seed))
        }
        store = cluster ?? memory
        do {
            grantRoot = try Curve25519.Signing.PrivateKey(rawRepresentation: [UInt8](repeating: 7, count: 32))
        } catch {
            preconditionFailure("the root key of the simulation is not valid: \(error)")
        }
        configuration = Self.configuration(of: scenario, StoreVerifier(), grantRoot)
        var later = configuration
        if let change = scenario.later {
            later.policy = change.isVerified ? .verified : .trusted
            later.catalog = StoreDesk.catalog(extraMonths: change.extraMonths)
            later.catalogJSON = StoreDesk.catalogJSON(extraMonths: change.extraMonths)
        }
        laterConfiguration = later
        let count = scenario.devices.count
        for (index, offset) in scenario.servers.enumerated() {
            machines.append(ServerMachine(index, lane: count + index, clockOffset: offset, world: self))
        }
        cluster?.reach = { [unowned self] mark in
            if mark == .formerPrimaryRefused { audit.didDisturbStore() }
            if let mark = ServiceMark(rawValue: mark.rawValue) { reach(mark) }
        }
        cluster?.didMove = { [unowned self] words in
            audit.didDisturbStore()
            // The rows are in a database of the same cluster.
            projection?.begin(perMille: 600, microseconds: 3_000_000)
            recorder.record(storeLane, .store, 0, .storeChanged(words))
        }
        for (index, name) in scenario.devices.enumerated() {
            notebooks[name] = Notebook()
            devices.append(ClientDevice(index, name: name, world: self))
        }
    }

    var storeLane: Int { scenario.devices.count + scenario.servers.count }

    var trace: Trace {
        var lanes = scenario.devices.enumerated().map { Trace.Lane(.replica, name: "\($1) \($0 + 1)") }
        lanes += machines.map { Trace.Lane(.remote, name: "server \($0.index + 1)") }
        return Trace(lanes: lanes + [Trace.Lane(.remote, name: "store")], events: recorder.events)
    }

    private static func configuration(
        of scenario: ServiceScenario, _ verifier: StoreVerifier, _ root: Curve25519.Signing.PrivateKey
    ) -> ServiceConfiguration {
        var configuration = ServiceConfiguration(name: address, catalog: StoreDesk.catalog)
        configuration.catalogJSON = StoreDesk.catalogJSON(extraMonths: 0)
        configuration.operatorToken = operatorToken
        configuration.ownership =
            ServiceConfiguration.Ownership(rawValue: scenario.ownership.rawValue) ?? .keepWithFirst
        configuration.policy = scenario.isVerified ? .verified : .trusted
        configuration.evidence.appStore = verifier
        configuration.grants = GrantConfiguration(root: SigningKey(id: "root", key: root), days: grantDays)
        if let limits = scenario.limits {
            configuration.callerLimits.accountWrites = Rate(
                perSecond: limits.writesPerSecond, burst: limits.writeBurst)
            configuration.callerLimits.accountKeys = limits.keys
        }
        return configuration
    }

    /// The host services of a client.
    var clientHost: HostServices {
        HostServices(
            now: { self.scheduler.trueTime }, timer: SimulationClock(scheduler: scheduler),
            randomBits: { self.clientBits.next() })
    }

    func wrapStore(_ store: ServerStore) -> any KeyValueBackend { subject.wrapStore(store) }

    func changeResponse(_ delivery: Delivery, _ response: ServiceResponse) -> ServiceResponse {
        subject.changeResponse(delivery.path, response)
    }

    /// Runs `body` as a task whose long work stays on the executor of the run.
    @discardableResult
    func spawn(_ body: @escaping @Sendable () async -> Void) -> Task<Void, Never> {
        let executor = scheduler.executor
        return scheduler.spawn { await LongWork.$executor.withValue(executor) { await body() } }
    }

    /// Waits for this many microseconds, also in a cancelled task.
    func pause(_ microseconds: Int64) async {
        let reply = Reply<Bool>()
        scheduler.at(scheduler.now + microseconds) { reply.resolve(true) }
        _ = await reply.wait()
    }

    func takeMessage() -> Int {
        messageCount += 1
        return messageCount
    }

    func reach(_ mark: ServiceMark) { marks[mark, default: 0] += 1 }

    func report(_ oracle: ServiceViolation.Oracle, _ message: String, lane: Int? = nil) {
        guard violations.count < 20 else { return }
        let violation = ServiceViolation(
            oracle: oracle, message: message, at: scheduler.now / 1_000, lane: lane ?? storeLane)
        violations.append(violation)
        recorder.record(violation.lane, .violated, 0, .violated(oracle: oracle.rawValue, message))
    }
}

/// A generator that several closures share. Single-threaded.
final class SharedBits: @unchecked Sendable {
    private var generator: SeededGenerator

    init(_ generator: SeededGenerator) { self.generator = generator }

    func next() -> UInt64 { generator.next() }
}

// MARK: the course of a run

extension ServiceWorld {
    /// A pause between two steps, in milliseconds, in which the servers are stopped.
    private static let nightLength: Int64 = 600_000

    func live() async {
        for machine in machines { machine.start() }
        for (index, step) in scenario.steps.enumerated() {
            await sleepThroughNight(until: step.at)
            await pause(max(0, step.at * 1_000 - scheduler.now))
            begin(index, step.action)
        }
        await quiesce(atMost: 120)
        await finish()
    }

    /// Stops the servers while nothing happens for long.
    private func sleepThroughNight(until time: Int64) async {
        guard time - scheduler.now / 1_000 > Self.nightLength else { return }
        await quiesce(atMost: 240)
        await compareProjection()
        isNight = true
        for machine in machines { machine.kill(restartAfter: nil) }
        reach(.nightPassed)
        await pause(max(0, (time - 5_000) * 1_000 - scheduler.now))
        isNight = false
        for machine in machines { machine.start() }
    }

    /// Waits until all actions are over, for at most this many seconds.
    func quiesce(atMost seconds: Int) async {
        for _ in 0..<seconds where workCount > 0 { await pause(1_000_000) }
    }

    private func begin(_ index: Int, _ action: ServiceAction) {
        let lane = action.devices.first ?? action.server.map { machines[$0].lane } ?? storeLane
        recorder.record(lane, .begun, index, .begun(step: index, "\(action)"))
        if case .watch(let device) = action { return watch(devices[device]) }
        workCount += 1
        spawn { [self] in
            defer { workCount -= 1 }
            let outcome = await perform(action)
            let isFailure = outcome.hasPrefix(ClientDevice.failurePrefix)
            recorder.record(lane, .ended, index, .ended(step: index, outcome, isFailure: isFailure))
        }
    }

    private func perform(_ action: ServiceAction) async -> String {
        switch action {
        case .signUp(let device): await devices[device].signUp()
        case .logIn(let device): await devices[device].logIn()
        case .guess(let device): await devices[device].guess()
        case .refreshTwice(let device): await devices[device].refreshTwice()
        case .logOut(let device, let everywhere): await devices[device].logOut(everywhere: everywhere)
        case .changePassword(let device): await devices[device].changePassword()
        case .renewCodes(let device): await devices[device].renewCodes()
        case .recover(let device): await devices[device].recover()
        case .approve(let device, let approver): await devices[device].logIn(approvedBy: devices[approver])
        case .erase(let device): await devices[device].erase()
        case .write(let device, let key): await devices[device].write(key)
        case .read(let device, let key): await devices[device].read(key)
        case .replace(let device, let key): await devices[device].replace(key)
        case .delete(let device, let key): await devices[device].delete(key)
        case .tryOldCredentials(let device): await devices[device].tryOldCredentials()
        case .sync(let device): await devices[device].sync()
        case .buy(let device, let sale): await devices[device].buy(sale)
        case .present(let device, let sale, let isRestore): await devices[device].present(sale, isRestore: isRestore)
        case .notify(let sale): await notify(sale)
        case .refund(let sale): await refund(sale)
        case .support(let device, let sale, let isTransfer):
            await act(for: devices[device].name, sale, isTransfer: isTransfer)
        case .grant(let device): await devices[device].askForGrant()
        case .report(let device, let sale): await devices[device].report(sale)
        case .nameOwner(let device, let sale): await devices[device].nameOwner(of: sale)
        case .reverseRefund(let sale): await reverseRefund(sale)
        case .forge(let device, let sale): await devices[device].forge(sale)
        case .use(let device, let spend): await devices[device].use(spend)
        case .openContent(let device): await devices[device].openContent()
        case .flood(let device, let count): await devices[device].flood(count: count)
        case .guessOften(let device, let count, let isParallel):
            await devices[device].guessOften(count: count, isParallel: isParallel)
        case .presentFormer(let device, let sale, let isRestore):
            await devices[device].presentFormer(sale, isRestore: isRestore)
        case .catchUp: await catchUp()
        default: await disturb(action)
        }
    }

    private func disturb(_ action: ServiceAction) async -> String {
        switch action {
        case .kill(let server, let count, let pause):
            machines[server].process?.pendingKill = (count, pause * 1_000)
        case .freeze(let server, let milliseconds):
            reach(.frozen)
            machines[server].process?.freeze(microseconds: milliseconds * 1_000)
        case .suspend(let server, let count, let milliseconds):
            machines[server].process?.pendingSuspension = (count, milliseconds * 1_000)
        case .moveClock(let server, let milliseconds):
            if milliseconds < 0 { reach(.clockSetBack) }
            let machine = machines[server]
            machine.clockOffset = min(100_000, machine.clockOffset + milliseconds)
            recorder.record(machine.lane, .clock, 0, .clockMoved(by: milliseconds))
        case .reconfigure(let server):
            reach(.reconfigured)
            machines[server].reconfigure()
        case .rotateKeys(let removesFormer): await rotateKeys(removesFormer: removesFormer)
        case .failOver(let count, let promotion):
            cluster?.failOver(afterWrites: count, promotion: promotion * 1_000)
        case .switchOver(let promotion): cluster?.switchOver(promotion: promotion * 1_000)
        case .stop(let server, let pause): await machines[server].stop(restartAfter: pause * 1_000)
        case .failStore(let perMille, let milliseconds):
            storeFaults.begin(perMille: perMille, microseconds: milliseconds * 1_000)
        case .expireCursors: try? await storeFaults.expireCursors()
        case .interruptSupport(let count): pendingInterruption = count
        default: return await disturbProjection(action)
        }
        return "done"
    }

    private func rotateKeys(removesFormer: Bool) async {
        let begun = scheduler.now
        let rotation = tokens.didBeginRotation(removesFormer: removesFormer)
        do throws(BackendError) {
            _ = try await ServerKeys(of: store, host: clientHost).rotate(removesFormer: removesFormer)
            reach(.keysRotated)
            tokens.didRotate(rotation)
            if removesFormer { audit.didRemoveKeys(signedBefore: begun) }
        } catch {
            recorder.record(storeLane, .other, 0, .note("the rotation failed: \(error)"))
        }
    }

    private func watch(_ device: ClientDevice) {
        let watcher = StreamWatcher(device)
        watchers.append(watcher)
        streamCount += 1
        spawn { [self] in
            await watcher.run()
            streamCount -= 1
        }
    }
}

/// The knowledge of the owner of an account. The same person uses all devices of the name.
struct Notebook {
    /// The present password, as far as the owner knows.
    var password: String?
    /// Further passwords of requests without an answer, the newest one last.
    var candidates: [String] = []
    /// All passwords so far, the oldest one first.
    var former: [String] = []
    /// Unused recovery codes.
    var codes: [String] = []
    /// Used or void recovery codes.
    var formerCodes: [String] = []
    /// All access tokens and refresh tokens so far, the oldest one first.
    var tokens: [String] = []
    var refreshTokens: [String] = []
}
