import Entitlements
import HTTPTypes

/// The rights of an operator's token. Each scope includes those before it.
package enum OperatorScope: String, Hashable, Sendable, CaseIterable, Comparable {
    /// Reads customers, statistics and events.
    case read
    /// Also acts for customers: grants, refunds, transfers, recovery, erasure.
    case support
    /// Also manages tokens, and reads and writes all keys but the server's own.
    case admin

    package static func < (left: OperatorScope, right: OperatorScope) -> Bool {
        guard let left = allCases.firstIndex(of: left), let right = allCases.firstIndex(of: right) else { return false }
        return left < right
    }

    /// The scope called `name`.
    ///
    /// - Throws: ``RequestError`` for an unknown name.
    init(named name: String) throws(RequestError) {
        guard let scope = OperatorScope(rawValue: name) else {
            let known = Self.allCases.map(\.rawValue).joined(separator: ", ")
            throw RequestError(.badRequest, "scope must be one of \(known), not \"\(name.singleLine)\"")
        }
        self = scope
    }
}

/// The operator of the server, or a program that acts for the operator.
package struct OperatorCaller: Hashable, Sendable {
    /// The name of the token, for logs and the audit list: `operator` for the configured token.
    package var name: String
    package var scope: OperatorScope
    /// The id of the token; `nil` for the configured token.
    var token: String?
    /// The end of the token's validity, in milliseconds since 1970 UTC.
    var expires = Int64.max

    /// The operator with the configured token, who may do everything.
    package static let configured = OperatorCaller(name: "operator", scope: .admin)

    /// The token whose end closes the caller's streams.
    var origin: ChangeHub.Origin? { token.map(ChangeHub.Origin.token) }

    /// - Throws: ``RequestError`` if the token's scope is less than `needed`.
    func require(_ needed: OperatorScope) throws(RequestError) {
        guard scope >= needed else {
            throw RequestError(
                .forbidden,
                "this needs a token with the scope \"\(needed.rawValue)\"; the scope of \"\(name.singleLine)\" is "
                    + "\"\(scope.rawValue)\"")
        }
    }
}
