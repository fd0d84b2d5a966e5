import EntitlementSync
import Entitlements
import Foundation
import HTTPStorage
import SyncCore
import SyncProtocol

/// A server as a device's remote, and the device's session there.
struct RemoteServer {
    let origin: String
    let transport: any HTTPTransport
    let client: AccountClient
    let credentials: any SessionStore
    let tokens: SessionTokens
    let account: String?

    init(
        _ origin: String, transport: any HTTPTransport, credentials: any SessionStore, account: String?
    ) throws(AccountError) {
        (self.origin, self.transport, self.credentials) = (origin, transport, credentials)
        self.account = account
        client = try AccountClient(server: origin, transport: transport)
        tokens = SessionTokens(client, store: credentials, account: account)
    }

    /// The same server with a session that ends with this process.
    func transient() throws(AccountError) -> RemoteServer {
        try RemoteServer(origin, transport: transport, credentials: MemorySessionStore(), account: account)
    }

    /// The same server with sessions of `account`. A server answers a log-in with the account's own name, which may
    /// differ from the name that the user has typed.
    func of(_ account: String) throws(AccountError) -> RemoteServer {
        try RemoteServer(origin, transport: transport, credentials: credentials, account: account)
    }

    /// The access token for requests. Without a session it throws an error that explains how to log in.
    var token: HTTPBackend.Token {
        let (tokens, credentials, name, origin) = (tokens, credentials, account, origin)
        return { (refused) throws(BackendError) in
            do throws(BackendError) {
                return try await tokens.token(refused: refused)
            } catch {
                guard let cause = error.cause as? AccountError, cause.kind == .sessionOver else { throw error }
                var hint = "log in first: syncd account login \((name ?? "NAME").singleLine)"
                // The session of another server throws an error that names it.
                let kept = try await credentials.load()
                if let name, let owner = kept?.session.account, owner != name {
                    let (owner, name) = (owner.singleLine, name.singleLine)
                    hint =
                        "the session at \(origin) is that of \(owner), not of \(name): pass --account \(owner), "
                        + "or \(hint)"
                }
                throw BackendError(.permissionDenied, message: hint, cause: AccountError(.sessionOver, hint))
            }
        }
    }

    /// The server's store, with the access rights of the session. It does not retry.
    func store() throws(BackendError) -> HTTPBackend {
        try HTTPBackend(server: origin, transport: transport, token: token)
    }

    /// The stored session; `nil` if there is none, or if it is another account's or another server's.
    func session() async throws(BackendError) -> ServerSession? {
        guard let session = try await tokens.session() else { return nil }
        return account.map { $0.utf8.elementsEqual(session.account.utf8) } == false ? nil : session
    }

    /// Stores `session` while `body` runs. If `body` succeeds, the session that was stored before ends; otherwise it is
    /// stored again, and `session` ends.
    func begin<Result>(_ session: ServerSession, _ body: () async throws -> Result) async throws -> Result {
        let former = try await tokens.session()
        try await tokens.begin(session)
        do {
            let result = try await body()
            if let former { await end(former) }
            return result
        } catch {
            if let former { try await tokens.begin(former) } else { try await tokens.forget() }
            await end(session)
            throw error
        }
    }

    /// Ends a session at the server. Without a connection it expires there.
    private func end(_ session: ServerSession) async {
        let ending = SessionTokens(client, store: MemorySessionStore(), retries: RetryPolicy(maximumAttempts: 1))
        do {
            try await ending.begin(session)
            try await client.logOut { (refused) throws(BackendError) in try await ending.token(refused: refused) }
        } catch {
            // It is no longer used.
        }
    }

    /// Stores `session` and ends the one that was stored before.
    func begin(_ session: ServerSession) async throws { try await begin(session) {} }
}

extension ServerSession {
    /// The account of the session.
    func life() throws(EntitlementError) -> Account { try Account(account, incarnation: incarnation) }
}
