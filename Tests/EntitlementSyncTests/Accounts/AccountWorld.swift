import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import Synchronization
import TestSupport
import Testing

/// Devices that crash, an unreliable remote, accounts that are created and erased, and a model of the owner of each
/// fact. The model knows only the results of the calls.
final class AccountWorld {
    /// Chooses the faults of a device's backend calls.
    final class Faults: Sendable {
        private struct State {
            var generator: SeededGenerator
            var callsUntilCrash: Int?
            var crashCompletesCall = false
            var isRemoteUnreliable = false
        }
        private let state: Mutex<State>

        init(seed: UInt64) { state = Mutex(State(generator: SeededGenerator(seed: seed))) }

        /// Schedules a crash of the device after `calls` more calls. The call at which it crashes takes effect only if
        /// `isDone` is true.
        func scheduleCrash(after calls: Int, isDone: Bool) {
            state.withLock { ($0.callsUntilCrash, $0.crashCompletesCall) = (calls, isDone) }
        }
        func makeRemoteUnreliable() { state.withLock { $0.isRemoteUnreliable = true } }
        func clear() { state.withLock { ($0.callsUntilCrash, $0.isRemoteUnreliable) = (nil, false) } }
        var hasCrashed: Bool { state.withLock { ($0.callsUntilCrash ?? 0) < 0 } }

        func fault(isRemote: Bool) -> FaultyBackend.Fault? {
            state.withLock { state in
                if let calls = state.callsUntilCrash {
                    state.callsUntilCrash = calls - 1
                    if calls < 0 { return .permanent(.unavailable) }
                    if calls == 0 {
                        state.callsUntilCrash = -1
                        return state.crashCompletesCall ? .lostAnswer : .permanent(.unavailable)
                    }
                }
                guard isRemote, state.isRemoteUnreliable, Bool.random(using: &state.generator) else { return nil }
                return [.transient, .lostRequest, .lostAnswer].randomElement(using: &state.generator)
            }
        }
    }

    struct Device {
        let number: Int
        let local: MemoryBackend
        let faults: Faults
        var stores: [EntitlementStore] = []
        /// The model's owner of anonymous facts on this device until they are adopted.
        var anonymousOwner: String { "anonymous \(number)" }
    }

    /// A fact that a store recorded or tried to record.
    struct TrackedFact {
        var owner: String
        var device: Int
        var isUnit: Bool
        var isAcknowledged = false
    }

    let seed: UInt64
    var generator: SeededGenerator
    let machine: TestHost
    let catalog: Catalog
    let remote: MemoryBackend
    var devices: [Device] = []
    var facts: [String: TrackedFact] = [:]
    /// The ids whose move to a named account has been seen complete: they were in its own ledgers, and no longer in
    /// the anonymous ones of the same device.
    private var adopted: Set<String> = []
    private var number = 0

    init(seed: UInt64, catalog: Catalog) async throws {
        self.seed = seed
        self.catalog = catalog
        generator = SeededGenerator(seed: seed)
        machine = try TestHost(at: "2026-01-10T12:00:00Z", seed: generator.next())
        remote = MemoryBackend(host: machine.host)
        for number in 0..<Int.random(in: 2...3, using: &generator) {
            devices.append(
                Device(
                    number: number, local: MemoryBackend(host: machine.host), faults: Faults(seed: generator.next())))
            try await open(number)
        }
    }

    /// Restarts a device with one or two store objects and without faults.
    func open(_ number: Int) async throws {
        let device = devices[number]
        devices[number].stores = []
        device.faults.clear()
        for _ in 0..<Int.random(in: 1...2, using: &generator) {
            devices[number].stores.append(
                try await EntitlementStore(
                    catalog: catalog,
                    local: FaultyBackend(device.local) { _ in device.faults.fault(isRemote: false) },
                    remote: FaultyBackend(remote) { _ in device.faults.fault(isRemote: true) }, host: machine.host))
        }
    }

    func newID() -> String {
        number += 1
        return "id-\(number)-\(seed % 1_000)"
    }

    func owner(_ store: EntitlementStore, on device: Device) -> String {
        store.account.isAnonymous ? device.anonymousOwner : Holdings.name(store.account)
    }

