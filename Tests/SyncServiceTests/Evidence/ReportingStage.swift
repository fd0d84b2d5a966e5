import Entitlements
import Foundation
import HTTPTypes
import ServiceTestSupport
import SyncCore

@testable import SyncService

/// A service with units that an account shares, and requests that report purchases.
struct ReportingStage {
    /// The text of a result: the kinds of its facts and the units that are left, or the code of its problem.
    typealias Results = [String]

    let stage: EvidenceStage

    static let catalog = """
        {"products":[{"id":"month","type":"autoRenewable","group":"owls","duration":"P1M","level":1},
          {"id":"three","type":"nonRenewing","group":"nights","duration":"P3M"},
          {"id":"owl","type":"nonConsumable"},{"id":"coins","type":"consumable","units":3}],
         "entitlements":[{"id":"owls","grantedBy":["group:owls"]},{"id":"nights","grantedBy":["group:nights"]},
          {"id":"owl","grantedBy":["product:owl"]},{"id":"coin","grantedBy":["group:nights","units:coins"]}],
         "policy":{"consumables":"shared"}}
        """

    init(
        _ policy: TrustPolicy = .trusted, _ ownership: ServiceConfiguration.Ownership = .keepWithFirst,
        catalog: String = Self.catalog
    ) async throws {
        stage = try await EvidenceStage(policy, ownership, catalog: catalog)
    }

    var alice: LedgerAccount { stage.alice }
    var bob: LedgerAccount { stage.bob }

    func send(_ items: [[String: any Sendable]], as account: LedgerAccount? = nil) async -> Reply {
        let account = account ?? alice
        return await account.service.ask(.post, "/v1/transactions", token: account.token, json: ["evidence": items])
    }

    /// Sends items that must be answered, and returns their results.
    func report(_ items: [String: any Sendable]..., as account: LedgerAccount? = nil) async -> Results {
        await send(items, as: account).reported
    }

    func version(of account: LedgerAccount) async throws -> EntryVersion? {
        guard case .found(let entry) = try await stage.store.read(account.ledger).outcome else { return nil }
        return entry.version
    }

    /// The access to an entitlement as the server derives it: `granted`, or the reason of a denial.
    func access(to entitlement: String, of account: LedgerAccount? = nil) async -> String? {
        let access = await (account ?? alice).entitlements().members["access"] as? [String: [String: Any]]
        let one = access?[entitlement]
        return one?["granted"] as? Bool == true ? "granted" : one?["reason"] as? String
    }

    static func bought(_ product: String, _ transaction: String) -> [String: any Sendable] {
        ["kind": "reported", "product": product, "transaction": transaction]
    }

    static func spend(_ id: String) -> [String: any Sendable] { ["kind": "spend", "entitlement": "coin", "id": id] }
}

extension Reply {
    /// The results of a request that reports purchases.
    var reported: ReportingStage.Results {
        guard let results = members["results"] as? [[String: Any]] else { return ["status \(status)"] }
        return results.map { result in
            if let problem = result["problem"] as? [String: Any] { return problem["code"] as? String ?? "?" }
            let kinds = (result["facts"] as? [[String: Any]] ?? []).map { $0["kind"] as? String ?? "?" }
            let left = (result["remaining"] as? Int).map { ["\($0) left"] } ?? []
            return (kinds + left).joined(separator: ", ")
        }
    }

    /// The texts of the problems in the results; empty for a result without one.
    var details: [String] {
        (members["results"] as? [[String: Any]] ?? []).map {
            ($0["problem"] as? [String: Any])?["detail"] as? String ?? ""
        }
    }
}
