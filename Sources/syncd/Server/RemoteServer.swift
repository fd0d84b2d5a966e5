import EntitlementSync
import Entitlements
import Foundation
import HTTPStorage
import SyncCore
import SyncProtocol

/// A server as the remote of a device, and the log-in that this device has there.
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

    /// The same server for a session that ends with this process.
    func transient() throws(AccountError) -> RemoteServer {
        try RemoteServer(origin, transport: transport, credentials: MemorySessionStore(), account: account)
    }

    /// The credential of requests. Whoever has none is told how to get one.
    var token: HTTPBackend.Token {
        let (tokens, name) = (tokens, account)
        return { (refused) throws(BackendError) in
            do throws(BackendError) {
                return try await tokens.token(refused: refused)
            } catch {
                guard let cause = error.cause as? AccountError, cause.kind == .sessionOver else { throw error }
                let hint = "log in first: syncd account login \((name ?? "NAME").singleLine)"
                throw BackendError(.permissionDenied, message: hint, cause: AccountError(.sessionOver, hint))
            }
        }
    }

    /// The session that is kept here; `nil` for none, or another account's.
    func session() async throws(BackendError) -> ServerSession? {
        guard let session = try await tokens.session() else { return nil }
        return account.map { $0.utf8.elementsEqual(session.account.utf8) } == false ? nil : session
    }

    /// Keeps `session` in the place of what was kept, whose session ends.
    func begin(_ session: ServerSession) async throws(BackendError) {
        if try await credentials.load() != nil {
            let former = SessionTokens(client, store: credentials, retries: RetryPolicy(maximumAttempts: 1))
            // It may be over already, and nobody uses it any more.
            try? await client.logOut { (refused) throws(BackendError) in try await former.token(refused: refused) }
        }
        try await tokens.begin(session)
    }
}

extension ServerSession {
    /// The account that it is of.
    func life() throws(EntitlementError) -> Account { try Account(account, incarnation: incarnation) }
}
