import EntitlementSync
import Entitlements
import EntitlementsTestSupport
import ServiceTestSupport
import SyncCore
import TestSupport
import Testing

@testable import SyncService

@Suite("Rows and a full replay", .timeLimit(.minutes(60)))
struct ProjectionTruthTests {
    /// The accounts of a round are projected again and again while their ledgers grow and time passes.
    @Test("The rows of random accounts equal a full replay and a fresh rebuild", arguments: DatabaseKind.allCases)
    func random(kind: DatabaseKind) async throws {
        let seed = UInt64.random(in: 0 ... .max)
        let count = Soak.isLong ? 10_000 : 300
        print("seed of the accounts: \(seed), \(kind.rawValue)")
        let stage = try await ProjectionStage(kind)
        var random = SplitMix64(seed: seed)
        let round = 500
        for start in stride(from: 0, to: count, by: round) {
            let names = (start..<min(start + round, count)).map { "user-\($0)-\(random.pick(["é", "e\u{301}", "/"]))" }
            for _ in 0..<4 {
                for name in names where random.chance(2, in: 3) {
                    try await change(name, in: stage, using: &random)
                    if random.chance(1, in: 200) { try await stage.project() }
                }
                try await stage.project()
                // To an instant at which something ends, or a day further.
                let due = try await stage.rows("SELECT min(next_change) FROM customers")[0][0].integer
                let ahead = due.map { ($0 - stage.clock.now) / 1_000 } ?? 0
                let isSoon = ahead > 0 && ahead < 90 * ProjectionStage.day
                stage.clock.advance(seconds: isSoon && random.chance(1, in: 2) ? ahead : ProjectionStage.day)
                try await stage.project()
            }
            for name in names { try await compare(name, in: stage) }
        }
        let content = try await stage.content()
        let folder = try TemporaryFolder()
        let fresh = try ProjectionStage.database(kind, folder)
        let projector = ProjectionStage.projector(
            of: stage.store, into: fresh, stage.clock, try Catalog(json: ProjectionStage.catalogue))
        var lease = ProjectorLease(stage.store, host: stage.clock.host)
        try await stage.releaseLease()
        try await projector.project(&lease)
        for (table, rows) in try await ProjectionStage.content(of: fresh).sorted(by: { $0.key < $1.key }) {
            #expect(rows == content[table], "\(table), seed \(seed)")
        }
    }

    /// Adds facts to an account, which is created if it is missing; rarely erases it.
    private func change(_ name: String, in stage: ProjectionStage, using random: inout SplitMix64) async throws {
        let records = RecordStore(backend: stage.store)
        var known = try await records.account(name)?.value
        if known?.activeAccount == nil {
            let created = AccountRecord(
                name: name, incarnation: "i\(random.int(0...999_999))", erased: known?.erased ?? [], password: nil,
                created: stage.clock.now)
            known = try await records.updateAccount(name) { _ in created }
        }
        guard let account = known?.activeAccount else { return }
        if random.chance(1, in: 40) {
            _ = try await records.updateAccount(name) { (record) in
                record.map { record in
                    var record = record
                    record.erased.append(account.incarnation)
                    return record
                }
            }
            return
        }
        let keys = try LedgerKeys(account)
        for (key, isServer) in [(keys.ledger, false), (keys.serverLedger, true)]
        where !isServer || random.chance(1, in: 4) {
            let facts = (0..<random.int(1...4)).map { _ in
                fact(at: stage.clock.now, isServer, using: &random)
            }
            _ = try await stage.store.update(key) { (entry) throws(BackendError) in
                let known = try entry.map { (entry) throws(BackendError) in try LedgerRules.stored(entry, key) }
                return LedgerDocument(ledger: (known ?? Ledger()).joined(with: Ledger(facts.map(\.record)))).encoded()
            }
        }
    }

    /// Usually a fact about a product of the catalogue, otherwise any fact.
    private func fact(at now: Int64, _ isServer: Bool, using random: inout SplitMix64) -> Fact {
        if random.chance(1, in: 5) { return .random(using: &random) }
        let transaction = TransactionReference(
            store: random.pick([.reported, .appStore]),
            environment: random.chance(1, in: 5) ? .sandbox : .production, id: TransactionID("t\(random.int(0...12))"))
        let date = Timestamp(milliseconds: now + random.int(-60...3) * 86_400_000 + random.int(0...86_399_999))
        guard random.chance(2, in: 3) else {
            return .revocation(
                Revocation(
                    transaction: transaction, revokedAt: random.chance(1, in: 4) ? nil : date,
                    reason: "refund", upgradedAt: nil, stamp: .random(using: &random)))
        }
        let product = ProductID(random.pick(["month", "month", "owl", "pack", "unknown"]))
        let catalog = try? Catalog(json: ProjectionStage.catalogue)
        return .purchase(
            Purchase(
                transaction: transaction, product: product, terms: catalog?.terms(of: product), date: date,
                quantity: random.pick([1, 1, 2]), originalID: random.chance(1, in: 3) ? TransactionID("t0") : nil,
                stamp: .random(using: &random)))
    }

    /// Compares the rows of an account with a replay of its ledgers now.
    private func compare(_ name: String, in stage: ProjectionStage) async throws {
        let record = try await RecordStore(backend: stage.store).account(name)?.value
        let tables = ProjectionTables(stage.database)
        let rows = try await tables.accounts([name])[Array(name.utf8)]
        guard let account = record?.activeAccount else {
            #expect(rows == nil, "\(name)")
            return
        }
        let keys = try LedgerKeys(account)
        let entries = try await stage.store.ledgerEntries(keys)
        let facts = Facts(
            account: try entries.ledger.map { try LedgerRules.stored($0, keys.ledger) } ?? Ledger(),
            server: try entries.serverLedger.map { try LedgerRules.stored($0, keys.serverLedger) } ?? Ledger())
        let catalog = try Catalog(json: ProjectionStage.catalogue)
        let instant = Timestamp(milliseconds: stage.clock.now)
        for environment in Set((rows?.access ?? []).map(\.environment)) {
            let replay = Replay(facts, catalog: catalog, environment: EnvironmentID(environment))
            let snapshot = replay.snapshot(at: instant)
            for item in snapshot.access {
                let row = try #require(
                    rows?.access.first {
                        $0.environment == environment && $0.entitlement == item.entitlement.rawValue
                    })
                switch item.access {
                case .granted(let grant):
                    #expect(row.isGranted && row.until == grant.until?.milliseconds, "\(name) \(row)")
                    #expect(row.source == "\(grant.source)" && row.units == grant.units, "\(name) \(row)")
                case .denied(let denial):
                    #expect(!row.isGranted && row.reason == denial.name, "\(name) \(row)")
                }
            }
            let periods = try await stage.database.read([
                SQLStatement(
                    """
                    SELECT product_group, starts, ends FROM periods WHERE account = $1 AND environment = $2
                    ORDER BY product_group, position
                    """, [.text(name), .text(environment)])
            ])[0]
            let expected = replay.timelines.sorted { $0.key < $1.key }.flatMap { group, timeline in
                timeline.periods.map { period -> [SQLValue] in
                    [
                        .text(group.rawValue), .integer(period.start.milliseconds),
                        SQLValue(period.end.asEnd?.milliseconds),
                    ]
                }
            }
            #expect(periods == expected, "\(name)")
        }
        #expect(Set(rows?.purchases.map(\.transaction) ?? []) == Set(facts.purchases.map(\.transaction)), "\(name)")
    }
}
