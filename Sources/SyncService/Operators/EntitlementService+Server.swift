import Entitlements
import HTTPTypes
import SyncCore

extension EntitlementService {
    static let serverRoutes: [Route<Endpoint>] = [
        Route(.get, "/v1/server", .operator(.read, EntitlementService.describeServer), query: [])
    ]

    /// The response to `GET /v1/server`: what the server does, and what the token of the request may do.
    private func describeServer(_ call: Call, for caller: OperatorCaller) async throws -> ServiceResponse {
        let progress = projection
        return .json([
            ("name", .string(configuration.name)), ("version", .string(configuration.version)),
            ("at", .instant(host.now())), ("policy", .string(configuration.policy.rawValue)),
            ("catalog", .bool(configuration.catalog != nil)),
            (
                "projection",
                progress.map { progress in
                    .object([
                        ("projected", .instant(projector?.state?.projected)),
                        ("lag", progress.lag.map(JSON.number) ?? .null), ("rebuilding", .bool(progress.isRebuilding)),
                    ])
                } ?? .null
            ),
            ("webhooks", .bool(webhooks?.endpoints != nil)),
            ("parkedBytes", .number(Int64(recorder.parked.byteCount))),
            (
                "caller",
                .object([
                    ("name", .string(caller.name)), ("scope", .string(caller.scope.rawValue)),
                    ("expires", .instant(caller.expires == .max ? nil : caller.expires)),
                ])
            ),
        ])
    }
}
