import ArgumentParser
import EntitlementSync
import Entitlements
import SyncCore

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
            AccountReset.self, AccountErase.self,
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
