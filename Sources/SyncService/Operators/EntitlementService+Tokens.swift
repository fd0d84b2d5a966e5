import Entitlements
import HTTPTypes
import SyncCore
import SyncProtocol

extension EntitlementService {
    static let tokenRoutes: [Route<Endpoint>] = [
        Route(.get, "/v1/tokens", .operator(.admin, EntitlementService.listTokens), query: []),
        Route(.post, "/v1/tokens", .operator(.admin, EntitlementService.createToken), query: []),
        Route(.delete, "/v1/tokens/{token}", .operator(.admin, EntitlementService.revokeToken), query: []),
    ]

    private var operatorTokens: OperatorTokens { OperatorTokens(store, host: host) }

    private func listTokens(_ call: Call, for caller: OperatorCaller) async throws -> ServiceResponse {
        .json([("tokens", .array(try await operatorTokens.all().map(\.json)))])
    }

    /// Creates a token, whose text is in this response only.
    private func createToken(_ call: Call, by caller: OperatorCaller) async throws -> ServiceResponse {
        let members = try call.members()
        let (name, scope) = (try members.text("name"), try OperatorScope(named: try members.text("scope")))
        // A member of another type must not make a token that never expires.
        for name in ["until", "for"] where members.names.contains(name) { _ = try members.text(name) }
        let expires = try Self.end(
            until: members.optionalText("until"), for: members.optionalText("for"),
            now: Timestamp(milliseconds: host.now()))
        let made = try await operatorTokens.create(name, scope: scope, expires: expires?.milliseconds, by: caller.name)
        return .json([("token", .string(made.text))] + made.record.members, status: .created)
    }

    private func revokeToken(_ call: Call, by caller: OperatorCaller) async throws -> ServiceResponse {
        let revoked = try await operatorTokens.revoke(call.target.parameters["token"] ?? "", by: caller.name)
        for record in revoked { authenticator.forget(operatorToken: record.id) }
        hub.wakeUp()
        return .json([("tokens", .array(revoked.map(\.json)))])
    }

    /// The instant that a request names as a date, or as a duration from now; `nil` for neither.
    static func end(
        until date: String?, for duration: String?, now: Timestamp
    ) throws(RequestError) -> Timestamp? {
        guard date == nil || duration == nil else {
            throw RequestError(.badRequest, "send either \"until\" or \"for\"")
        }
        if let date {
            do throws(TimestampError) { return try Timestamp(date) } catch {
                throw RequestError(.badRequest, "until: \(error)")
            }
        }
        guard let duration else { return nil }
        do throws(DurationError) { return now.adding(try CalendarDuration(duration)) } catch {
            throw RequestError(.badRequest, "for: \(error)")
        }
    }
}

extension OperatorTokens.Record {
    /// The members of the token in responses and in the output of commands. The secret is not one of them.
    var members: [(String, JSON)] {
        [
            ("id", .string(id)), ("name", .string(name)), ("scope", .string(scope)), ("created", .instant(created)),
            ("expires", .instant(expires)), ("revoked", .instant(revoked)),
        ]
    }

    var json: JSON { .object(members) }
}
