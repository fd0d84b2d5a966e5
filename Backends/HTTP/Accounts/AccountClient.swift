import HTTPTypes
public import SyncCore
public import SyncProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Accounts of a server that speaks the wire `/v1`: signs up, logs in and out, recovers and erases.
///
/// One request a call; nothing is repeated here but a request whose credential was refused, once, with a new one.
/// It keeps nothing. Who wants to stay logged in gives what it answers to ``SessionTokens``.
///
/// ```swift
/// let client = try AccountClient(server: "https://sync.example.com", transport: transport)
/// let tokens = SessionTokens(client, store: keychain)
/// try await tokens.begin(try await client.logIn("alice", password: password))
/// let remote = try HTTPBackend(server: client.server, transport: transport) { refused in
///     try await tokens.token(refused: refused)
/// }
/// ```
public struct AccountClient: Sendable {
    /// The server's address.
    public let server: String
    private let address: ServerAddress
    private let transport: any HTTPTransport
    private let timeout: Duration
    private let host: HostServices

    /// A client of the server at `server`.
    ///
    /// - Parameters:
    ///   - server: `https://HOST[:PORT][/PATH]`.
    ///   - transport: what carries the requests.
    ///   - timeout: how long a request may take; hashing a password may take a second.
    ///   - host: the randomness of the names that requests have.
    /// - Throws: ``AccountError`` of kind `invalid` where `server` is no such address.
    public init(
        server: String, transport: any HTTPTransport, timeout: Duration = .seconds(30), host: HostServices = .system
    ) throws(AccountError) {
        do throws(BackendError) { address = try ServerAddress(server) } catch {
            throw AccountError(.invalid, error.message)
        }
        (self.server, self.transport, self.timeout, self.host) = (server, transport, timeout, host)
    }

    /// What signing up gave.
    public struct SignUp: Sendable {
        /// The first session.
        public var session: ServerSession
        /// Each of them gives the account another password, once: for whoever loses his. `nil` where the account was
        /// there already, made with this very password: by another device, or by a request whose answer was lost.
        public var recoveryCodes: [String]?
    }

    /// Makes the account `name`. Where it is there already and has this password, logs in: two devices that sign up at
    /// once are one account.
    ///
    /// - Throws: ``AccountError`` of kind `nameTaken`, `invalid` (name or password), `notAllowed` (the server makes no
    ///   accounts), `tooManyGuesses`, `unreachable` or `server`.
    public func signUp(_ name: String, password: String) async throws(AccountError) -> SignUp {
        let body: SessionBody = try await answer(
            .post, "/v1/accounts", ["name": .text(name), "password": .text(password)])
        return SignUp(session: body.session, recoveryCodes: body.recoveryCodes)
    }

    /// Begins a session of the account `name`.
    ///
    /// - Throws: ``AccountError`` of kind `invalidCredentials`, `tooManyGuesses`, `unreachable` or `server`.
    public func logIn(_ name: String, password: String) async throws(AccountError) -> ServerSession {
        try await session([
            "grant_type": .text("password"), "username": .text(name), "password": .text(password),
        ])
    }

    /// The next access token and refresh token of a session. For a minute the same refresh token gives the same answer
    /// again, which may have been lost; later it ends the session.
    ///
    /// - Throws: ``AccountError`` of kind `sessionOver`, `unreachable` or `server`.
    public func refresh(_ refreshToken: String) async throws(AccountError) -> ServerSession {
        try await session(
            ["grant_type": .text("refresh_token"), "refresh_token": .text(refreshToken)], invalidGrant: .sessionOver)
    }

    /// Gives the account another password, by one of its recovery codes, all of which are used up then. All its
    /// sessions end, and a new one begins. ``renewRecoveryCodes(password:token:)`` gives new codes.
    ///
    /// - Throws: ``AccountError`` of kind `invalidCredentials`, `invalid` (the new password), `tooManyGuesses`,
    ///   `unreachable` or `server`.
    public func recover(
        _ name: String, code: String, newPassword: String
    ) async throws(AccountError) -> ServerSession {
        try await session([
            "grant_type": .text("urn:entitlementsync:recovery-code"), "username": .text(name),
            "recovery_code": .text(code), "new_password": .text(newPassword),
        ])
    }

    /// Ends the session.
    ///
    /// - Parameters:
    ///   - everywhere: all of the account's sessions.
    ///   - token: the session's access token.
    /// - Throws: ``AccountError`` of kind `sessionOver`, `unreachable` or `server`.
    public func logOut(everywhere: Bool = false, token: @escaping HTTPBackend.Token) async throws(AccountError) {
        _ = try await exchange(.delete, "/v1/sessions" + (everywhere ? "?everywhere=true" : ""), token: token)
    }

    /// Another password. All other sessions of the account end, and its recovery codes count nothing any more:
    /// ``renewRecoveryCodes(password:token:)`` gives new ones.
    ///
    /// - Parameters:
    ///   - password: the old one.
    ///   - newPassword: the new one, 8 to 1,024 bytes.
    ///   - token: an access token of the account.
    /// - Throws: ``AccountError`` of kind `invalidCredentials`, `invalid`, `tooManyGuesses`, `sessionOver`,
    ///   `notAllowed` (the account was erased, or another issuer's), `unreachable` or `server`.
    public func changePassword(
        from password: String, to newPassword: String, token: @escaping HTTPBackend.Token
    ) async throws(AccountError) {
        _ = try await exchange(
            .put, "/v1/accounts/self/password",
            ["password": .text(password), "new_password": .text(newPassword)], token: token)
    }

