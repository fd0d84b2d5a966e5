import ArgumentParser
import EntitlementSync
import Entitlements
import HTTPStorage
import SyncCore

struct AccountCreate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create", abstract: "Make an account, unless it is there already.",
        discussion: """
            On a server this signs up, and prints recovery codes: each of them gives the account another password, \
            once. Whoever signs up again with the right password has one account.
            """)

    @Argument(help: "The account's name.")
    var name: String

    @Flag(help: "Make the remote's folder if it is missing.")
    var createRemote = false

    @OptionGroup var passwords: PasswordOptions
    @OptionGroup var options: StoreOptions

    func run() async throws {
        try options.refuseAccount()
        if let server = try options.remoteServer(of: nil) { return try await signUp(at: server) }
        let store = try await options.openDeviceStore(createRemote: createRemote)
        try show(try await store.createAccount(name), recoveryCodes: nil)
    }

    private func signUp(at server: RemoteServer) async throws {
        _ = try Account(name)
        if let kept = try await server.session(), kept.account != name {
            throw Failure(
                .refused,
                "\"\(kept.account.singleLine)\" is logged in here at \(server.origin): syncd account logout first")
        }
        let local = try options.openLocal()
        let made = try await server.client.signUp(
            name, password: passwords.read(.newPassword(of: name, variable: "SYNCD_PASSWORD"))[0])
        let account = try made.session.life()
        // The codes are told once: whatever fails from here on, they are printed before.
        try show(account, recoveryCodes: made.recoveryCodes)
        try await server.begin(made.session)
        try await AccountDirectory(backend: local).adopt(account)
    }

    private func show(_ account: Account, recoveryCodes: [String]?) throws {
        let codes = recoveryCodes.map { [("recoveryCodes", JSON.array($0.map(JSON.string)))] } ?? []
        let lines = recoveryCodes.map { ["recovery codes, to be kept somewhere else:"] + $0.map { "  \($0)" } } ?? []
        try options.output.show(
            .object([("account", .string("\(account)")), ("incarnation", .string(account.incarnation))] + codes),
            or: (["account: \(account)"] + lines).joined(separator: "\n"))
    }
}