    /// Updates the model after an attempted adoption: anonymous facts now belong to `account` or to the claiming
    /// account.
    func noteAdoption(on device: Device, by account: Account?) async throws {
        let holdings = try await Holdings(of: device.local)
        var adopter = account.map(Holdings.name) ?? holdings.claim
        let waiting = facts.filter { id, fact in
            fact.owner == device.anonymousOwner || isClaimVoid(id, fact, on: device, holdings)
        }.keys
        adopter = adopter ?? waiting.lazy.flatMap(holdings.owners).first { $0 != "anonymous" }
        guard let adopter else { return }
        for id in waiting { facts[id]?.owner = adopter }
    }

    /// Returns `true` if the claiming account was erased before the move of the fact was complete. The fact is then
    /// anonymous again, also if a copy of it had already reached the account's ledgers: the erasure removes the copy.
    private func isClaimVoid(_ id: String, _ fact: TrackedFact, on device: Device, _ holdings: Holdings) -> Bool {
        fact.device == device.number && holdings.erased.contains(fact.owner) && !adopted.contains(id)
    }

    /// Checks that devices and remote hold facts only under their owners.
    func check(_ comment: String) async throws {
        for device in devices {
            let holdings = try await Holdings(of: device.local)
            for (id, fact) in facts where isClaimVoid(id, fact, on: device, holdings) {
                let isHere = holdings.claim == nil && holdings["anonymous"].contains(id)
                if isHere { facts[id]?.owner = device.anonymousOwner }
            }
            for (holder, ids) in holdings.ids where holder != "anonymous" {
                adopted.formUnion(ids.subtracting(holdings["anonymous"]))
            }
            for (holder, ids) in holdings.ids {
                for id in ids {
                    let owner = facts[id]?.owner ?? "?"
                    let isRight =
                        holder == "anonymous"
                        ? owner == device.anonymousOwner || owner == holdings.claim : owner == holder
                    #expect(isRight, "\(holder) of device \(device.number) holds \(id) of \(owner); \(comment)")
                }
            }
        }
        for (holder, ids) in try await Holdings(of: remote).ids {
            for id in ids { #expect(facts[id]?.owner == holder, "remote \(holder) holds \(id); \(comment)") }
        }
    }

    /// Logs in and syncs. A missing or erased account is an expected outcome.
    private func logInAndSync(_ name: String, with store: EntitlementStore) async throws {
        func both() async throws {
            try await store.logIn(name)
            try await store.sync()
        }
        do { try await both() } catch let error as EntitlementError {
            #expect([.unknownAccount, .accountErased].contains(error.kind), "\(error), seed \(seed)")
        }
    }

    /// Ends all faults, logs every account in on every device, syncs, and checks that each fact is with its owner.
    func heal(_ comment: String) async throws {
        var names: Set<String> = []
        for backend in devices.map(\.local) + [remote] {
            let holdings = try await Holdings(of: backend)
            for owner in holdings.ids.keys + [holdings.claim].compactMap({ $0 }) where owner != "anonymous" {
                names.insert(String(owner.prefix { $0 != "/" }))
            }
        }
        for round in 0..<2 {
            // A second round is needed only for erasures that a device learns of after the other devices have synced.
            if round == 1, try await Holdings(of: remote).erased.isEmpty { break }
            for number in devices.indices {
                try await open(number)
                let store = devices[number].stores[0]
                for name in names.sorted() { try await logInAndSync(name, with: store) }
            }
        }
        try await check(comment)
        let end = try await Holdings(of: remote)
        for (id, fact) in facts.sorted(by: { $0.key < $1.key }) {
            let isErased = end.erased.contains(fact.owner)
            if isErased {
                #expect(end.owners(of: id).isEmpty, "\(id) of \(fact.owner) is on the remote; \(comment)")
                for device in devices {
                    let left = try await Holdings(of: device.local).owners(of: id)
                    #expect(left.isEmpty, "\(id) of \(fact.owner), erased, is on device \(device.number); \(comment)")
                }
            } else if fact.isAcknowledged {
                let isSynced = !fact.isUnit && !fact.owner.hasPrefix("anonymous")
                let place = isSynced ? end : try await Holdings(of: devices[fact.device].local)
                let name = fact.owner.hasPrefix("anonymous") ? "anonymous" : fact.owner
                #expect(place[name].contains(id), "\(id) of \(fact.owner) is lost; \(comment)")
            }
        }
    }
}
