import HTTPTypes
public import SyncCore
public import SyncProtocol

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// A client for the accounts of a server (`/v1`): sign-up, log-in, log-out, recovery and erasure.
///
/// Each call sends one request. Only a request whose token was refused is repeated, once, with a new token. The client
/// stores nothing. Pass its sessions to ``SessionTokens`` to stay logged in.
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
    /// The address of the server.
    public let server: String
    private let address: ServerAddress
    private let transport: any HTTPTransport
    private let timeout: Duration
    let host: HostServices

    /// Creates a client of the server at `server`.
    ///
    /// - Parameters:
    ///   - server: `https://HOST[:PORT][/PATH]`.
    ///   - transport: the transport for requests.
    ///   - timeout: the time limit of a request. Hashing a password may take a second.
    ///   - host: the randomness for request ids.
    /// - Throws: ``AccountError`` of kind `invalid` if `server` is not such an address.
    public init(
        server: String, transport: any HTTPTransport, timeout: Duration = .seconds(30), host: HostServices = .system
    ) throws(AccountError) {
        do throws(BackendError) { address = try ServerAddress(server) } catch {
            throw AccountError(.invalid, error.message)
        }
        (self.server, self.transport, self.timeout, self.host) = (server, transport, timeout, host)
    }

    /// The result of a sign-up.
    public struct SignUp: Sendable {
        /// The first session.
        public var session: ServerSession
        /// Single-use codes that set a new password. `nil` if the account already existed with the same password,
        /// created by another device or by a request whose answer was lost.
        public var recoveryCodes: [String]?
    }

    /// Creates the account `name`, or logs in if it already exists with the same password, so that two devices that
    /// sign up concurrently share one account.
    ///
    /// - Throws: ``AccountError`` of kind `nameTaken`, `invalid` (name or password), `notAllowed` (the server allows no
    ///   sign-up), `tooManyGuesses`, `unreachable` or `server`.
    public func signUp(_ name: String, password: String) async throws(AccountError) -> SignUp {
        let body: SessionBody = try await answer(
            .post, "/v1/accounts", ["name": .text(name), "password": .text(password)])
        return SignUp(session: body.session, recoveryCodes: body.recoveryCodes)
    }

    /// Starts a session of the account `name`.
    ///
    /// - Throws: ``AccountError`` of kind `invalidCredentials`, `tooManyGuesses`, `unreachable` or `server`.
    public func logIn(_ name: String, password: String) async throws(AccountError) -> ServerSession {
        try await session([
            "grant_type": .text("password"), "username": .text(name), "password": .text(password),
        ])
    }

    /// Fetches the next access token and refresh token of a session. For one minute the same refresh token returns the
    /// same result, because an answer may be lost. Using it later ends the session.
    ///
    /// - Throws: ``AccountError`` of kind `sessionOver`, `unreachable` or `server`.
    public func refresh(_ refreshToken: String) async throws(AccountError) -> ServerSession {
        try await session(
            ["grant_type": .text("refresh_token"), "refresh_token": .text(refreshToken)], invalidGrant: .sessionOver)
    }

    /// Sets a new password with one of the recovery codes and starts a session. All recovery codes become invalid and
    /// all other sessions end. ``renewRecoveryCodes(password:token:)`` creates new codes.
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
    ///   - everywhere: true to end all sessions of the account.
    ///   - token: the access token of the session.
    /// - Throws: ``AccountError`` of kind `sessionOver`, `unreachable` or `server`.
    public func logOut(everywhere: Bool = false, token: @escaping HTTPBackend.Token) async throws(AccountError) {
        _ = try await exchange(.delete, "/v1/sessions" + (everywhere ? "?everywhere=true" : ""), token: token)
    }

    /// Changes the password. All other sessions of the account end, and its recovery codes become invalid.
    /// ``renewRecoveryCodes(password:token:)`` creates new ones.
    ///
    /// - Parameters:
    ///   - password: the old password.
    ///   - newPassword: the new password, 8 to 1,024 bytes.
    ///   - token: an access token of the account.
    /// - Throws: ``AccountError`` of kind `invalidCredentials`, `invalid`, `tooManyGuesses`, `sessionOver`,
    ///   `notAllowed` (the account was erased or belongs to another issuer), `unreachable` or `server`.
    public func changePassword(
        from password: String, to newPassword: String, token: @escaping HTTPBackend.Token
    ) async throws(AccountError) {
        _ = try await exchange(
            .put, "/v1/accounts/self/password",
            ["password": .text(password), "new_password": .text(newPassword)], token: token)
    }

    /// Creates new recovery codes and invalidates the old ones.
    ///
    /// - Parameters:
    ///   - password: the password of the account.
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

    /// Erases the account permanently. Its purchases disappear from each device at the next sync. The session can then
    /// read only the marker that remains.
    ///
    /// - Parameters:
    ///   - password: the password of the account.
    ///   - token: an access token of the account.
    /// - Throws: as ``changePassword(from:to:token:)``.
    public func erase(password: String, token: @escaping HTTPBackend.Token) async throws(AccountError) {
        _ = try await exchange(
            .post, "/v1/accounts/self/erasure", ["password": .text(password)], token: token)
    }

    /// The server's answer to a request for its catalogue.
    package enum CatalogAnswer: Hashable, Sendable {
        /// The catalogue as JSON, and its entity tag.
        case found([UInt8], tag: String?)
        /// The catalogue still has the tag of the request.
        case unchanged
        /// The server serves no catalogue.
        case missing
    }

    /// Fetches the server's catalogue. Needs no account.
    ///
    /// - Parameter tag: the entity tag of the known catalogue; `nil` for none.
    /// - Throws: ``AccountError`` of kind `unreachable`, `tooManyGuesses` or `server`.
    package func catalog(unless tag: String? = nil) async throws(AccountError) -> CatalogAnswer {
        let condition: HTTPFields = tag.map { [.ifNoneMatch: $0] } ?? [:]
        do throws(AccountError) {
            let answer = try await exchange(.get, "/v1/catalog", condition: condition)
            if answer.response.status == .notModified { return .unchanged }
            return .found(answer.body, tag: answer.response.headerFields[.eTag])
        } catch {
            guard error.kind == .unknown else { throw error }
            return .missing
        }
    }

    /// Fetches the account of a session.
    ///
    /// - Parameter token: an access token of the account.
    /// - Throws: ``AccountError`` of kind `sessionOver`, `unreachable` or `server`.
    public func ownAccount(token: @escaping HTTPBackend.Token) async throws(AccountError) -> ServerAccount {
        try await answer(.get, "/v1/accounts/self", nil, token: token)
    }
}

