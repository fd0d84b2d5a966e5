import ArgumentParser
import EntitlementSync
import Entitlements
import HTTPStorage
import SyncCore

extension StoreOptions {
    /// The server that the remote must be, and who is logged in there.
    func requiredServer() async throws -> (server: RemoteServer, session: ServerSession) {
        try refuseAccount()
        guard let server = try remoteServer(of: nil) else {
            throw Failure(.usage, "this is for accounts of a server: --remote https://HOST")
        }
        guard let session = try await server.session() else {
            throw Failure(.refused, "log in first: syncd account login NAME")
        }
        return (
            try RemoteServer(
                server.origin, transport: server.transport, credentials: server.credentials, account: session.account),
            session
        )
    }
}

struct AccountPassword: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "password", abstract: "Give the account that is logged in at a server another password.",
        discussion: """
            All other devices have to log in again, and the recovery codes count nothing any more; recovery-codes \
            gives new ones. In scripts: SYNCD_PASSWORD and SYNCD_NEW_PASSWORD.
            """)

    @OptionGroup var passwords: PasswordOptions
    @OptionGroup var options: StoreOptions

    func run() async throws {
        let (server, session) = try await options.requiredServer()
        let secrets = try passwords.read(.password(of: session.account), .newPassword(of: session.account))
        try await server.client.changePassword(from: secrets[0], to: secrets[1], token: server.token)
        try options.output.show(
            .object([("account", .string(session.account)), ("changed", .bool(true))]),
            or: "changed: the password of \(session.account); other devices log in again, and its recovery codes count "
                + "nothing any more (syncd account recovery-codes)")
    }
}

struct AccountRecoveryCodes: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "recovery-codes", abstract: "Get new recovery codes; the old ones count nothing any more.",
        discussion: """
            With a NAME and the server's operator token (--token-file) it is one more code for an account whose owner \
            has lost everything; the others still count.
            """)

    @Argument(help: "The account's name; only with the operator's token.")
    var name: String?

    @OptionGroup var passwords: PasswordOptions
    @OptionGroup var options: StoreOptions

    func run() async throws {
        if let name {
            try options.refuseAccount()
            let (server, token) = try options.operatedServer()
            return try show(name, [try await server.client.addRecoveryCode(to: name, token: { _ in token })])
        }
        let (server, session) = try await options.requiredServer()
        let password = try passwords.read(.password(of: session.account))[0]
        try show(
            session.account, try await server.client.renewRecoveryCodes(password: password, token: server.token))
    }

    private func show(_ account: String, _ codes: [String]) throws {
        try options.output.show(
            .object([("account", .string(account)), ("recoveryCodes", .array(codes.map(JSON.string)))]),
            or: codes.joined(separator: "\n"))
    }
}

struct AccountRecover: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "recover", abstract: "Log in with a recovery code and give the account another password.",
        discussion: """
            All recovery codes are used up by that (recovery-codes gives new ones), and all other devices have to log \
            in again. In scripts: SYNCD_RECOVERY_CODE and SYNCD_NEW_PASSWORD.
            """)

    @Argument(help: "The account's name.")
    var name: String

    @OptionGroup var passwords: PasswordOptions
    @OptionGroup var options: StoreOptions

    func run() async throws {
        try options.refuseAccount()
        guard let server = try options.remoteServer(of: name) else {
            throw Failure(.usage, "this is for accounts of a server: --remote https://HOST")
        }
        // What is wrong here is told before a code is used up.
        _ = try options.catalog.load()
        let local = try options.openLocal()
        let secrets = try passwords.read(.recoveryCode(of: name), .newPassword(of: name))
        let session = try await server.client.recover(name, code: secrets[0], newPassword: secrets[1])
        try await server.begin(session)
        let store = try await options.open(local, account: .anonymous, at: server)
        try await options.showLogIn(try await store.logIn(name), in: store, adopted: false)
    }
}

struct AccountDevice: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "device", abstract: "Let a device without a keyboard log in, or refuse it.",
        subcommands: [AccountDeviceApprove.self])
}

struct AccountDeviceApprove: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "approve", abstract: "Log a device in, that shows this code, as the account of this one.",
        discussion: "It takes the account's password; to refuse a device (--deny) takes none.")

    @Argument(help: "The code that the device shows.")
    var code: String

    @Flag(help: "Refuse it.")
    var deny = false

    @OptionGroup var passwords: PasswordOptions
    @OptionGroup var options: StoreOptions

    func run() async throws {
        let (server, session) = try await options.requiredServer()
        let password = deny ? nil : try passwords.read(.password(of: session.account))[0]
        try await server.client.decide(device: code, isApproved: !deny, password: password, token: server.token)
        try options.output.show(
            .object([("account", .string(session.account)), ("approved", .bool(!deny))]),
            or: deny ? "refused" : "approved: the device is logged in as \(session.account)")
    }
}
