import Entitlements
import Foundation
import HTTPTypes
import ServiceTestSupport
import StoreEvidence
import SyncCore
import SyncProtocol
import Synchronization
import Testing

@testable import SyncService

/// A sale as a store signs it. The members are those of an App Store transaction.
struct Sale: Sendable {
    var id: String
    var original: String?
    var product = "owl"
    var purchased: Int64
    var expires: Int64?
    var revoked: Int64?
    var signed: Int64
    var token: String?
    var lineItem: String?
    var environment = "Production"
    var store = "app-store"

    init(_ id: String, at date: Int64, signed: Int64? = nil, token: String? = nil) {
        (self.id, purchased, self.signed, self.token) = (id, date, signed ?? date, token)
    }

    /// A period of a subscription.
    static func month(_ id: String, of original: String, at date: Int64, token: String? = nil) -> Sale {
        var sale = Sale(id, at: date, token: token)
        (sale.original, sale.product, sale.expires) = (original, "month", date + 30 * 86_400_000)
        return sale
    }

    /// The same sale, signed again at `date`.
    func signed(at date: Int64) -> Sale {
        var sale = self
        sale.signed = date
        return sale
    }

    /// The copy of the sale that the store names `id` on another device.
    func restored(as id: String, at date: Int64) -> Sale {
        var sale = signed(at: date)
        (sale.id, sale.original) = (id, original ?? self.id)
        return sale
    }

    /// The same sale, refunded at `date` and signed then.
    func refunded(at date: Int64) -> Sale {
        var sale = signed(at: date)
        sale.revoked = date
        return sale
    }

    var reference: TransactionReference {
        TransactionReference(
            store: StoreID(store), environment: EnvironmentID(environment.lowercased()), id: TransactionID(id))
    }

    var line: TransactionReference {
        TransactionReference(
            store: StoreID(store), environment: reference.environment, id: TransactionID(original ?? id))
    }
}

/// A service that accepts evidence of a test store, with its accounts.
struct EvidenceStage {
    static let start: Int64 = 1_800_000_000_000
    static let day: Int64 = 86_400_000
    static let catalog = """
        {"products":[{"id":"month","type":"autoRenewable","group":"owls","duration":"P1M","level":1},
          {"id":"three","type":"nonRenewing","group":"nights","duration":"P3M"},
          {"id":"owl","type":"nonConsumable"}],
         "entitlements":[{"id":"owls","grantedBy":["group:owls"]},{"id":"nights","grantedBy":["group:nights"]},
          {"id":"owl","grantedBy":["product:owl"]}]}
        """

    let store = HookedBackend()
    let clock = TestClock(start)
    let service: EntitlementService
    let notes = EvidenceNotes()
    let (alice, bob): (LedgerAccount, LedgerAccount)

    init(
        _ policy: TrustPolicy = .verified, _ ownership: ServiceConfiguration.Ownership = .keepWithFirst,
        parkedByteLimit: Int = 64 << 20, catalog: String = Self.catalog,
        configure: (inout EvidenceConfiguration) -> Void = { _ in }
    ) async throws {
        service = try await Self.open(
            store, clock, policy, ownership, notes, parkedByteLimit: parkedByteLimit, catalog: catalog,
            configure: configure)
        (alice, bob) = (await LedgerAccount(service, "alice"), await LedgerAccount(service, "bob"))
    }

    /// A stage where alice has sent a sale that no other account has.
    static func owned(
        _ policy: TrustPolicy, _ ownership: ServiceConfiguration.Ownership = .keepWithFirst, isMonthly: Bool = false
    ) async throws -> (EvidenceStage, Sale) {
        let stage = try await EvidenceStage(policy, ownership)
        let sale = isMonthly ? Sale.month("1", of: "1", at: stage.now) : Sale("1", at: stage.now)
        try #require(try await stage.send([sale], as: stage.alice).results == ["2"])
        return (stage, sale)
    }

