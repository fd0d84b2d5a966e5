import ArgumentParser
import EntitlementSync
import Entitlements
import HTTPStorage
import SyncCore
import SyncService

extension StoreOptions {
    /// The remote server; throws if the remote is none.
    fileprivate func requiredServer(of account: String?) throws -> RemoteServer {
        try refuseAccount()
        if let server = try remoteServer(of: account) { return server }
        throw Failure(.usage, "this command is for accounts on a server: pass --remote https://HOST")
    }

    /// The remote server and the session there; throws if either is missing.
    func requiredServer() async throws -> (server: RemoteServer, session: ServerSession) {
        let server = try requiredServer(of: nil)
        guard let session = try await server.session() else {
            throw Failure(.refused, "log in first: syncd account login NAME")
        }
        return (try server.of(session.account), session)
    }
}

struct AccountPassword: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "password", abstract: "Change the password of the account that is logged in on a server.",
        discussion: """
            All other devices must log in again, and the recovery codes become invalid; recovery-codes creates new \
            ones. Scripts can set SYNCD_PASSWORD and SYNCD_NEW_PASSWORD.
            """)

    @OptionGroup var passwords: PasswordOptions
    @OptionGroup var options: StoreOptions

    func run() async throws {
        let (server, session) = try await options.requiredServer()
        let secrets = try passwords.read(.password(of: session.account), .newPassword(of: session.account))
        try await server.client.changePassword(from: secrets[0], to: secrets[1], token: server.token)
        try options.output.show(
            ["account": .string(session.account), "changed": .bool(true)],
            or: "changed: the password of \(session.account); other devices must log in again, and its recovery codes "
                + "are invalid (syncd account recovery-codes creates new ones)")
    }
}

struct AccountRecoveryCodes: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "recovery-codes", abstract: "Create new recovery codes, which replace the old ones.",
        discussion: """
            With a name and the operator's token (--token-file or SYNCD_TOKEN): create one additional code for an \
            account whose owner has lost the password and all codes. The other codes stay valid. Without --reason, the \
            token needs the scope admin.
            """)

    @Argument(help: "The account's name; requires the operator's token.")
    var name: String?

    @OptionGroup var act: AccountActOptions
    @OptionGroup var passwords: PasswordOptions
    @OptionGroup var options: StoreOptions

    func run() async throws {
        if let name {
            try options.refuseAccount()
            if act.isAsked { return try await act.perform(CommandAct(.recovery), on: name, options) }
            let (server, token) = try options.operatedServer()
            let added = try await server.client.addRecoveryCode(to: name, token: { _ in token })
            return try show(added.account, [added.code])
        }
        let (server, session) = try await options.requiredServer()
        let password = try passwords.read(.password(of: session.account))[0]
        try show(session.account, try await server.client.renewRecoveryCodes(password: password, token: server.token))
    }

    private func show(_ account: String, _ codes: [String]) throws {
        try options.output.show(
            ["account": .string(account), "recoveryCodes": .array(codes.map(JSON.string))],
            or: codes.joined(separator: "\n"))
    }
}

struct AccountRecover: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "recover", abstract: "Log in with a recovery code and set a new password.",
        discussion: """
            All recovery codes become invalid (recovery-codes creates new ones), and all other devices must log in \
            again. Scripts can set SYNCD_RECOVERY_CODE and SYNCD_NEW_PASSWORD.
            """)

    @Argument(help: "The account's name.")
    var name: String

    @OptionGroup var passwords: PasswordOptions
    @OptionGroup var options: StoreOptions

    func run() async throws {
        let server = try options.requiredServer(of: name)
        // Local errors are reported before the code is spent.
        _ = try options.catalog.loadIfNamed()
        let local = try options.openLocal()
        let secrets = try passwords.read(.recoveryCode(of: name), .newPassword(of: name))
        let session = try await server.client.recover(name, code: secrets[0], newPassword: secrets[1])
        let own = try server.of(session.account)
        try await own.begin(session)
        let store = try await options.open(local, account: .anonymous, at: own, needsCatalog: false)
        try await options.showLogIn(try await store.logIn(session.account), by: name, in: store, adopted: false)
    }
}

struct AccountDevice: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "device", abstract: "Approve or deny the log-in of another device.",
        subcommands: [AccountDeviceApprove.self])
}

struct AccountDeviceApprove: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "approve", abstract: "Approve or deny the device that shows this code.",
        discussion: """
            An approved device is logged in to the account that is logged in on this device. Approving requires the \
            account's password; denying does not.
            """)

    @Argument(help: "The code that the other device shows.")
    var code: String

    @Flag(help: "Deny the log-in instead.")
    var deny = false

    @OptionGroup var passwords: PasswordOptions
    @OptionGroup var options: StoreOptions

    func run() async throws {
        let (server, session) = try await options.requiredServer()
        let password = deny ? nil : try passwords.read(.password(of: session.account))[0]
        try await server.client.decide(device: code, isApproved: !deny, password: password, token: server.token)
        try options.output.show(
            ["account": .string(session.account), "approved": .bool(!deny)],
            or: deny ? "denied" : "approved: the device is logged in as \(session.account)")
    }
}
