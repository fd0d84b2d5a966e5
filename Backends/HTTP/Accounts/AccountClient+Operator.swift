import HTTPTypes
import SyncProtocol

extension AccountClient {
    /// The accounts of a server, a page.
    public struct AccountPage: Hashable, Sendable, Decodable {
        /// In the order of their names.
        public var accounts: [ServerAccount]
        /// Pass as `after` for the next page; `nil` when this was the last.
        public var next: String?
    }

    /// The accounts of the server.
    ///
    /// - Parameters:
    ///   - name: where to go on, the ``AccountPage/next`` of the page before.
    ///   - limit: at most so many, 1 to 1,000.
    ///   - token: the operator's.
    /// - Throws: ``AccountError`` of kind `notAllowed`, `sessionOver` (it is no operator's token), `unreachable` or
    ///   `server`.
    public func accounts(
        after name: String? = nil, limit: Int = 1_000, token: @escaping HTTPBackend.Token
    ) async throws(AccountError) -> AccountPage {
        let after = name.map { "&after=" + WireQuery.encoded($0) } ?? ""
        return try await answer(.get, "/v1/accounts?limit=\(limit)" + after, nil, token: token)
    }

    /// Gives an account one more recovery code, for an owner who has lost password and codes.
    ///
    /// - Parameters:
    ///   - name: the account's.
    ///   - token: the operator's.
    /// - Throws: ``AccountError`` of kind `unknown`, `notAllowed`, `sessionOver`, `unreachable` or `server`.
    public func addRecoveryCode(
        to name: String, token: @escaping HTTPBackend.Token
    ) async throws(AccountError) -> String {
        struct Body: Decodable { var recoveryCode: String }
        let body: Body = try await answer(
            .post, "/v1/accounts/\(Self.segment(name))/recovery-code", nil, token: token)
        return body.recoveryCode
    }

    /// Erases an account for good, as its owner could.
    ///
    /// - Parameters:
    ///   - name: the account's.
    ///   - token: the operator's.
    /// - Throws: as ``addRecoveryCode(to:token:)``.
    public func erase(_ name: String, asOperator token: @escaping HTTPBackend.Token) async throws(AccountError) {
        _ = try await exchange(.post, "/v1/accounts/\(Self.segment(name))/erasure", token: token)
    }

    /// A name as one part of a path: slashes and dots between two slashes would mean something else.
    private static func segment(_ name: String) -> String {
        let isOnlyDots = name.utf8.allSatisfy { $0 == UInt8(ascii: ".") }
        let text = WireQuery.encoded(name).replacing("/", with: "%2F")
        return isOnlyDots ? text.replacing(".", with: "%2E") : text
    }
}
