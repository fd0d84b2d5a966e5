import ArgumentParser
import EntitlementSync
import Entitlements
import SyncCore
import SyncService

struct AccountCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "account", abstract: "Create and erase accounts, and log in and out.",
        discussion: """
            A server (--remote https://HOST) keeps the accounts and requires passwords. They are read from the \
            terminal, from standard input with --password-stdin, or from SYNCD_PASSWORD.
            """,
        subcommands: [
            AccountCreate.self, AccountLogIn.self, AccountLogOut.self, AccountList.self, AccountShow.self,
            AccountPassword.self, AccountRecoveryCodes.self, AccountRecover.self, AccountDevice.self,
            AccountSessions.self, AccountReset.self, AccountErase.self,
        ])
}

struct AccountReset: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reset",
        abstract: "Reset a test environment: its purchases up to now no longer count.")

    @OptionGroup var options: StoreOptions

    func run() async throws {
        let environment = options.catalog.environmentID
        guard environment != .production else {
            throw Failure(
                .refused, "production cannot be reset; pass a test environment, such as --environment sandbox")
        }
        let store = try await options.openStore()
        try await store.reset(environment)
        try options.output.show(
            ["account": "\(store.account)", "environment": .string(environment.rawValue)],
            or: "reset: \(environment) of \(store.account)")
    }
}

struct AccountSessions: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "end-sessions", abstract: "End the sessions of an account on a server, for its operator.",
        discussion: "The devices must log in again. It requires a token of the scope support (--token-file).")

    @Argument(help: "The account's name.")
    var name: String

    @Option(help: ArgumentHelp("The id of the only session to end (default: all).", valueName: "id"))
    var session: String?

    @OptionGroup var act: AccountActOptions
    @OptionGroup var options: StoreOptions

    func run() async throws {
        try options.refuseAccount()
        try await act.perform(CommandAct(.sessions, ["session": session.map(JSON.string)]), on: name, options)
    }
}

/// The options of an operator's act on an account.
struct AccountActOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp("For the operator: the reason for the audit list, at most 1,000 bytes.", valueName: "text"))
    var reason: String?

    @OptionGroup var act: ActOptions

    /// True if the command asks for an entry in the audit list, or for a dry run.
    var isAsked: Bool { reason != nil || act.dryRun || act.idempotencyKey != nil }

    func perform(_ command: CommandAct, on account: String, _ options: StoreOptions) async throws {
        try await act.perform(command, on: account, reason: reason ?? "", options) {
            throw Failure(
                .usage, "this act needs a server: pass --remote https://HOST and --token-file, and no --local")
        }
    }
}
