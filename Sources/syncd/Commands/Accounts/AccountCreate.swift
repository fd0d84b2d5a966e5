import ArgumentParser
import EntitlementSync
import Entitlements
import HTTPStorage
import SyncCore

struct AccountCreate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create", abstract: "Create an account, unless it exists.",
        discussion: """
            On a server this signs up and prints recovery codes. Any one of them can set a new password once; this \
            makes the others invalid. Signing up again with the same password changes nothing.
            """)

    @Argument(help: "The account's name.")
    var name: String

    @Flag(help: "Create the remote's folder if it is missing.")
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
                "\"\(kept.account.singleLine)\" is logged in at \(server.origin): run syncd account logout first")
        }
        let local = try options.openLocal()
        let made = try await server.client.signUp(
            name, password: passwords.read(.newPassword(of: name, variable: "SYNCD_PASSWORD"))[0])
        let account = try made.session.life()
        // The server shows the codes only once, so they are printed before anything else can fail.
        try show(account, recoveryCodes: made.recoveryCodes)
        try await server.begin(made.session)
        try await AccountDirectory(backend: local).adopt(account)
    }

    private func show(_ account: Account, recoveryCodes: [String]?) throws {
        let codes = recoveryCodes.map { [("recoveryCodes", JSON.array($0.map(JSON.string)))] } ?? []
        let head = "recovery codes, shown only once; keep them in a safe place:"
        let lines = recoveryCodes.map { [head] + $0.map { "  \($0)" } } ?? []
        try options.output.show(
            .object(
                [("account", .string("\(account)")), ("incarnation", .string(account.incarnation))]
                    + account.alias(name) + codes),
            or: (["account: \(account.described(name))"] + lines).joined(separator: "\n"))
    }
}
