import Entitlements
import HTTPTypes
import ServiceTestSupport
import SyncCore
import Testing

@testable import SyncService

/// Acts of operators on the accounts of a stage.
struct ActStage {
    let stage: EvidenceStage
    /// Another server over the same store.
    let other: EntitlementService

    init(_ policy: TrustPolicy = .verified, _ ownership: ServiceConfiguration.Ownership = .keepWithFirst) async throws {
        stage = try await EvidenceStage(policy, ownership)
        other = try await EvidenceStage.open(stage.store, stage.clock, policy, ownership)
    }

    /// A stage where alice has a sale that no other account has.
    static func owned(_ sale: Sale) async throws -> ActStage {
        let acts = try await ActStage()
        try #require(try await acts.stage.send([sale], as: acts.stage.alice).results == ["2"])
        acts.stage.clock.advance(seconds: 60)
        return acts
    }

    /// Does an act at a server of the stage. Without a key, it is a dry run.
    @discardableResult
    func perform(
        _ kind: OperatorAct.Kind, _ account: String = "alice", members: [String: String] = [:], key: String?,
        reason: String = "ticket 7", at service: EntitlementService? = nil
    ) async throws -> ActOutcome {
        // The tests write numbers as texts.
        var values = members.mapValues { JSON.string($0) }
        if let level = members["level"].flatMap({ Int64($0) }) { values["level"] = .number(level) }
        let parameters = try ActParameters(values, known: kind.members)
        do {
            return try await OperatorActs(service ?? stage.service).perform(
                OperatorAct(kind, account: account, actor: "olga", reason: reason, parameters: parameters), key: key)
        } catch let error as SupportError {
            // As the routes do.
            throw RequestError(error)
        }
    }

    /// The audit list.
    func entries() async throws -> [AuditLog.Entry] { try await AuditLog(store: stage.store).entries() }

    /// All keys of the store, and their versions.
    func everything() async throws -> [KeyPage.Item] {
        try await stage.store.base.list(prefix: "", after: nil, limit: 10_000).outcome.items
    }

    /// The access of an account as its device gets it, in the form of an act's outcome.
    func access(of account: LedgerAccount) async throws -> JSON {
        let reply = await account.service.ask(.get, "/v1/entitlements", token: account.token)
        return try JSON(parsing: reply.body)["access"] ?? .null
    }
}

extension Sale {
    /// The members that name the sale in an act.
    var members: [String: String] { ["store": "app-store", "transaction": id] }
}
