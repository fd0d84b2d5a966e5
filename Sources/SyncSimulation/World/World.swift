import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting

/// The complete state of a run. Single-threaded.
final class World: @unchecked Sendable {
    let scenario: Scenario
    let subject: Subject
    let scheduler: Scheduler
    let recorder: Recorder
    let random: RandomSource
    private(set) var devices: [SimulatedDevice] = []
    let remote: SimulatedRemote
    /// The cluster that keeps the remote's data; `nil` for a single store.
    private(set) var cluster: SimulatedCluster?
    private(set) lazy var auditor = Auditor(world: self)
    var marks = Marks()
    /// The current fault rates; zero after healing.
    var rates: FaultRates
    /// The number of requests and answers in transit.
    var messagesUnderWay = 0
    /// True once all checks are done.
    var isOver = false
    private(set) var violations: [Violation] = []
    /// The number of messages so far, which is the id of the last one.
    var messageCount = 0
    private var launchCount = 0
    /// The entries that malicious writes replaced.
    var originals: [EntryKey: [UInt8]] = [:]
    /// The times of those writes.
    var tamperTimes: [EntryKey: Int64] = [:]
    /// The number of jobs that escaped the run.
    private(set) var escapeCount = 0

    /// The start of every run, in milliseconds since 1970 UTC.
    static let epoch = Scheduler.epoch
    static let day: Int64 = 86_400_000
    static let hour: Int64 = 3_600_000
    /// An upper bound of the time from a read to a write based on it, and of the transit of a message.
    static let longestExchange = hour

    init(_ scenario: Scenario, subject: Subject, isRecording: Bool) {
        self.scenario = scenario
        self.subject = subject
        rates = scenario.faults
        let scheduler = Scheduler(seed: scenario.seed)
        self.scheduler = scheduler
        recorder = Recorder(scheduler: scheduler, isRecording: isRecording)
        random = RandomSource(seed: scenario.seed)
        let host = Self.host(-1, scheduler, random)
        let store = subject.makeRemote(host)
        var contents = StoreContents(
            scenario.remote.comparesAndSwaps ? store : UnconditionalBackend(store), memory: store,
            executor: scheduler.executor)
        if let setup = scenario.remote.cluster, scenario.remote.comparesAndSwaps, let store = store as? MemoryBackend {
            let cluster = SimulatedCluster(setup, primary: store, host: host, scheduler: scheduler, random: random)
            contents = StoreContents(cluster, executor: scheduler.executor)
            self.cluster = cluster
        }
        remote = SimulatedRemote(
            contents: contents, lane: 2 * scenario.devices.count, tellsTime: scenario.remote.tellsTime,
            scheduler: scheduler)
        if let policy = scenario.remote.policy, scenario.remote.comparesAndSwaps {
            remote.server = SimulatedServer(policy.trustPolicy, catalog: subject.catalogs[0], world: self)
        }
        for setup in scenario.devices { _ = addDevice(setup) }
        remote.contents.didChange = { [unowned self] in self.remoteDidChange($0) }
        remote.contents.didEscape = { [unowned self] in self.didEscape() }
        if let cluster { observe(cluster) }
    }

    private func observe(_ cluster: SimulatedCluster) {
        cluster.reach = { [unowned self] in self.marks.reach($0) }
        cluster.didMove = { [unowned self] words in
            self.recorder.record(self.remote.lane, .store, words.utf8.count, .storeChanged(words))
        }
        remote.contents.witness = StoreWitness { [unowned self] oracle, message in
            self.report(oracle, message, lane: self.remote.lane)
        }
    }

    /// The host services of a store that belongs to no process.
    private static func host(_ place: Int, _ scheduler: Scheduler, _ random: RandomSource) -> HostServices {
        let bits = Bits(random.generator(for: place, 0, .remote))
        return HostServices(
            now: { scheduler.trueTime }, timer: SimulationClock(scheduler: scheduler), randomBits: { bits.next() })
    }

    /// The true time, in milliseconds since 1970 UTC.
    var trueTime: Int64 { scheduler.trueTime }

    func didEscape() { escapeCount += 1 }

    func report(_ oracle: Violation.Oracle, _ message: String, lane: Int) {
        // Only the first violations are of interest: a run that went wrong keeps going wrong.
        guard violations.count < 20,
            !violations.contains(where: { $0.oracle == oracle && $0.lane == lane && $0.message == message })
        else { return }
        violations.append(Violation(oracle, message, at: recorder.now, lane: lane))
        recorder.record(lane, .violated, 0, .violated(oracle: oracle.rawValue, message))
    }

