import EntitlementSync
import Entitlements
import EntitlementsTestSupport
import HTTPStorage
import ServiceTestSupport
import StoreEvidence
import SyncCore
import Testing

@testable import SyncService

@Suite("The answers of the server, of a device and of support about one account")
struct SameAnswerTests {
    private static let catalog = """
        {"products":[{"id":"month","type":"autoRenewable","group":"owls","duration":"P1M","level":2},
          {"id":"best","type":"autoRenewable","group":"owls","duration":"P1M","level":1},
          {"id":"three","type":"nonRenewing","group":"nights","duration":"P3M"},
          {"id":"coins","type":"consumable","units":5},{"id":"owl","type":"nonConsumable"}],
         "entitlements":[{"id":"owls","grantedBy":["group:owls"]},{"id":"nights","grantedBy":["group:nights"]},
          {"id":"best-owls","grantedBy":["group:owls@1"]},{"id":"monthly","grantedBy":["product:month"]},
          {"id":"owl","grantedBy":["product:owl"]},{"id":"coins","grantedBy":["units:coins"]}],
         "policy":{"consumables":"shared"}}
        """

    @Test(
        "After random reports, evidence, refunds, claims and acts of support all three agree", .timeLimit(.minutes(60)))
    func agreement() async throws {
        var tally: [String: Int] = [:]
        try await forAll("server, device and support agree", cases: 200) { random, place in
            let policy: TrustPolicy = random.pick([.trusted, .verified])
            let ownership: ServiceConfiguration.Ownership = random.pick([.keepWithFirst, .transfer, .share])
            let stage = try await EvidenceStage(policy, ownership, catalog: Self.catalog)
            try await stage.service.accounts.records.state(policy)
            var life = RandomCustomer(
                stage, try await Customer(stage, stage.alice), try await Customer(stage, stage.bob), random)
            for _ in 0..<life.random.int(6...24) { try await life.act() }
            random = life.random
            for name in try await compare(life, policy, place) { tally["\(policy): \(name)", default: 0] += 1 }
        }
        for policy in [TrustPolicy.trusted, .verified] {
            for name in ["granted", "revoked", "foreign", "verified", "overridden", "credit", "transferred"] {
                let count = tally["\(policy): \(name)"] ?? 0
                #expect(count >= 3, "\(name) under \(policy): only \(count) of 200 accounts")
            }
        }
    }

    /// Compares the three answers, and returns the interesting properties of the account.
    private func compare(_ life: RandomCustomer, _ policy: TrustPolicy, _ place: String) async throws -> [String] {
        let (stage, phone) = (life.stage, life.alice.store)
        try await phone.sync()
        try await phone.sync()
        let support = try await EntitlementStore(
            catalog: phone.catalog, local: stage.store, account: phone.account, environment: .production,
            clock: .trusted, ownServer: .init(policy: try await RecordStore(backend: stage.store).statedPolicy()),
            host: stage.clock.host)
        let (device, server) = (try await phone.snapshot(), try await support.snapshot())
        try #require(server.access == device.access, "\(place)")
        try #require(server == device, "\(place)")
        let reply = await stage.alice.entitlements()
        try #require(
            String(decoding: reply.body, as: UTF8.self) == server.json(account: "alice").text(), "\(place)")
        let (phoneReplay, replay) = (try await phone.replay(), try await support.replay())
        try #require(replay.timelines == phoneReplay.timelines, "\(place)")
        for entitlement in phone.catalog.entitlements {
            let explanation = replay.explanation(of: entitlement.id, at: server.at)
            try #require(explanation == phoneReplay.explanation(of: entitlement.id, at: device.at), "\(place)")
            try #require(explanation?.access == server[access: entitlement.id], "\(place)")
        }
        try #require(replay.facts.policy == policy, "\(place)")
        let conflicts = replay.conflicts(at: server.at)
        // The device's own log of contradictions stays on the device.
        let seen = phoneReplay.conflicts(at: device.at).filter { if case .contradiction = $0 { false } else { true } }
        try #require(conflicts == seen, "\(place)")
        var found = life.reached
        if server.access.contains(where: { $0.access.isGranted }) { found.append("granted") }
        let facts = replay.facts
        if facts.purchases.contains(where: { facts.revocation(of: $0) != nil }) { found.append("revoked") }
        if facts.purchases.contains(where: facts.isVerified) { found.append("verified") }
        for conflict in conflicts {
            switch conflict {
            case .overridden, .unverified: found.append("overridden")
            case .refused, .transferred: found.append("foreign")
            default: break
            }
        }
        return Array(Set(found))
    }
}

/// An account and its device.
private struct Customer {
    let owner: LedgerAccount
    let store: EntitlementStore

    init(_ stage: EvidenceStage, _ owner: LedgerAccount) async throws {
        self.owner = owner
        store = try await stage.device(of: owner)
    }
}

