import ArgumentParser
import EntitlementSync
import Entitlements
import HTTPStorage
import SyncCore

extension StoreOptions {
    /// The remote server and its operator's token; throws if either is missing.
    func operatedServer() throws -> (server: RemoteServer, token: String) {
        guard let remoteText, StoreURL.isServer(remoteText), let token = try server.operatorToken() else {
            throw Failure(
                .usage,
                "this command is for a server's operator: pass --remote https://HOST and --token-file (or SYNCD_TOKEN)"
            )
        }
        let origin = try server.origin(remoteText, option: "--remote")
        return (
            try RemoteServer(
                origin, transport: server.transport(), credentials: MemorySessionStore(), account: nil), token
        )
    }

    /// Calls `body` for each account of the server, page by page, until it returns `false`.
    fileprivate func serverAccounts(_ body: (ServerAccount) throws -> Bool) async throws {
        let (server, token) = try operatedServer()
        var after: String?
        repeat {
            let page = try await server.client.accounts(after: after, token: { _ in token })
            for account in page.accounts {
                guard try body(account) else { return }
            }
            after = page.next
        } while after != nil
    }
}

struct AccountList: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the accounts that have a ledger on this device.",
        discussion: "With the operator's token (--token-file or SYNCD_TOKEN): list the accounts on the server.")

    @OptionGroup var options: StoreOptions

    func run() async throws {
        try options.refuseAccount()
        if try options.server.operatorToken() != nil, options.remoteText.map(StoreURL.isServer) == true {
            return try await listServer()
        }
        let store = try await options.openDeviceStore()
        let local = try options.openLocal()
        var (objects, rows): ([JSON], [[String]]) = ([], [])
        let current = try await EntitlementStore.accountLoggedIn(in: local) ?? .anonymous
        for account in Set(try await EntitlementStore.accounts(in: local) + [current]).sorted() {
            let hasUnsent = try await store.hasUnsentFacts(account)
            objects.append([
                "account": "\(account)", "incarnation": .string(account.incarnation),
                "loggedIn": .bool(account == current), "unsent": .bool(hasUnsent),
            ])
            let state = account.isAnonymous ? "no account is logged in" : "logged in"
            let note = hasUnsent ? "has facts that the remote lacks" : ""
            rows.append(["\(account)", account == current ? state : "", note])
        }
        try options.output.show(.array(objects), or: aligned(rows).joined(separator: "\n"))
    }

    private func listServer() async throws {
        var accounts: [ServerAccount] = []
        try await options.serverAccounts { account in
            accounts.append(account)
            return true
        }
        try options.output.show(
            .array(accounts.map(\.json)),
            or: aligned(accounts.map { [$0.name.singleLine, "since \($0.created ?? "?")"] }).joined(separator: "\n"))
    }
}

struct AccountShow: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Show the account that is logged in on this device.",
        discussion: """
            With a name and the operator's token (--token-file or SYNCD_TOKEN): show an account on the server.
            """)

    @Argument(help: "The account's name; requires the operator's token.")
    var name: String?

    @OptionGroup var options: StoreOptions

    func run() async throws {
        try options.refuseAccount()
        if let name { return try await showServer(name) }
        let account = try await EntitlementStore.accountLoggedIn(in: try options.openLocal()) ?? .anonymous
        try options.output.show(
            [
                "account": "\(account)", "loggedIn": .bool(!account.isAnonymous),
                "incarnation": .string(account.incarnation),
            ],
            or: account.isAnonymous ? "no account is logged in" : "\(account)")
    }

    private func showServer(_ name: String) async throws {
        var found: ServerAccount?
        try await options.serverAccounts { account in
            if account.name.utf8.elementsEqual(name.utf8) { found = account }
            return found == nil
        }
        guard let found else { throw Failure(.notFound, "there is no account \"\(name.singleLine)\" on the server") }
        try options.output.show(
            found.json, or: "\(found.name.singleLine)\nsince \(found.created ?? "?")\nincarnation \(found.incarnation)")
    }
}

extension ServerAccount {
    fileprivate var json: JSON {
        ["account": .string(name), "incarnation": .string(incarnation), "created": JSON(created)]
    }
}