    /// Adds a device.
    func addDevice(_ setup: DeviceSetup) -> SimulatedDevice {
        let index = devices.count
        let contents = StoreContents(
            MemoryBackend(host: Self.host(index, scheduler, random)), executor: scheduler.executor)
        contents.didChange = { [unowned self] in self.auditor.didChange($0, on: index) }
        contents.didEscape = { [unowned self] in self.didEscape() }
        // The remote's lane is between those of the scenario's devices and of those added later.
        let lane = index < scenario.devices.count ? 2 * index : 2 * index + 1
        let device = SimulatedDevice(index, lane: lane, setup: setup, contents: contents, world: self)
        devices.append(device)
        return device
    }

    /// Breaks reference cycles.
    func takeDown() {
        for device in devices { device.processes = [] }
    }

    /// Mixes the final contents of all stores into the trace's hash.
    func mixContents() {
        for contents in devices.map(\.contents) + [remote.contents] {
            for key in contents.keys {
                recorder.mix(Array(key.text.utf8))
                recorder.mix(contents.values[key] ?? [])
            }
        }
        recorder.mix(UInt64(scheduler.executor.jobCount))
    }

    /// The trace of the run.
    var trace: Trace {
        func lanes(_ devices: ArraySlice<SimulatedDevice>, _ name: String) -> [Trace.Lane] {
            devices.flatMap { device in
                let number = device.index + 1
                return [
                    Trace.Lane(.replica, name: "\(name) \(number)"), Trace.Lane(.localStore, name: "store \(number)"),
                ]
            }
        }
        let count = scenario.devices.count
        let remote = [Trace.Lane(.remote, name: "remote")]
        let all = lanes(devices.prefix(count), "device") + remote + lanes(devices.dropFirst(count), "new device")
        return Trace(lanes: all, events: recorder.events)
    }

    private func remoteDidChange(_ change: StoreContents.Change) {
        auditor.didChange(change, on: nil)
        if let server = remote.server, let place = auditor.erasedPlace(of: change) {
            scheduler.spawn { [self] in
                do throws(BackendError) { try await server.didErase(place) } catch {
                    report(.execution, "deleting a server ledger failed: \(error)", lane: remote.lane)
                }
            }
        }
        for process in devices.flatMap(\.running) where process.isSubscribed {
            scheduler.at(scheduler.now + 1_000 + Int64(process.device.index)) { process.signal() }
        }
    }

    /// Starts a process and opens its stores, unless it is running. Waits for a process that is still opening its
    /// stores.
    func start(_ index: Int, on device: SimulatedDevice) async -> SimulatedProcess? {
        guard !device.isLost else { return nil }
        if let process = device.processes[index], process.isAlive {
            return await process.openedStore() == nil ? nil : process
        }
        launchCount += 1
        let process = SimulatedProcess(on: device, index: index, launch: launchCount, world: self)
        device.processes[index] = process
        recorder.record(device.lane, .started, index, .started(process: index))
        auditor.didStart(process)
        let setup = device.setup
        do throws(EntitlementError) {
            var account: Account?
            if let name = setup.account { account = try Account(name) }
            let link = SimulatedLink(process: process)
            let store = try await EntitlementStore(
                catalog: subject.catalog(of: setup, in: scenario), local: SimulatedDisk(process: process), remote: link,
                server: link, account: account,
                clock: scenario.remote.tellsTime ? .trusted : .host, host: process.host)
            guard process.isAlive else { return nil }
            process.didOpen(store)
            // The final checks count sync rounds, so a polling device must not add one.
            if let hours = setup.pollingHours, index == 0, !auditor.isHealed {
                process.tasks.append(
                    scheduler.spawn {
                        await store.run(pollingEvery: .seconds(3_600 * hours)) { process.didRound($0) }
                    })
            }
            return process
        } catch {
            auditor.didFail(error, to: "start", in: process)
            process.end()
            return nil
        }
    }
}

/// A shared generator of random bits for host services. Single-threaded.
final class Bits: @unchecked Sendable {
    private var generator: SeededGenerator
    init(_ generator: SeededGenerator) { self.generator = generator }
    func next() -> UInt64 { generator.next() }
}
