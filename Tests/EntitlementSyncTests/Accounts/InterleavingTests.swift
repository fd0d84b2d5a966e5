import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Random histories of accounts")
struct InterleavingTests {
    private static let names = ["alice", "bob", "carol"]

    @Test("In 10,000 random histories nothing leaks, no acknowledged fact is lost, and no erased fact remains")
    func random() async throws {
        let seed = printedSeed("10,000 random histories of accounts")
        let catalog = try Owls.catalog()
        let counts = try await withThrowingTaskGroup(of: [String: Int].self) { group in
            for part in 0..<2 {
                group.addTask {
                    var counts: [String: Int] = [:]
                    for round in 0..<5_000 {
                        try await Self.history(seed: seed &+ UInt64(part * 5_000 + round), catalog, &counts)
                    }
                    return counts
                }
            }
            return try await group.reduce(into: [:]) { $0.merge($1, uniquingKeysWith: +) }
        }
        print("random histories of accounts:", counts.sorted { $0.key < $1.key }.map { "\($0) \($1)" })
        // Each kind of step must succeed in enough histories, or the test would prove little.
        let kinds = [
            "adopt", "create", "crash", "erase", "flag", "log in", "log out", "record", "refund", "sync", "use",
        ]
        for kind in kinds { #expect(counts[kind, default: 0] > 10, "\(kind): \(counts), seed \(seed)") }
    }

    @Test(
        "Histories that exposed past defects pass",
        arguments: [9_291_167_507_569_140, 13_590_817_577_696_226_375 as UInt64])
    func known(_ seed: UInt64) async throws {
        var counts: [String: Int] = [:]
        try await Self.history(seed: seed, try Owls.catalog(), &counts)
    }

    private static func history(seed: UInt64, _ catalog: Catalog, _ counts: inout [String: Int]) async throws {
        let world = try await AccountWorld(seed: seed, catalog: catalog)
        var steps: [String] = []
        for _ in 0..<Int.random(in: 3...6, using: &world.generator) {
            let number = world.devices.indices.randomElement(using: &world.generator) ?? 0
            let kind = try await step(of: world, on: number)
            let hasCrashed = world.devices[number].faults.hasCrashed
            steps.append("\(number) \(kind)\(hasCrashed ? " †" : "")")
            counts[kind, default: 0] += 1
            if hasCrashed {
                counts["crash", default: 0] += 1
                try await world.open(number)
            }
            world.devices[number].faults.clear()
            try await world.check("seed \(seed): \(steps)")
        }
        try await world.heal("seed \(seed): \(steps)")
    }

    private static func step(of world: AccountWorld, on number: Int) async throws -> String {
        let device = world.devices[number]
        if Int.random(in: 0..<5, using: &world.generator) == 0 {
            device.faults.scheduleCrash(
                after: Int.random(in: 0..<30, using: &world.generator), isDone: Bool.random(using: &world.generator))
        }
        if Int.random(in: 0..<4, using: &world.generator) == 0 { device.faults.makeRemoteUnreliable() }
        guard let store = device.stores.randomElement(using: &world.generator),
            var name = names.randomElement(using: &world.generator)
        else { return "nothing" }
        var choice = Int.random(in: 0..<20, using: &world.generator)
        // An anonymous store has little to sync and logs in instead. An erasure targets the current account, if any.
        if store.account.isAnonymous, (8..<13).contains(choice) { choice -= 6 }
        if choice == 9, let current = store.account.name { name = current }
        switch choice {
        case 0..<2: return try await attempt("create") { _ = try await store.createAccount(name) }
        case 2..<5:
            return try await attempt("log in") {
                _ = try? await store.createAccount(name)
                try await store.logIn(name)
            }
        case 5..<8:
            var account: Account?
            let kind = try await attempt("adopt") {
                _ = try? await store.createAccount(name)
                account = try await store.logIn(name, adoptAnonymous: true)
            }
            try await world.noteAdoption(on: device, by: account)
            return kind
        case 8: return try await attempt("log out") { _ = try await store.logOut() }
        case 9: return try await attempt("erase") { try await store.eraseAccount(name) }
        case 10..<13: return try await attempt("sync") { try await store.sync() }
        case 13: return try await attempt("open") { try await world.open(number) }
        default: return try await record(with: store, on: device, of: world)
        }
    }

    private static func record(with store: EntitlementStore, on device: AccountWorld.Device, of world: AccountWorld)
        async throws -> String
    {
        let owner = world.owner(store, on: device)
        let choice = Int.random(in: 0..<7, using: &world.generator)
        let known = world.facts.filter { $0.value.owner == owner && $0.value.isAcknowledged && !$0.value.isUnit }.keys
        if choice == 6 { return try await attempt("flag") { _ = try await store.flag(Owls.couchOwl) } }
        if choice == 5, let id = known.sorted().randomElement(using: &world.generator) {
            let transaction = TransactionReference(store: .reported, environment: .production, id: TransactionID(id))
            return try await attempt("refund") { _ = try await store.refund(transaction) }
        }
        let id = world.newID()
        let isUnit = choice >= 3
        world.facts[id] = AccountWorld.TrackedFact(owner: owner, device: device.number, isUnit: isUnit)
        if choice == 4 {
            return try await attempt("use") {
                if case .spent = try await store.use(Owls.access, id: SpendID(id)) {
                    world.facts[id]?.isAcknowledged = true
                }
            }
        }
        let product = [Owls.threeMonths, Owls.nightOwl, Owls.sixMonths, Owls.randomOwls][min(choice, 3)]
        return try await attempt("record") {
            try await store.record(.reported(choice == 5 ? Owls.randomOwls : product, transaction: TransactionID(id)))
            world.facts[id]?.isAcknowledged = true
        }
    }

    /// Runs `body` and treats storage and account errors as expected outcomes. Other errors are rethrown.
    private static func attempt(_ name: String, _ body: () async throws -> Void) async throws -> String {
        do {
            try await body()
            return name
        } catch let error as EntitlementError
            where [.storage, .sync, .unknownAccount, .accountErased, .signInNeeded].contains(error.kind)
        {
            return "no \(name)"
        }
    }
}
