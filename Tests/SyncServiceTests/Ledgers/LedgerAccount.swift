import Entitlements
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import SyncService

/// An account of a service, and requests for its ledger.
struct LedgerAccount {
    let service: EntitlementService
    let name: String
    let token: String
    /// The path under which the account's keys are.
    let path: String

    init(_ service: EntitlementService, _ name: String) async {
        let session = await AccountOwner(service, name).signUp()
        self.init(service, name, token: session["access_token"] ?? "", incarnation: session["incarnation"] ?? "")
    }

    private init(_ service: EntitlementService, _ name: String, token: String, incarnation: String) {
        (self.service, self.name, self.token) = (service, name, token)
        path = "/v1/kv/accounts/\(name)/\(incarnation)/"
    }

    /// The same account at another service over the same store.
    func at(_ other: EntitlementService) async -> LedgerAccount {
        let session = await AccountOwner(other, name).logIn()
        return LedgerAccount(
            other, name, token: session["access_token"] ?? "", incarnation: session["incarnation"] ?? "")
    }

    var ledger: EntryKey { get throws { try EntryKey(String(path.dropFirst("/v1/kv/".count)) + "ledger") } }

    func put(_ facts: [Fact], _ fields: HTTPFields = [.ifNoneMatch: "*"]) async -> Reply {
        await service.ask(.put, path + "ledger", token: token, fields, body: LedgerDocumentBytes.of(facts))
    }

    func get(_ fields: HTTPFields = [:], _ key: String = "ledger") async -> Reply {
        await service.ask(.get, path + key, token: token, fields)
    }

    /// The decisions about its purchases.
    func decisions() async throws -> [TransactionReference: Acceptance] {
        let reply = await get([:], "decisions")
        guard reply.status == 200 else { return [:] }
        return Facts(account: Ledger(), server: try LedgerDocument(decoding: reply.body).ledger).acceptances
    }

    /// The ids of its refused transactions, sorted.
    func refusals() async throws -> [String] {
        try await decisions().values.compactMap {
            guard case .refused = $0.decision else { return nil }
            return $0.transaction.id.rawValue
        }.sorted()
    }

    func batch(_ operations: [BatchOperation]) async -> Reply {
        await service.ask(
            .post, BatchBody.path, token: token, [.contentType: BatchBody.mediaType],
            body: BatchBody.bytes(of: operations))
    }

    func entitlements(at: String? = nil) async -> Reply {
        await service.ask(.get, "/v1/entitlements" + (at.map { "?at=" + $0 } ?? ""), token: token)
    }

    /// The answer of the synchronous path to a read of the ledger.
    func synchronousGet() -> ServiceResponse? {
        let head = HTTPRequest(
            method: .get, scheme: "http", authority: "x", path: path + "ledger",
            headerFields: [.authorization: "Bearer \(token)"])
        return service.fastRead(head, peer: "127.0.0.1")
    }

    /// A purchase of an owl, dated some days after `now`.
    static func purchase(
        _ id: String, _ product: ProductID = "owl", at now: Int64, daysFromNow days: Int64 = 0, time: UInt64 = 1
    ) -> Fact {
        .purchase(
            Purchase(
                transaction: TransactionReference(id: TransactionID(id)), product: product, terms: nil,
                date: Timestamp(milliseconds: now + days * 86_400_000), quantity: 1,
                stamp: Stamp(logicalTime: LogicalTime(rawValue: time))))
    }
}
