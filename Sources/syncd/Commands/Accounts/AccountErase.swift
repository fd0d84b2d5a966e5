import ArgumentParser
import EntitlementSync
import Entitlements
import HTTPStorage
import SyncCore

struct AccountErase: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "erase",
        abstract: "Erase an account, here, on the remote, and on every device that syncs with it. For good.",
        discussion: """
            A server asks for the account's password. With its operator's token (--token-file) no password is needed, \
            and this device learns of it with its next sync, as every other does.
            """)

    @Argument(help: "The account's name.")
    var name: String

    @Flag(help: "Yes, erase it: what it bought is lost unless a store can prove it.")
    var yes = false

    @OptionGroup var passwords: PasswordOptions
    @OptionGroup var options: StoreOptions

    func run() async throws {
        guard yes else {
            throw Failure(.usage, "this cannot be undone: say --yes to erase \"\(name)\" and all that it bought")
        }
        try options.refuseAccount()
        if try options.server.operatorToken() != nil, options.remoteText.map(StoreURL.isServer) == true {
            let (server, token) = try options.operatedServer()
            try await server.client.erase(name, asOperator: { _ in token })
        } else if let server = try options.remoteServer(of: name) {
            try await erase(at: server)
        } else {
            let store = try await options.openDeviceStore()
            try await store.eraseAccount(name)
        }
        try options.output.show(
            .object([("account", .string(name)), ("erased", .bool(true))]), or: "erased: \(name)")
    }

    private func erase(at kept: RemoteServer) async throws {
        // What is wrong here is told before anything is erased.
        _ = try options.catalog.load()
        let local = try options.openLocal()
        let password = try passwords.read(.password(of: name))[0]
        var (server, session) = (kept, try await kept.session())
        if session == nil {
            server = try kept.transient()
            let begun = try await server.client.logIn(name, password: password)
            try await server.tokens.begin(begun)
            session = begun
        }
        do throws(AccountError) {
            try await server.client.erase(password: password, token: server.token)
        } catch {
            // Interrupted before this device had heard of it: the marker is there already.
            guard error.kind == .notAllowed else { throw error }
        }
        if let session { try await bury(try session.life(), in: local, at: server) }
        // Its session only read the marker from now on.
        try? await server.client.logOut(token: server.token)
        if try await kept.session() != nil { try await kept.tokens.forget() }
    }

    /// The next sync finds the marker; this device makes it now, if it knows the account.
    private func bury(_ account: Account, in local: any KeyValueBackend, at server: RemoteServer) async throws {
        let isKnown = try await AccountDirectory(backend: local).isKnown(account)
        guard isKnown else { return }
        let store = try await options.open(local, account: account, at: server)
        do throws(EntitlementError) { _ = try await store.sync() } catch {
            guard error.kind == .accountErased else { throw error }
        }
    }
}
