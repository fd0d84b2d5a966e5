import HTTPTypes
import SyncProtocol

extension AccountClient {
    /// A page of the accounts of a server.
    public struct AccountPage: Hashable, Sendable, Decodable {
        /// The accounts in the order of their names.
        public var accounts: [ServerAccount]
        /// The value of `after` for the next page; `nil` on the last page.
        public var next: String?
    }

    /// Lists the accounts of the server.
    ///
    /// - Parameters:
    ///   - name: the ``AccountPage/next`` of the previous page.
    ///   - limit: the maximum number of accounts, 1 to 1,000.
    ///   - token: the operator's token.
    /// - Throws: ``AccountError`` of kind `notAllowed`, `sessionOver` (not the operator's token), `unreachable` or
    ///   `server`.
    public func accounts(
        after name: String? = nil, limit: Int = 1_000, token: @escaping HTTPBackend.Token
    ) async throws(AccountError) -> AccountPage {
        let after = name.map { "&after=" + WireQuery.encoded($0) } ?? ""
        return try await answer(.get, "/v1/accounts?limit=\(limit)" + after, nil, token: token)
    }

    /// Creates one more recovery code for an account whose owner has lost the password and all codes.
    ///
    /// - Parameters:
    ///   - name: the name of the account.
    ///   - token: the operator's token.
    /// - Returns: The code, and the account's own name, of which `name` may be another spelling.
    /// - Throws: ``AccountError`` of kind `unknown`, `notAllowed`, `sessionOver`, `unreachable` or `server`.
    public func addRecoveryCode(
        to name: String, token: @escaping HTTPBackend.Token
    ) async throws(AccountError) -> (code: String, account: String) {
        struct Body: Decodable {
            var recoveryCode: String
            /// `nil` from a server of an earlier version.
            var account: String?
        }
        let body: Body = try await answer(
            .post, "/v1/accounts/\(Self.segment(name))/recovery-code", nil, token: token)
        return (body.recoveryCode, body.account ?? name)
    }

    /// Erases an account permanently, as its owner could.
    ///
    /// - Parameters:
    ///   - name: the name of the account.
    ///   - token: the operator's token.
    /// - Throws: as ``addRecoveryCode(to:token:)``.
    public func erase(_ name: String, asOperator token: @escaping HTTPBackend.Token) async throws(AccountError) {
        _ = try await exchange(.post, "/v1/accounts/\(Self.segment(name))/erasure", token: token)
    }

    /// A token of the operator.
    package struct OperatorToken: Hashable, Sendable, Decodable {
        /// The id.
        package var id: String
        /// The name.
        package var name: String
        /// The scope: `read`, `support` or `admin`.
        package var scope: String
        /// The date of its creation (RFC 3339).
        package var created: String
        /// The end of its validity (RFC 3339); `nil` for none.
        package var expires: String?
        /// The date of its revocation (RFC 3339); `nil` if it was not revoked.
        package var revoked: String?
        /// The text of the token. Only the server's answer to its creation has it.
        package var token: String?
    }

    private struct OperatorTokenList: Decodable { var tokens: [OperatorToken] }

    /// Creates a token for a person or a program.
    ///
    /// - Parameters:
    ///   - name: the name of the token in logs.
    ///   - scope: `read`, `support` or `admin`.
    ///   - end: the end of its validity, as a date (RFC 3339); `nil` for none.
    ///   - duration: the time of its validity from now, in ISO 8601, instead of `end`.
    ///   - token: a token of the operator with the scope `admin`.
    /// - Throws: ``AccountError`` of kind `invalid`, `notAllowed`, `sessionOver`, `unreachable` or `server`.
    package func createOperatorToken(
        _ name: String, scope: String, until end: String? = nil, for duration: String? = nil,
        token: @escaping HTTPBackend.Token
    ) async throws(AccountError) -> OperatorToken {
        var members: [String: Member] = ["name": .text(name), "scope": .text(scope)]
        members["until"] = end.map(Member.text)
        members["for"] = duration.map(Member.text)
        return try await answer(.post, "/v1/tokens", members, token: token)
    }

    /// Lists the operator's tokens in the order of their creation.
    ///
    /// - Parameter token: a token of the operator with the scope `admin`.
    /// - Throws: ``AccountError`` of kind `notAllowed`, `sessionOver`, `unreachable` or `server`.
    package func operatorTokens(token: @escaping HTTPBackend.Token) async throws(AccountError) -> [OperatorToken] {
        let list: OperatorTokenList = try await answer(.get, "/v1/tokens", nil, token: token)
        return list.tokens
    }