extension EvidenceStage {
    /// A new device of `owner`, which syncs with the service.
    func device(of owner: LedgerAccount) async throws -> EntitlementStore {
        let remote = try HTTPBackend(server: "https://sync.example.com", transport: DirectTransport(service)) {
            (_) throws(BackendError) in owner.token
        }
        let incarnation = try #require(owner.path.split(separator: "/").last.map(String.init))
        return try await EntitlementStore(
            catalog: try #require(service.configuration.catalog), local: MemoryBackend(), remote: remote,
            server: remote,
            account: try Account(owner.name, incarnation: incarnation), host: clock.host)
    }
}

/// Random acts of two customers, of a store and of support. Alice's account is compared.
private struct RandomCustomer {
    let stage: EvidenceStage
    let (alice, bob): (Customer, Customer)
    var random: SplitMix64
    var reached: [String] = []

    init(_ stage: EvidenceStage, _ alice: Customer, _ bob: Customer, _ random: SplitMix64) {
        (self.stage, self.alice, self.bob, self.random) = (stage, alice, bob, random)
    }

    /// Few ids, so that the acts concern the same purchases.
    private static let ids = ["1", "2", "3", "4", "5", "6"]
    /// The product of an id. Clients state others, too.
    private static let products: [ProductID] = ["owl", "month", "three", "coins", "three", "best"]

    mutating func act() async throws {
        let number = random.int(0...5)
        let (id, product) = (Self.ids[Int(number)], Self.products[Int(number)])
        let reference = TransactionReference(store: .appStore, id: TransactionID(id))
        let date = Timestamp(milliseconds: stage.now - random.int(0...100) * EvidenceStage.day)
        let customer = random.chance(2, in: 3) ? alice : bob
        switch random.int(0...9) {
        case 0, 1:
            let stated = random.chance(1, in: 6) ? random.pick(Self.products) : product
            let day = random.chance(1, in: 5) ? Timestamp(milliseconds: stage.now + 3 * EvidenceStage.day) : date
            try await report(.reported(stated, transaction: TransactionID(id), date: day, store: .appStore), customer)
        case 2 where random.chance(1, in: 2):
            let line = TransactionReference(store: .appStore, id: "2")
            let state = Evidence.renewal(
                of: line, willRenew: random.chance(1, in: 2), graceEnd: date.adding(CalendarDuration(days: 40)))
            try await report(state, customer)
        case 2: try await report(.refunded(reference), customer)
        case 3, 4:
            var sale = Sale(id, at: date.milliseconds, signed: stage.now)
            sale.product = product.rawValue
            if ["month", "best"].contains(product) {
                // Both are periods of one subscription.
                sale.original = "2"
                sale.expires = date.milliseconds + 30 * EvidenceStage.day
            }
            if random.chance(1, in: 4) { sale.revoked = stage.now }
            _ = try await stage.send([sale], as: customer.owner, isRestore: random.chance(1, in: 3))
        case 5:
            let until = date.adding(CalendarDuration(months: 6))
            try await report(.asserted("nights", until: until, source: "campaign"), customer)
        default: try await support(customer.owner.name, reference, product, date)
        }
        if random.chance(1, in: 3) { try await customer.store.sync() }
        stage.clock.advance(seconds: random.int(1...30_000))
    }

    /// Records evidence on a device. A contradiction is refused there, and changes nothing.
    private func report(_ evidence: Evidence, _ customer: Customer) async throws {
        do throws(EntitlementError) { try await customer.store.record(evidence) } catch {
            guard error.kind == .contradiction || error.kind == .invalid else { throw error }
        }
    }

    private mutating func support(
        _ account: String, _ reference: TransactionReference, _ product: ProductID, _ date: Timestamp
    ) async throws {
        let acts = stage.supportActs()
        let order = SupportActs.Order(
            account: account, act: "record", summary: "act", operatorName: "olga", reason: "ticket",
            isTransfer: stage.service.configuration.ownership != .share && random.chance(2, in: 3))
        do {
            let outcome: SupportActs.Outcome
            switch random.int(0...4) {
            case 0, 1:
                let purchase = Evidence.reported(
                    product, transaction: reference.id, date: random.chance(1, in: 2) ? date : nil,
                    store: reference.store, environment: reference.environment)
                outcome = try await acts.record(purchase, order)
            case 2: outcome = try await acts.record(.refunded(reference), order)
            case 3: outcome = try await acts.record(.reinstated(reference), order)
            default:
                let group: GroupID = random.pick(["nights", "nights", "owls"])
                let month = CalendarDuration(months: 1)
                outcome =
                    random.chance(1, in: 2)
                    ? try await acts.record(.asserted(group, until: date.adding(month), source: "promotion"), order)
                    : try await acts.credit(
                        month, to: group, from: "promotion", transaction: TransactionID("g\(random.int(0...3))"), order)
                if outcome.entry != nil, account == "alice" { reached.append("credit") }
            }
            if !outcome.formerOwners.isEmpty { reached.append("transferred") }
        } catch let error as SupportError {
            guard [.ownedByAnother, .contradiction, .invalid].contains(error.kind) else { throw error }
        }
    }
}
