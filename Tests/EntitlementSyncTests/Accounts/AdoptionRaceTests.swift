import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Adoption during concurrent work on the same local backend")
struct AdoptionRaceTests {
    private let home: Household

    init() throws {
        home = try Household()
    }

    private typealias Process = @Sendable (any KeyValueBackend) async throws -> Void

    private func open(_ local: any KeyValueBackend, _ account: Account? = nil) async throws -> EntitlementStore {
        try await home.store(local, account: account)
    }

    /// A device that knows two accounts and holds earlier anonymous purchases.
    private func device() async throws -> MemoryBackend {
        let local = MemoryBackend(host: home.machine.host)
        let store = try await open(local)
        for name in ["alice", "bob"] { try await store.createAccount(name) }
        try await store.record([
            .reported(Owls.nightOwl, transaction: "before"), .reported(Owls.randomOwls, transaction: "units before"),
        ])
        return local
    }

    private var recorder: Process {
        { local in
            let anonymous = try await open(local, .anonymous)
            try await anonymous.record(.reported(Owls.threeMonths, transaction: "time"))
            try await anonymous.record(.reported(Owls.randomOwls, transaction: "units"))
            try await anonymous.record(.deferred(Owls.couchOwl))
        }
    }

    private func adopter(_ name: String) -> Process {
        { local in _ = try await open(local).logIn(name, adoptAnonymous: true) }
    }

    private func recorders() -> [Process] {
        [
            { local in
                _ = try await open(local, .anonymous).record(.reported(Owls.threeMonths, transaction: "time"))
            },
            { local in
                _ = try await open(local, .anonymous).record(.reported(Owls.randomOwls, transaction: "units"))
            },
        ]
    }

    @Test("Each fact has one owner when an adoption overtakes a recording at any call, for any number of calls")
    func everyPause() async throws {
        var rounds = 0
        for recorder in recorders() {
            // The recorder makes `first` calls, the adopter `pause`, the recorder `second`, and then the adopter.
            for first in 0..<8 {
                for pause in stride(from: 0, to: 34, by: 2) {
                    for second in [1, 99] {
                        let scheduler = CallScheduler { turn, waiting in
                            let preferred =
                                turn < first || (turn >= first + pause && turn < first + pause + second) ? 0 : 1
                            return waiting.contains(preferred) ? preferred : waiting[0]
                        }
                        try await check(scheduler, [recorder, adopter("alice")], "\(first) \(pause) \(second)")
                        rounds += 1
                    }
                }
            }
        }
        #expect(rounds == 2 * 8 * 17 * 2)
    }

    @Test("Each fact has one owner after a recording and one or two adoptions in 600 random orders")
    func random() async throws {
        let seed = printedSeed("adopting in random orders")
        for round in 0..<600 {
            let seed = seed &+ UInt64(round)
            let scheduler = CallScheduler { turn, waiting in
                var generator = SeededGenerator(seed: seed &* 0x9E37_79B9 &+ UInt64(turn / (1 + Int(seed % 4))))
                return waiting.randomElement(using: &generator) ?? waiting[0]
            }
            let adopters = round % 3 == 0 ? ["alice"] : ["alice", "bob"]
            try await check(scheduler, [recorder] + adopters.map(adopter), "seed \(seed)")
        }
    }

    private func check(_ scheduler: CallScheduler, _ processes: [Process], _ comment: String) async throws {
        let local = try await device()
        try await scheduler.run(over: local, processes)
        let end = try await Holdings(of: local)
        #expect(end.claim == nil, "\(comment)")
        let recorded = Set(end.ids.values.joined()).subtracting(["before", "units before"])
        #expect(!recorded.isEmpty)
        for id in recorded.union(["before", "units before"]) {
            #expect(end.owners(of: id).count == 1, "\(id): \(end.owners(of: id)), \(comment)")
        }
        for id in ["before", "units before"] {
            #expect(end.owners(of: id) != ["anonymous"], "\(comment)")
            if processes.count == 2 { #expect(end.owners(of: id)[0].hasPrefix("alice/"), "\(comment)") }
        }
        // A replica id never records for two owners.
        let pairs = try await recordings(in: local)
        #expect(Set(pairs.map(\.replica)).count == pairs.count, "\(comment)")
    }

    private struct ReplicaOwner: Hashable {
        var replica: [UInt8]
        var owner: String
    }

    /// The replica ids of all recordings, each with the owner of the recorded fact.
    private func recordings(in local: MemoryBackend) async throws -> Set<ReplicaOwner> {
        var owners: Set<ReplicaOwner> = []
        for account in try await EntitlementStore.accounts(in: local) {
            let ledgers = try await open(local, account).localLedgers()
            for record in ledgers.account.records + ledgers.device.records {
                if case .recording(let recording) = Fact(record) {
                    owners.insert(ReplicaOwner(replica: recording.replica.bytes, owner: Holdings.name(account)))
                }
            }
        }
        return owners
    }
}
