import EntitlementSync
import Entitlements
import HTTPTypes
import StoreEvidence
import SyncCore

// External ids are an operator's: an account that could choose its own would be taken for another user of the app.
extension EntitlementService {
    static let externalRoutes: [Route<Endpoint>] = [
        Route(
            .put, "/v1/customers/{account}/external-id", .operator(.support, EntitlementService.attachExternalID),
            query: []),
        Route(
            .delete, "/v1/customers/{account}/external-id", .operator(.support, EntitlementService.detachExternalID),
            query: []),
    ]

    var externalIDs: ExternalIDs { ExternalIDs(records: accounts.records, host: host) }

    private func attachExternalID(_ call: Call, by caller: OperatorCaller) async throws -> ServiceResponse {
        let members = try call.members()
        let (id, reason) = (try members.text("externalId"), try Self.reason(in: members))
        if let objection = ExternalIDs.objection(to: id) { throw RequestError(.badRequest, objection) }
        let account = try await customer(call.target.name ?? "")
        let known = try await externalIDs.ids(of: [account])[account]
        if known?.utf8.elementsEqual(id.utf8) != true {
            try await externalIDs.checkIsFree(id, for: account)
            try await audit("attached", id, to: account, reason, by: caller) {
                try await externalIDs.attach(id, to: account)
            }
        }
        return .json([("account", .string("\(account)")), ("externalId", .string(id))])
    }

    private func detachExternalID(_ call: Call, by caller: OperatorCaller) async throws -> ServiceResponse {
        let reason = try Self.reason(in: try call.members())
        let account = try await customer(call.target.name ?? "")
        if let id = try await externalIDs.ids(of: [account])[account] {
            try await audit("detached", id, to: account, reason, by: caller) {
                _ = try await externalIDs.detach(account)
            }
        }
        return .done
    }

    /// Appends the entry of an act to the audit list, and then performs the act.
    ///
    /// The entry has a digest of the id, because it outlives an erasure.
    private func audit(
        _ verb: String, _ id: String, to account: Account, _ reason: String, by caller: OperatorCaller,
        _ act: () async throws -> Void
    ) async throws {
        let log = AuditLog(store: store)
        var entry = AuditLog.Entry(
            date: "\(Timestamp(milliseconds: host.now()))", act: "external-id", account: account.name ?? "",
            actor: caller.name, detail: "\(verb) sha256:\(hexadecimalDigest(of: id).prefix(16))")
        entry.reason = reason
        let number = try await log.append(entry).number
        do { try await act() } catch {
            let cause = (error as? RequestError)?.detail ?? "\(error)"
            (entry.act, entry.detail, entry.reason) = ("failed", "entry \(number) was not completed: \(cause)", nil)
            try await log.append(entry)
            throw error
        }
    }

    private static func reason(in members: RequestFields) throws(RequestError) -> String {
        let reason = try members.text("reason")
        guard (1...1_000).contains(reason.utf8.count), !reason.allSatisfy(\.isWhitespace) else {
            throw RequestError(.badRequest, "reason must be a text of 1 to 1,000 bytes")
        }
        return reason.singleLine(atMost: 1_000)
    }
}