    /// New recovery codes. The old ones count nothing any more.
    ///
    /// - Parameters:
    ///   - password: the account's.
    ///   - token: an access token of the account.
    /// - Throws: as ``changePassword(from:to:token:)``.
    public func renewRecoveryCodes(
        password: String, token: @escaping HTTPBackend.Token
    ) async throws(AccountError) -> [String] {
        struct Body: Decodable { var recoveryCodes: [String] }
        let body: Body = try await answer(
            .post, "/v1/accounts/self/recovery-codes", ["password": .text(password)], token: token)
        return body.recoveryCodes
    }

    /// Erases the account for good: what it bought is gone, on all devices, as each of them syncs. The session reads
    /// the marker that remains, and nothing else.
    ///
    /// - Parameters:
    ///   - password: the account's.
    ///   - token: an access token of the account.
    /// - Throws: as ``changePassword(from:to:token:)``.
    public func erase(password: String, token: @escaping HTTPBackend.Token) async throws(AccountError) {
        _ = try await exchange(
            .post, "/v1/accounts/self/erasure", ["password": .text(password)], token: token)
    }

    /// The account that a session is of.
    ///
    /// - Parameter token: an access token of the account.
    /// - Throws: ``AccountError`` of kind `sessionOver`, `unreachable` or `server`.
    public func ownAccount(token: @escaping HTTPBackend.Token) async throws(AccountError) -> ServerAccount {
        try await answer(.get, "/v1/accounts/self", nil, token: token)
    }
}

/// An account as a server tells of it.
public struct ServerAccount: Hashable, Sendable, Codable {
    /// The account's name.
    public var name: String
    /// Which life of the account.
    public var incarnation: String
    /// When this life began (RFC 3339); `nil` of one that was erased.
    public var created: String?
}

extension AccountClient {
    /// A member of a body.
    enum Member: Encodable {
        case text(String)
        case flag(Bool)

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            switch self {
            case .text(let text): try container.encode(text)
            case .flag(let flag): try container.encode(flag)
            }
        }
    }

    func session(
        _ members: [String: Member], invalidGrant: AccountError.Kind = .invalidCredentials
    ) async throws(AccountError) -> ServerSession {
        let body: SessionBody = try await answer(.post, "/v1/sessions", members, invalidGrant: invalidGrant)
        return body.session
    }

    func answer<Body: Decodable>(
        _ method: HTTPRequest.Method, _ path: String, _ members: [String: Member]?, token: HTTPBackend.Token? = nil,
        invalidGrant: AccountError.Kind = .invalidCredentials
    ) async throws(AccountError) -> Body {
        let answer = try await exchange(method, path, members, token: token, invalidGrant: invalidGrant)
        guard let body = try? JSONDecoder.wire.decode(Body.self, from: Data(answer.body)) else {
            throw AccountError(
                .server,
                "\(server): the answer (\(answer.response.status.code)) is none of ours; is this the right server?",
                mayHaveHappened: method != .get)
        }
        return body
    }

    /// Sends a request, and once more with a new credential where the first was refused.
    func exchange(
        _ method: HTTPRequest.Method, _ path: String, _ members: [String: Member]? = nil,
        token: HTTPBackend.Token? = nil, invalidGrant: AccountError.Kind = .invalidCredentials
    ) async throws(AccountError) -> TransportAnswer {
        var fields: HTTPFields = [.accept: "application/json"]
        var body: [UInt8] = []
        if let members {
            fields[.contentType] = "application/json"
            do { body = Array(try JSONEncoder().encode(members)) } catch {
                throw AccountError(.invalid, "this cannot be sent as JSON: \(error)")
            }
        }
        var refused: String?
        while true {
            let credential = try await credential(from: token, refused: refused)
            let request = address.request(method, path, fields, token: credential)
            let answer: TransportAnswer
            do throws(TransportError) {
                answer = try await transport.exchange(
                    request, body: body, timeout: timeout, maximumByteCount: 1 << 20, id: host.randomBits())
            } catch {
                throw AccountError(error, server: server)
            }
            if (200..<300).contains(answer.response.status.code) { return answer }
            // Whoever is refused has done nothing.
            guard answer.response.status == .unauthorized, let credential, refused == nil else {
                throw AccountError(answer, invalidGrant: invalidGrant, server: server)
            }
            refused = credential
        }
    }

    private func credential(
        from token: HTTPBackend.Token?, refused: String?
    ) async throws(AccountError) -> String? {
        guard let token else { return nil }
        do throws(BackendError) { return try await token(refused) } catch {
            if let error = error.cause as? AccountError { throw error }
            throw AccountError(
                error.disposition == .transient ? .unreachable : .sessionOver, error.message,
                retryAfter: error.retryAfter)
        }
    }
}
