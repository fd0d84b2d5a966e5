import Entitlements
import HTTPTypes
import SyncCore
import SyncProtocol

extension EntitlementService {
    static let webhookRoutes: [Route<Endpoint>] = [
        Route(.get, "/v1/webhooks", .operator(.read, EntitlementService.listWebhooks), query: []),
        Route(
            .post, "/v1/webhooks/{webhook}/deliveries", .operator(.support, EntitlementService.sendAgain), query: []),
        Route(.post, "/v1/webhooks/{webhook}/test", .operator(.admin, EntitlementService.testWebhook), query: []),
    ]

    /// The figures about webhooks; empty without them.
    package var webhookProgress: [WebhookSender.Progress] { webhooks?.progress ?? [] }

    private func configuredWebhooks() throws(RequestError) -> (sender: WebhookSender, endpoints: [WebhookEndpoint]) {
        guard let webhooks, let endpoints = webhooks.endpoints else {
            throw RequestError(.conflict, "this server has no webhooks: start it with --projection and --webhooks FILE")
        }
        return (webhooks, endpoints)
    }

    private func webhook(
        _ call: Call
    ) throws(RequestError) -> (sender: WebhookSender, endpoint: WebhookEndpoint) {
        let (sender, endpoints) = try configuredWebhooks()
        guard let endpoint = endpoints.first(where: { $0.name == call.target.parameters["webhook"] }) else {
            throw RequestError(.notFound, "there is no webhook of this name in the file of --webhooks")
        }
        return (sender, endpoint)
    }

    /// The response to `GET /v1/webhooks`.
    func listWebhooks(_ call: Call, _ caller: OperatorCaller) async throws -> ServiceResponse {
        let (sender, endpoints) = try configuredWebhooks()
        let reports = Dictionary(try await sender.tables.reports().map { ($0.name, $0) }) { $1 }
        let letters = try await sender.tables.deadLetters().filter { letter in
            endpoints.contains { $0.name == letter.webhook }
        }
        return .json([
            ("webhooks", .array(endpoints.map { $0.json(reports[$0.name]) })),
            ("deadLetters", .array(letters.map(\.json))),
        ])
    }

    /// The response to `POST /v1/webhooks/{webhook}/deliveries`.
    func sendAgain(_ call: Call, _ caller: OperatorCaller) async throws -> ServiceResponse {
        let (sender, endpoint) = try webhook(call)
        let members = try call.members()
        let isAll = try members.optionalFlag("deadLetters") ?? false
        let event = members.optionalText("event")
        guard isAll != (event != nil) else {
            throw RequestError(.badRequest, "the body must be {\"deadLetters\": true} or {\"event\": \"ID\"}")
        }
        let number = event.flatMap { StoredEvent.number($0) }
        guard isAll || number != nil else {
            throw RequestError(.badRequest, "the id of an event begins with evt_ and a number")
        }
        guard let count = try await sender.tables.sendAgain(number, to: endpoint.name, at: host.now()) else {
            throw RequestError(.notFound, "there is no such event; events are kept for 30 days")
        }
        return .json([("events", .number(Int64(count)))], status: .accepted)
    }

    /// The response to `POST /v1/webhooks/{webhook}/test`.
    func testWebhook(_ call: Call, _ caller: OperatorCaller) async throws -> ServiceResponse {
        let (sender, endpoint) = try webhook(call)
        let id = "test_\(String(host.randomBits(), radix: 16))"
        let body: JSON = .object([
            ("type", .string("webhook.test")), ("timestamp", .string("\(Timestamp(milliseconds: host.now()))")),
            ("webhook", .string(endpoint.name)),
        ])
        let result: DeliveryResult
        do throws(TransportError) {
            result = try await sender.send(WebhookMessage(id: id, body: Array(body.line.utf8)), to: endpoint)
        } catch {
            throw BackendError.cancelled(.write)
        }
        let reason: String? =
            switch result {
            case .delivered: nil
            case .failed(let reason, _), .refused(let reason): reason
            }
        return .json([("id", .string(id)), ("delivered", .bool(reason == nil)), ("error", JSON(reason))])
    }
}

extension WebhookEndpoint {
    /// The state of the endpoint, without secrets. The path of a URL may be one.
    fileprivate func json(_ report: WebhookTables.Report?) -> JSON {
        .object([
            ("name", .string(name)), ("url", .string(origin)),
            ("events", events.map { .array($0.map(JSON.string)) } ?? .null),
            ("state", .string(report.map { $0.failures == 0 ? "healthy" : "failing" } ?? "new")),
            ("delivered", .number(report?.delivered ?? 0)), ("failed", .number(report?.failed ?? 0)),
            ("pending", .number(report?.pending ?? 0)), ("deadLetters", .number(report?.dead ?? 0)),
            ("oldest", .instant(report?.oldest)), ("lastDelivery", .instant(report?.lastDelivery)),
            ("lastFailure", .instant(report?.lastFailure)), ("error", JSON(report?.error)),
        ])
    }
}

extension WebhookTables.DeadLetter {
    fileprivate var json: JSON {
        .object([
            ("webhook", .string(webhook)), ("id", .string(event.webhookID)), ("type", .string(event.kind)),
            ("account", .string(event.account)), ("timestamp", .instant(event.at)), ("attempts", .number(attempts)),
            ("died", .instant(died)), ("error", JSON(error)),
        ])
    }
}
