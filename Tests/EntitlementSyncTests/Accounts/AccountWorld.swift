import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import Synchronization
import Testing

/// Devices with stores that die and links that break, accounts that come and go, and a model of whose is what that is
/// told only what the calls said.
final class AccountWorld {
    /// Decides the fate of a device's calls.
    final class Weather: Sendable {
        private struct State {
            var generator: SeededGenerator
            var callsToLive: Int?
            var isDoneBeforeDeath = false
            var isRemoteAway = false
        }
        private let state: Mutex<State>

        init(seed: UInt64) { state = Mutex(State(generator: SeededGenerator(seed: seed))) }

        /// The device dies at a call of the near future.
        func doom(after calls: Int, isDone: Bool) {
            state.withLock { ($0.callsToLive, $0.isDoneBeforeDeath) = (calls, isDone) }
        }
        func breakLink() { state.withLock { $0.isRemoteAway = true } }
        func clear() { state.withLock { ($0.callsToLive, $0.isRemoteAway) = (nil, false) } }
        var isDead: Bool { state.withLock { ($0.callsToLive ?? 0) < 0 } }

        func fault(isRemote: Bool) -> FaultyBackend.Fault? {
            state.withLock { state in
                if let calls = state.callsToLive {
                    state.callsToLive = calls - 1
                    if calls < 0 { return .permanent(.unavailable) }
                    if calls == 0 {
                        state.callsToLive = -1
                        return state.isDoneBeforeDeath ? .lostAnswer : .permanent(.unavailable)
                    }
                }
                guard isRemote, state.isRemoteAway, Bool.random(using: &state.generator) else { return nil }
                return [.transient, .lostRequest, .lostAnswer].randomElement(using: &state.generator)
            }
        }
    }

    struct Device {
        let number: Int
        let local: MemoryBackend
        let weather: Weather
        var stores: [EntitlementStore] = []
        /// Whose what nobody buys here is, until it is adopted.
        var nobody: String { "anonymous \(number)" }
    }

    /// Something that was recorded, or tried to be.
    struct Deed {
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
    var deeds: [String: Deed] = [:]
    /// What has been seen in an account's own ledgers.
    private var moved: Set<String> = []
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
                    number: number, local: MemoryBackend(host: machine.host), weather: Weather(seed: generator.next())))
            try await open(number)
        }
    }

    /// One store object on a device, or two.
    func open(_ number: Int) async throws {
        let device = devices[number]
        devices[number].stores = []
        device.weather.clear()
        for _ in 0..<Int.random(in: 1...2, using: &generator) {
            devices[number].stores.append(
                try await EntitlementStore(
                    catalog: catalog,
                    local: FaultyBackend(device.local) { _ in device.weather.fault(isRemote: false) },
                    remote: FaultyBackend(remote) { _ in device.weather.fault(isRemote: true) }, host: machine.host))
        }
    }

    func newID() -> String {
        number += 1
        return "id-\(number)-\(seed % 1_000)"
    }

    func owner(_ store: EntitlementStore, on device: Device) -> String {
        store.account.isAnonymous ? device.nobody : Holdings.name(store.account)
    }

    /// After an adoption was tried: what nobody had bought is whoever's the claim says it is.
    func noteAdoption(on device: Device, by account: Account?) async throws {
        let holdings = try await Holdings(of: device.local)
        var adopter = account.map(Holdings.name) ?? holdings.claim
        let waiting = deeds.filter { id, deed in
            deed.owner == device.nobody || isClaimVoid(id, deed, on: device, holdings)
        }.keys
        adopter = adopter ?? waiting.lazy.flatMap(holdings.owners).first { $0 != "anonymous" }
        guard let adopter else { return }
        for id in waiting { deeds[id]?.owner = adopter }
    }

    /// Whether an account claimed something and was erased before any of it was moved: then it is nobody's again.
    private func isClaimVoid(_ id: String, _ deed: Deed, on device: Device, _ holdings: Holdings) -> Bool {
        deed.device == device.number && holdings.erased.contains(deed.owner) && !moved.contains(id)
    }

    /// No place holds what is somebody else's.
    func check(_ comment: String) async throws {
        for device in devices {
            let holdings = try await Holdings(of: device.local)
            for (id, deed) in deeds where isClaimVoid(id, deed, on: device, holdings) {
                let isHere = holdings.claim == nil && holdings["anonymous"].contains(id)
                if isHere { deeds[id]?.owner = device.nobody }
            }
            for (holder, ids) in holdings.ids where holder != "anonymous" { moved.formUnion(ids) }
            for (holder, ids) in holdings.ids {
                for id in ids {
                    let owner = deeds[id]?.owner ?? "?"
                    let isRight =
                        holder == "anonymous" ? owner == device.nobody || owner == holdings.claim : owner == holder
                    #expect(isRight, "\(holder) of device \(device.number) holds \(id) of \(owner); \(comment)")
                }
            }
        }
        for (holder, ids) in try await Holdings(of: remote).ids {
            for id in ids { #expect(deeds[id]?.owner == holder, "remote \(holder) holds \(id); \(comment)") }
        }
    }

    /// An account that is not there, or was erased, is no failure.
    private func logInAndSync(_ name: String, with store: EntitlementStore) async throws {
        func both() async throws {
            try await store.logIn(name)
            try await store.sync()
        }
        do { try await both() } catch let error as EntitlementError {
            #expect([.unknownAccount, .accountErased].contains(error.kind), "\(error), seed \(seed)")
        }
    }

    /// All faults end; everybody logs in everywhere in turn and syncs; then all is where it belongs.
    func heal(_ comment: String) async throws {
        var names: Set<String> = []
        for backend in devices.map(\.local) + [remote] {
            let holdings = try await Holdings(of: backend)
            for owner in holdings.ids.keys + [holdings.claim].compactMap({ $0 }) where owner != "anonymous" {
                names.insert(String(owner.prefix { $0 != "/" }))
            }
        }
        for round in 0..<2 {
            // Only of an erasure a device may have to hear after all others have told what they know.
            if round == 1, try await Holdings(of: remote).erased.isEmpty { break }
            for number in devices.indices {
                try await open(number)
                let store = devices[number].stores[0]
                for name in names.sorted() { try await logInAndSync(name, with: store) }
            }
        }
        try await check(comment)
        let end = try await Holdings(of: remote)
        for (id, deed) in deeds.sorted(by: { $0.key < $1.key }) {
            let isErased = end.erased.contains(deed.owner)
            if isErased {
                #expect(end.owners(of: id).isEmpty, "\(id) of \(deed.owner) is on the remote; \(comment)")
                for device in devices {
                    let left = try await Holdings(of: device.local).owners(of: id)
                    #expect(left.isEmpty, "\(id) of \(deed.owner), erased, is on device \(device.number); \(comment)")
                }
            } else if deed.isAcknowledged {
                let isSynced = !deed.isUnit && !deed.owner.hasPrefix("anonymous")
                let place = isSynced ? end : try await Holdings(of: devices[deed.device].local)
                let name = deed.owner.hasPrefix("anonymous") ? "anonymous" : deed.owner
                #expect(place[name].contains(id), "\(id) of \(deed.owner) is lost; \(comment)")
            }
        }
    }
}
