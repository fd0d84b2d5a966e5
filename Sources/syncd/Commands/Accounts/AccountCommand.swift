import ArgumentParser
import EntitlementSync
import Entitlements
import SyncCore

struct AccountCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "account", abstract: "Make accounts, log in and out, and erase.",
        discussion: """
            Where the remote is a server (https://HOST), it keeps the accounts, and asks for a password: at the \
            terminal, with --password-stdin from standard input, or in SYNCD_PASSWORD.
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
        abstract: "Put a test environment back: what it holds up to now counts nothing any more.")

    @OptionGroup var options: StoreOptions

    func run() async throws {
        let environment = options.catalog.environmentID
        guard environment != .production else {
            throw Failure(.refused, "production is never put back; name a test environment, --environment sandbox")
        }
        let store = try await options.openStore()
        try await store.reset(environment)
        try options.output.show(
            .object([
                ("account", .string("\(store.account)")), ("environment", .string(environment.rawValue)),
            ]),
            or: "put back: \(environment) of \(store.account)")
    }
}
