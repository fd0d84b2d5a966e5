public import SyncCore

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// A log-in at a server: whose, what it shows with each request, and what it gets the next such token with.
public struct ServerSession: Hashable, Sendable {
    /// The account's name.
    public var account: String
    /// Which life of the account.
    public var incarnation: String
    /// Goes with each request, for a few minutes.
    public var accessToken: String
    /// How long the access token counts from when it was received.
    public var lifetime: Duration
    /// Gets the next access token, and its own successor. A secret like the password.
    public var refreshToken: String

    /// A session of the given parts.
    ///
    /// - Parameters:
    ///   - account: the account's name.
    ///   - incarnation: which life of the account.
    ///   - accessToken: goes with each request.
    ///   - lifetime: how long the access token counts.
    ///   - refreshToken: gets the next access token.
    public init(account: String, incarnation: String, accessToken: String, lifetime: Duration, refreshToken: String) {
        (self.account, self.incarnation) = (account, incarnation)
        (self.accessToken, self.lifetime, self.refreshToken) = (accessToken, lifetime, refreshToken)
    }
}

/// A session as the wire has it.
struct SessionBody: Decodable {
    var accessToken: String
    var expiresIn: Int64
    var refreshToken: String
    var account: String
    var incarnation: String
    var recoveryCodes: [String]?

    var session: ServerSession {
        ServerSession(
            account: account, incarnation: incarnation, accessToken: accessToken,
            lifetime: .seconds(min(max(expiresIn, 1), 86_400)), refreshToken: refreshToken)
    }
}

extension JSONDecoder {
    /// Reads what the wire has: members in the manner of OAuth 2.0.
    static var wire: JSONDecoder {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return decoder
    }
}

/// Where a session is kept between two starts of a program: a file that only its owner reads, a keychain.
///
/// **What an implementer must do**
/// - ``save(_:)`` returns when what it was given survives a power cut, and replaces all or nothing: the refresh token
///   that it replaces counts nothing a minute later.
/// - ``exclusively(_:)`` keeps all others away that use the same place, of this process and of others. It is held only
///   while a token is refreshed, so a caller may wait.
/// - Failures are thrown; `nil` means that there is no session.
public protocol SessionStore: Sendable {
    /// What is kept; `nil` for nothing.
    func load() async throws(BackendError) -> KeptSession?

    /// Keeps `session` in the place of what is there.
    func save(_ session: KeptSession) async throws(BackendError)

    /// Keeps nothing any more.
    func delete() async throws(BackendError)

    /// Runs `body` while nobody else runs his.
    func exclusively<Outcome: Sendable>(
        _ body: @Sendable () async throws(BackendError) -> Outcome
    ) async throws(BackendError) -> Outcome
}

/// A session as it is kept, and by the wall clock when it was received.
public struct KeptSession: Hashable, Sendable {
    /// The session.
    public var session: ServerSession
    /// In milliseconds since 1970 UTC. Only a hint: it decides no more than whether to refresh once too often.
    public var received: Int64

    /// A session that was received at `received`.
    public init(_ session: ServerSession, received: Int64) { (self.session, self.received) = (session, received) }
}

extension KeptSession {
    private struct Body: Codable {
        var accessToken: String
        var account: String
        var expiresIn: Int64
        var incarnation: String
        var received: Int64
        var refreshToken: String
    }

    /// It as JSON, members in the order of their names. Holds secrets.
    public var json: [UInt8] {
        let body = Body(
            accessToken: session.accessToken, account: session.account,
            expiresIn: session.lifetime.components.seconds, incarnation: session.incarnation, received: received,
            refreshToken: session.refreshToken)
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Strings and numbers: nothing in it can fail to be encoded.
        guard let data = try? encoder.encode(body) else { return Array("{}".utf8) }
        return Array(data)
    }

    /// Reads what ``json`` is; `nil` for anything else.
    public init?(json: [UInt8]) {
        guard let body = try? JSONDecoder.wire.decode(Body.self, from: Data(json)) else { return nil }
        let session = ServerSession(
            account: body.account, incarnation: body.incarnation, accessToken: body.accessToken,
            lifetime: .seconds(body.expiresIn), refreshToken: body.refreshToken)
        self.init(session, received: body.received)
    }
}
