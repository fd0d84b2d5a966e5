public import SyncCore

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// A session at a server: its account, access token and refresh token.
public struct ServerSession: Hashable, Sendable {
    /// The account's name.
    public var account: String
    /// The incarnation of the account.
    public var incarnation: String
    /// The token that authenticates requests for a few minutes.
    public var accessToken: String
    /// The lifetime of the access token from its receipt.
    public var lifetime: Duration
    /// The token for fetching the next access token and its own successor. As secret as the password.
    public var refreshToken: String

    /// Creates a session.
    ///
    /// - Parameters:
    ///   - account: the name of the account.
    ///   - incarnation: the incarnation of the account.
    ///   - accessToken: the token that authenticates requests.
    ///   - lifetime: the lifetime of the access token.
    ///   - refreshToken: the token for fetching the next access token.
    public init(account: String, incarnation: String, accessToken: String, lifetime: Duration, refreshToken: String) {
        (self.account, self.incarnation) = (account, incarnation)
        (self.accessToken, self.lifetime, self.refreshToken) = (accessToken, lifetime, refreshToken)
    }
}

/// A session in the format of the wire.
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
    /// Decodes the wire format, whose member names follow OAuth 2.0.
    static var wire: JSONDecoder {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return decoder
    }
}

/// Persistent storage for a session, such as a keychain or a file that only its owner can read.
///
/// **Requirements for implementations**
/// - ``save(_:)`` returns when the session is durable and replaces the old one atomically, because the old refresh
///   token becomes invalid after one minute.
/// - ``exclusively(_:)`` excludes all other users of the same location, in this process and in others. It is held only
///   while a token is refreshed, so callers may wait.
/// - Failures are thrown. `nil` means that there is no session.
public protocol SessionStore: Sendable {
    /// The stored session; `nil` for none.
    func load() async throws(BackendError) -> KeptSession?

    /// Replaces the stored session durably.
    func save(_ session: KeptSession) async throws(BackendError)

    /// Deletes the stored session.
    func delete() async throws(BackendError)

    /// Runs `body` while no other user of the same location runs its own.
    func exclusively<Outcome: Sendable>(
        _ body: @Sendable () async throws(BackendError) -> Outcome
    ) async throws(BackendError) -> Outcome
}

/// A stored session with the time of its receipt.
public struct KeptSession: Hashable, Sendable {
    /// The session.
    public var session: ServerSession
    /// The time of receipt in milliseconds since 1970 UTC by the wall clock. Only a hint: a wrong value causes at most
    /// one unnecessary refresh.
    public var received: Int64

    /// Creates a stored session.
    public init(_ session: ServerSession, received: Int64) { (self.session, self.received) = (session, received) }
}

extension KeptSession {
    /// The JSON form, with members sorted by name. Contains secrets.
    public var json: [UInt8] {
        // Strings and numbers can always be encoded.
        (try? SessionDocument(self).encoded()) ?? Array("{}".utf8)
    }

    /// Decodes the form of ``json``; `nil` for anything else.
    public init?(json: [UInt8]) {
        guard let document = SessionDocument(json: json) else { return nil }
        self = document.session
    }
}

/// A session in the format in which it is stored.
struct SessionDocument: Codable {
    private var accessToken: String
    private var account: String
    private var expiresIn: Int64
    private var incarnation: String
    /// The local store that the session belongs to; `nil` in a keychain.
    private(set) var local: String?
    private var received: Int64
    private var refreshToken: String
    /// The server that the session belongs to; `nil` in a keychain.
    private(set) var server: String?

    init(_ kept: KeptSession, local: String? = nil, server: String? = nil) {
        (accessToken, refreshToken) = (kept.session.accessToken, kept.session.refreshToken)
        (account, incarnation) = (kept.session.account, kept.session.incarnation)
        (expiresIn, received) = (kept.session.lifetime.components.seconds, kept.received)
        (self.local, self.server) = (local, server)
    }

    init?(json: [UInt8]) {
        guard let document = try? JSONDecoder.wire.decode(SessionDocument.self, from: Data(json)) else { return nil }
        self = document
    }

    var session: KeptSession {
        KeptSession(
            ServerSession(
                account: account, incarnation: incarnation, accessToken: accessToken, lifetime: .seconds(expiresIn),
                refreshToken: refreshToken), received: received)
    }

    func encoded(_ formatting: JSONEncoder.OutputFormatting = []) throws -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = formatting.union([.sortedKeys, .withoutEscapingSlashes])
        return Array(try encoder.encode(self))
    }
}