    /// Revokes a token.
    ///
    /// - Parameters:
    ///   - nameOrID: the id of the token, or its name, which stands for all tokens with the name.
    ///   - token: a token of the operator with the scope `admin`.
    /// - Returns: The revoked tokens.
    /// - Throws: ``AccountError`` of kind `unknown`, `notAllowed`, `sessionOver`, `unreachable` or `server`.
    package func revokeOperatorToken(
        _ nameOrID: String, token: @escaping HTTPBackend.Token
    ) async throws(AccountError) -> [OperatorToken] {
        let list: OperatorTokenList = try await answer(
            .delete, "/v1/tokens/\(Self.segment(nameOrID))", nil, token: token)
        return list.tokens
    }

    /// Describes the webhooks of the server and their dead letters, in JSON.
    ///
    /// - Parameter token: the operator's token.
    /// - Throws: ``AccountError`` of kind `notAllowed`, `sessionOver`, `unreachable` or `server`.
    package func webhooks(token: @escaping HTTPBackend.Token) async throws(AccountError) -> [UInt8] {
        try await exchange(.get, "/v1/webhooks", token: token).body
    }

    /// Sends events to a webhook again, and returns their number in JSON.
    ///
    /// - Parameters:
    ///   - name: the name of the webhook.
    ///   - event: the id of an event; `nil` for all dead letters.
    ///   - token: the operator's token.
    /// - Throws: ``AccountError`` of kind `unknown`, `notAllowed`, `sessionOver`, `unreachable` or `server`.
    package func sendAgain(
        to name: String, event: String?, token: @escaping HTTPBackend.Token
    ) async throws(AccountError) -> [UInt8] {
        let members: [String: Member] = event.map { ["event": .text($0)] } ?? ["deadLetters": .flag(true)]
        return try await exchange(
            .post, "/v1/webhooks/\(Self.segment(name))/deliveries", members, token: token
        ).body
    }

    /// Sends a test event to a webhook, and returns the result in JSON.
    ///
    /// - Parameters:
    ///   - name: the name of the webhook.
    ///   - token: the operator's token.
    /// - Throws: as ``sendAgain(to:event:token:)``.
    package func testWebhook(
        _ name: String, token: @escaping HTTPBackend.Token
    ) async throws(AccountError) -> [UInt8] {
        try await exchange(.post, "/v1/webhooks/\(Self.segment(name))/test", token: token).body
    }

    /// Acts for a customer, or tries what the act would do.
    ///
    /// - Parameters:
    ///   - part: the last part of the path, for example `grants`; `sessions` ends sessions.
    ///   - account: the customer.
    ///   - members: the body.
    ///   - key: the idempotency key; `nil` for a dry run.
    ///   - token: a token of the operator.
    /// - Returns: The JSON of the answer.
    /// - Throws: as ``addRecoveryCode(to:token:)``.
    package func act(
        _ part: String, on account: String, _ members: [String: Member], key: String?,
        token: @escaping HTTPBackend.Token
    ) async throws(AccountError) -> [UInt8] {
        var fields: HTTPFields = [:]
        if let key, let name = HTTPField.Name(WireFields.idempotencyKey) { fields[name] = key }
        let path = "/v1/customers/\(Self.segment(account))/\(part)" + (key == nil ? "?dry-run=true" : "")
        return try await exchange(
            part == "sessions" ? .delete : .post, path, members, condition: fields, token: token
        ).body
    }

    /// Reads the ledgers of a customer as the server keeps them.
    ///
    /// - Returns: The JSON of the answer.
    package func ledgers(
        of account: String, token: @escaping HTTPBackend.Token
    ) async throws(AccountError) -> [UInt8] {
        try await exchange(.get, "/v1/customers/\(Self.segment(account))/ledgers", token: token).body
    }

    /// Encodes a name as a single path segment, because slashes and dot segments have a meaning in paths.
    private static func segment(_ name: String) -> String {
        let isOnlyDots = name.utf8.allSatisfy { $0 == UInt8(ascii: ".") }
        let text = WireQuery.encoded(name).replacing("/", with: "%2F")
        return isOnlyDots ? text.replacing(".", with: "%2E") : text
    }
}