/// The description of an account by the server.
public struct ServerAccount: Hashable, Sendable, Codable {
    /// The account's name.
    public var name: String
    /// The incarnation of the account.
    public var incarnation: String
    /// The creation date of this incarnation (RFC 3339); `nil` if it was erased.
    public var created: String?
}

extension AccountClient {
    /// A member of a body.
    package enum Member: Encodable {
        case text(String)
        case flag(Bool)
        case number(Int64)

        package func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            switch self {
            case .text(let text): try container.encode(text)
            case .flag(let flag): try container.encode(flag)
            case .number(let number): try container.encode(number)
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

    /// Sends a request, and repeats it once with a new token if the first was refused.
    func exchange(
        _ method: HTTPRequest.Method, _ path: String, _ members: [String: Member]? = nil,
        condition: HTTPFields = [:], token: HTTPBackend.Token? = nil,
        invalidGrant: AccountError.Kind = .invalidCredentials
    ) async throws(AccountError) -> TransportAnswer {
        var fields = condition
        fields[.accept] = "application/json"
        var body: [UInt8] = []
        if let members {
            fields[.contentType] = "application/json"
            do { body = Array(try JSONEncoder().encode(members)) } catch {
                throw AccountError(.invalid, "the request cannot be encoded as JSON: \(error)")
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
            if !condition.isEmpty, answer.response.status == .notModified { return answer }
            // A refused request had no effect.
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
            let kind: AccountError.Kind =
                switch error.kind {
                case .cancelled: .cancelled
                case .permissionDenied, .damaged: .sessionOver
                default: error.disposition == .transient ? .unreachable : .sessionOver
                }
            throw AccountError(kind, error.message, retryAfter: error.retryAfter)
        }
    }
}
