import EntitlementSync
import Entitlements
import HTTPTypes
import SyncCore
import SyncProtocol

// Acts of operators, and the documents that the command line reads.
extension EntitlementService {
    static let actRoutes: [Route<Endpoint>] = [
        Route(.post, path("grants"), .operator(.support, handler(.grant)), query: ["dry-run"]),
        Route(.post, path("refunds"), .operator(.support, handler(.refund)), query: ["dry-run"]),
        Route(.post, path("transfers"), .operator(.support, handler(.transfer)), query: ["dry-run"]),
        Route(.post, path("recovery"), .operator(.support, handler(.recovery)), query: ["dry-run"]),
        Route(.post, path("erasure"), .operator(.support, handler(.erasure)), query: ["dry-run"], isErasure: true),
        Route(.delete, path("sessions"), .operator(.support, handler(.sessions)), query: ["dry-run", "session"]),
        Route(.get, path("ledgers"), .operator(.read, EntitlementService.ledgers), query: []),
    ]

    private static func path(_ part: String) -> String { "/v1/customers/{account}/" + part }

    private static func handler(_ kind: OperatorAct.Kind) -> Endpoint.ForOperator {
        { service in { try await service.act(kind, $0, by: $1) } }
    }

    private func act(_ kind: OperatorAct.Kind, _ call: Call, by caller: OperatorCaller) async throws -> ServiceResponse
    {
        let isDryRun = try call.query.flag("dry-run") ?? false
        let key = HTTPField.Name(WireFields.idempotencyKey).flatMap { call.fields[$0] }
        guard isDryRun || key != nil else {
            throw RequestError(
                .badRequest,
                "the header Idempotency-Key is required: a new UUID for each act, and the same one for a repetition")
        }
        var members: [String: JSON] = [:]
        if !call.request.body.isEmpty {
            try call.fields.checkJSON()
            do throws(InputError) { members = try JSON(parsing: call.request.body).members ?? [:] } catch {
                throw RequestError(.badRequest, "the body must be a JSON object: \(error)")
            }
        }
        if let session = call.query["session"] { members["session"] = .string(session) }
        let act = try OperatorAct(kind, on: call.target.name ?? "", members, by: caller)
        do {
            let outcome = try await OperatorActs(self).perform(act, key: isDryRun ? nil : key)
            return .json(Array(outcome.json.text().utf8))
        } catch let error as SupportError {
            throw RequestError(error)
        }
    }

    /// The two ledgers of a customer as they are stored, for programs that replay them. They contain no secret.
    private func ledgers(_ call: Call, by caller: OperatorCaller) async throws -> ServiceResponse {
        let account = try await OperatorActs(self).account(named: call.target.name ?? "")
        let entries = try await store.ledgerEntries(try LedgerKeys(account))
        func text(_ entry: Entry?) -> JSON { JSON(entry.map { Base64.standard.encode($0.value) }) }
        let json = JSON.object([
            ("account", .string(account.name ?? "")), ("incarnation", .string(account.incarnation)),
            ("policy", .string(configuration.policy.rawValue)), ("ledger", text(entries.ledger)),
            ("serverLedger", text(entries.serverLedger)),
        ])
        return try call.response(Array(json.text().utf8), to: caller)
    }
}