    /// A service over the same store, as after a restart.
    static func open(
        _ store: HookedBackend, _ clock: TestClock, _ policy: TrustPolicy,
        _ ownership: ServiceConfiguration.Ownership, _ notes: EvidenceNotes = EvidenceNotes(),
        parkedByteLimit: Int = 64 << 20, catalog: String = Self.catalog,
        configure: (inout EvidenceConfiguration) -> Void = { _ in }
    ) async throws -> EntitlementService {
        var configuration = ServiceConfiguration(name: "https://sync.example.com")
        let json = Array(catalog.utf8)
        (configuration.catalog, configuration.catalogJSON) = (try Catalog(json: json), json)
        (configuration.policy, configuration.ownership) = (policy, ownership)
        configuration.accessTokenLifetime = 10 * 86_400
        configuration.evidence.appStore = PlainStoreVerifier()
        configure(&configuration.evidence)
        configuration.evidence.parkedByteLimit = parkedByteLimit
        let service = try await EntitlementService(
            store, configuration: configuration, passwords: PlainPasswords(), host: clock.host,
            onError: { _ in }, onEvidence: { notes.add($0) })
        await service.followChanges()
        return service
    }

    var now: Int64 { clock.now }

    func send(_ sales: [Sale], as account: LedgerAccount, isRestore: Bool = false) async throws -> Reply {
        let items = try sales.map { ["kind": "app-store-transaction", "jws": try StoreMint.jws($0)] }
        return await send(items, as: account, isRestore: isRestore)
    }

    func send(_ items: [[String: String]], as account: LedgerAccount, isRestore: Bool = false) async -> Reply {
        await account.service.ask(
            .post, "/v1/transactions", token: account.token, json: ["evidence": items, "restore": isRestore])
    }

    /// Acts of support on the store of the service.
    func supportActs(
        _ ownership: ServiceConfiguration.Ownership = .keepWithFirst, over store: (any KeyValueBackend)? = nil
    ) -> SupportActs {
        guard let catalog = service.configuration.catalog else { preconditionFailure("the stage has a catalogue") }
        return SupportActs(
            store: store ?? self.store, catalog: catalog, ownership: ownership,
            host: clock.host)
    }

    func notify(_ sale: Sale, peer: String = "17.0.0.1") async throws -> Reply {
        await service.ask(
            .post, "/v1/notifications/app-store", json: ["signedPayload": try StoreMint.notification(sale)], peer: peer)
    }

    func token(of account: LedgerAccount) async -> String? {
        await service.ask(.get, "/v1/accounts/self/token", token: account.token)["token"]
    }

    /// The owned products and active groups of an account, as the server derives them.
    func rights(of account: LedgerAccount, environment: String? = nil) async -> Set<String> {
        let query = environment.map { "?environment=\($0)" } ?? ""
        let reply = await account.service.ask(.get, "/v1/entitlements" + query, token: account.token)
        let access = reply.members["access"] as? [String: [String: Any]] ?? [:]
        return Set(access.filter { $0.value["granted"] as? Bool == true }.keys)
    }

    /// The server ledger of an account.
    func serverLedger(of account: LedgerAccount) async throws -> ServerLedger {
        let reply = await account.get([:], "decisions")
        return reply.status == 200 ? ServerLedger(try LedgerDocument(decoding: reply.body).ledger) : ServerLedger()
    }
}

/// The notes of a service about evidence.
final class EvidenceNotes: Sendable {
    private let notes = Mutex<[EvidenceNote]>([])

    func add(_ note: EvidenceNote) { notes.withLock { $0.append(note) } }

    var all: [EvidenceNote] { notes.withLock { $0 } }
}

extension Reply {
    /// The results of a request with evidence: the number of facts, or the code of the problem.
    var results: [String] {
        (members["results"] as? [[String: Any]] ?? []).map { result in
            if let problem = result["problem"] as? [String: Any] { return problem["code"] as? String ?? "?" }
            return "\((result["facts"] as? [Any])?.count ?? -1)"
        }
    }
}
