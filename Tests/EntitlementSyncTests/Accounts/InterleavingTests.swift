import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Accounts in random interleavings")
struct InterleavingTests {
    private static let names = ["alice", "bob", "carol"]

    @Test("Nothing leaks, nothing acknowledged is lost, nothing erased is left: 10,000 random histories")
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
        // What goes wrong is left to chance; that each of these goes right is not.
        let kinds = [
            "adopt", "create", "death", "erase", "flag", "log in", "log out", "record", "refund", "sync", "use",
        ]
        for kind in kinds { #expect(counts[kind, default: 0] > 10, "\(kind): \(counts), seed \(seed)") }
    }

    @Test("Histories in which something was once lost, leaked or left", arguments: [9_291_167_507_569_140 as UInt64])
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
            let isDead = world.devices[number].weather.isDead
            steps.append("\(number) \(kind)\(isDead ? " †" : "")")
            counts[kind, default: 0] += 1
            if isDead {
                counts["death", default: 0] += 1
                try await world.open(number)
            }
            world.devices[number].weather.clear()
            try await world.check("seed \(seed): \(steps)")
        }
        try await world.heal("seed \(seed): \(steps)")
    }

    private static func step(of world: AccountWorld, on number: Int) async throws -> String {
        let device = world.devices[number]
        if Int.random(in: 0..<5, using: &world.generator) == 0 {
            device.weather.doom(
                after: Int.random(in: 0..<30, using: &world.generator), isDone: Bool.random(using: &world.generator))
        }
        if Int.random(in: 0..<4, using: &world.generator) == 0 { device.weather.breakLink() }
        guard let store = device.stores.randomElement(using: &world.generator),
            var name = names.randomElement(using: &world.generator)
        else { return "nothing" }
        var choice = Int.random(in: 0..<20, using: &world.generator)
        // Without an account there is little to sync; whoever erases has mostly logged in.
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
        let known = world.deeds.filter { $0.value.owner == owner && $0.value.isAcknowledged && !$0.value.isUnit }.keys
        if choice == 6 { return try await attempt("flag") { _ = try await store.flag(Owls.couchOwl) } }
        if choice == 5, let id = known.sorted().randomElement(using: &world.generator) {
            let transaction = TransactionReference(store: .reported, environment: .production, id: TransactionID(id))
            return try await attempt("refund") { _ = try await store.refund(transaction) }
        }
        let id = world.newID()
        let isUnit = choice >= 3
        world.deeds[id] = AccountWorld.Deed(owner: owner, device: device.number, isUnit: isUnit)
        if choice == 4 {
            return try await attempt("use") {
                if case .spent = try await store.use(Owls.access, id: SpendID(id)) {
                    world.deeds[id]?.isAcknowledged = true
                }
            }
        }
        let product = [Owls.threeMonths, Owls.nightOwl, Owls.sixMonths, Owls.randomOwls][min(choice, 3)]
        return try await attempt("record") {
            try await store.record(.reported(choice == 5 ? Owls.randomOwls : product, transaction: TransactionID(id)))
            world.deeds[id]?.isAcknowledged = true
        }
    }

    /// Failures of stores and accounts are part of the game; what else is thrown is not.
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
