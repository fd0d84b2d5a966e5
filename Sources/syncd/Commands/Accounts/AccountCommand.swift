import ArgumentParser
import EntitlementSync
import Entitlements
import SyncCore

struct AccountCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "account", abstract: "Make accounts, log in and out, and erase.",
        subcommands: [
            AccountCreate.self, AccountLogIn.self, AccountLogOut.self, AccountList.self, AccountShow.self,
            AccountReset.self, AccountErase.self,
        ])

    func run() async throws {
        throw ValidationError("what about the account? create, login, logout, list, show, reset or erase")
    }
}

struct AccountCreate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create", abstract: "Make an account, unless it is there already.")

    @Argument(help: "The account's name.")
    var name: String

    @Flag(help: "Make the remote's folder if it is missing.")
    var createRemote = false

    @OptionGroup var options: StoreOptions

    func run() async throws {
        let store = try await options.openDeviceStore(createRemote: createRemote)
        let account = try await store.createAccount(name)
        try options.output.show(
            .object([("account", .string("\(account)")), ("incarnation", .string(account.incarnation))]),
            or: "account: \(account)")
    }
}

struct AccountLogIn: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "login", abstract: "Log an account in on this device.")

    @Argument(help: "The account's name.")
    var name: String

    @Flag(help: "Take over, for good, what nobody bought on this device.")
    var adopt = false

    @OptionGroup var options: StoreOptions

    func run() async throws {
        // Whoever was logged in before, or cannot be read, does not matter.
        let store = try await options.openDeviceStore(as: .anonymous)
        let account = try await store.logIn(name, adoptAnonymous: adopt)
        let hasUnsent = try await store.hasUnsentFacts(account)
        try options.output.show(
            .object([
                ("account", .string("\(account)")), ("adopted", .bool(adopt)), ("unsent", .bool(hasUnsent)),
            ]),
            or: "logged in: \(account)" + (hasUnsent ? ", with facts that the remote lacks (syncd sync)" : ""))
    }
}

struct AccountLogOut: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "logout", abstract: "Log out. What cannot be sent stays here for the account's next log-in.")

    @OptionGroup var options: StoreOptions

    func run() async throws {
        let store = try await options.openDeviceStore()
        guard !store.account.isAnonymous else { throw Failure(.refused, "nobody is logged in") }
        let report = try await store.logOut()
        let note = report.hasUnsentFacts ? "; what the remote lacks stays here until its next log-in" : ""
        let failure = report.failure.map { " (\($0))" } ?? ""
        try options.output.show(
            .object([
                ("account", .string("\(report.account)")), ("unsent", .bool(report.hasUnsentFacts)),
                ("failure", JSON(report.failure?.message)),
            ]),
            or: "logged out: \(report.account)\(note)\(failure)")
    }
}

struct AccountList: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the accounts that have a ledger on this device.")

    @OptionGroup var options: StoreOptions

    func run() async throws {
        let store = try await options.openDeviceStore()
        let local = try options.openLocal()
        var rows: [(account: Account, isLoggedIn: Bool, hasUnsent: Bool)] = []
        let current = try await EntitlementStore.accountLoggedIn(in: local) ?? .anonymous
        for account in Set(try await EntitlementStore.accounts(in: local) + [current]).sorted() {
            rows.append((account, account == current, try await store.hasUnsentFacts(account)))
        }
        try options.output.show(
            .array(
                rows.map { row in
                    .object([
                        ("account", .string("\(row.account)")), ("incarnation", .string(row.account.incarnation)),
                        ("loggedIn", .bool(row.isLoggedIn)), ("unsent", .bool(row.hasUnsent)),
                    ])
                }),
            or: aligned(
                rows.map { row in
                    [
                        "\(row.account)",
                        row.isLoggedIn ? (row.account.isAnonymous ? "nobody is logged in" : "logged in") : "",
                        row.hasUnsent ? "has facts that the remote lacks" : "",
                    ]
                }
            ).joined(separator: "\n"))
    }
}

struct AccountShow: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Say who is logged in on this device.")

    @OptionGroup var options: StoreOptions

    func run() async throws {
        try options.refuseAccount()
        let account = try await EntitlementStore.accountLoggedIn(in: try options.openLocal()) ?? .anonymous
        try options.output.show(
            .object([
                ("account", .string("\(account)")), ("loggedIn", .bool(!account.isAnonymous)),
                ("incarnation", .string(account.incarnation)),
            ]),
            or: account.isAnonymous ? "nobody is logged in" : "\(account)")
    }
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

struct AccountErase: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "erase",
        abstract: "Erase an account, here, on the remote, and on every device that syncs with it. For good.")

    @Argument(help: "The account's name.")
    var name: String

    @Flag(help: "Yes, erase it: what it bought is lost unless a store can prove it.")
    var yes = false

    @OptionGroup var options: StoreOptions

    func run() async throws {
        guard yes else {
            throw Failure(.usage, "this cannot be undone: say --yes to erase \"\(name)\" and all that it bought")
        }
        let store = try await options.openDeviceStore()
        try await store.eraseAccount(name)
        try options.output.show(
            .object([("account", .string(name)), ("erased", .bool(true))]), or: "erased: \(name)")
    }
}
