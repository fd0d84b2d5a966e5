import ArgumentParser
import EntitlementSync
import Entitlements
import HTTPStorage
import SyncCore
import SyncService

struct AccountErase: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "erase",
        abstract: "Erase an account for good: here, on the remote, and on every device that syncs.",
        discussion: """
            A server requires the account's password, or a token of the operator (--token-file). After an erasure by \
            the operator, devices erase their copies with the next sync. With --reason, it is entered into the audit \
            list.
            """)

    @Argument(help: "The account's name.")
    var name: String

    @Flag(help: "Confirm the erasure. Purchases that no store can prove are lost.")
    var yes = false

    @OptionGroup var act: AccountActOptions
    @OptionGroup var passwords: PasswordOptions
    @OptionGroup var options: StoreOptions

    func run() async throws {
        guard yes || act.act.dryRun else {
            throw Failure(.usage, "this cannot be undone: pass --yes to erase \"\(name.singleLine)\" and its purchases")
        }
        try options.refuseAccount()
        if act.isAsked { return try await act.perform(CommandAct(.erasure), on: name, options) }
        if try options.server.operatorToken() != nil, options.remoteText.map(StoreURL.isServer) == true {
            let (server, token) = try options.operatedServer()
            try await server.client.erase(name, asOperator: { _ in token })
        } else if let server = try options.remoteServer(of: name) {
            try await erase(at: server)
        } else {
            let store = try await options.openDeviceStore()
            try await store.eraseAccount(name)
        }
        try options.output.show(["account": .string(name), "erased": .bool(true)], or: "erased: \(name)")
    }

    private func erase(at kept: RemoteServer) async throws {
        // Local errors are reported before anything is erased.
        _ = try options.catalog.loadIfNamed()
        let local = try options.openLocal()
        let password = try passwords.read(.password(of: name))[0]
        var (server, session) = (kept, try await kept.session())
        if session == nil {
            let begun = try await kept.client.logIn(name, password: password)
            server = try kept.transient().of(begun.account)
            try await server.tokens.begin(begun)
            session = begun
        }
        do throws(AccountError) {
            try await server.client.erase(password: password, token: server.token)
        } catch {
            // An earlier attempt has erased the account, but was interrupted before this device was updated.
            guard error.kind == .notAllowed else { throw error }
        }
        if let session { try await eraseLocally(try session.life(), in: local, at: server) }
        // The session is of no more use: it could only read the erasure marker.
        try? await server.client.logOut(token: server.token)
        let own = try kept.of(session?.account ?? name)
        if try await own.session() != nil { try await own.tokens.forget() }
    }

    /// Erases this device's copy now instead of with the next sync, if it knows the account.
    private func eraseLocally(_ account: Account, in local: any KeyValueBackend, at server: RemoteServer) async throws {
        let isKnown = try await AccountDirectory(backend: local).isKnown(account)
        guard isKnown else { return }
        let store = try await options.open(local, account: account, at: server, needsCatalog: false)
        do throws(EntitlementError) { _ = try await store.sync() } catch {
            guard error.kind == .accountErased else { throw error }
        }
    }
}
