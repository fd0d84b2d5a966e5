import ArgumentParser
import Entitlements
import Foundation
import HTTPStorage
import SyncCore
import SyncService

struct TokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token", abstract: "Create, list and revoke tokens for the operator's people and programs.",
        discussion: """
            A token has a scope. read: customers, statistics and events. support: also grants, refunds, transfers, \
            recovery and erasure. admin: also tokens, and all keys but the server's own. Docs/Operators.md lists the \
            routes.

            Examples:
              syncd token create helpdesk --scope support --for P90D --store sqlite:/var/lib/syncd/store.sqlite
              syncd token list --remote https://sync.example.com --token-file admin.token
              syncd token revoke helpdesk --remote https://sync.example.com --token-file admin.token
            """,
        subcommands: [TokenCreate.self, TokenList.self, TokenRevoke.self])
}

struct TokenCreate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "create", abstract: "Create a token, and print it. It cannot be printed again.")

    @Argument(help: "The name of the token, for logs and the audit list. No other valid token may have it.")
    var name: String

    @Option(help: ArgumentHelp("The scope, required: read, support or admin.", valueName: "scope"))
    var scope: String

    @Option(
        name: .customLong("for"),
        help: ArgumentHelp(
            "The time until the token expires: an ISO 8601 duration such as P90D (default: it does not expire).",
            valueName: "duration"))
    var duration: String?

    @Option(help: ArgumentHelp("The date at which the token expires.", valueName: "date"))
    var until: String?

    @OptionGroup var place: TokenOptions

    func run() async throws {
        guard let scope = OperatorScope(rawValue: scope) else {
            let known = OperatorScope.allCases.map(\.rawValue).joined(separator: ", ")
            throw Failure(.usage, "--scope must be one of \(known), not \"\(scope.singleLine)\"")
        }
        let end = try date(until, option: "--until")
        let lifetime = try duration.map { text in try reading("for") { try CalendarDuration(text) } }
        guard end == nil || lifetime == nil else { throw Failure.exclude("for", "until") }
        let made = try await place.perform {
            let end = end ?? lifetime.map { Timestamp(milliseconds: HostServices.system.now()).adding($0) }
            let made = try await $0.create(name, scope: scope, expires: end?.milliseconds, by: NSUserName())
            return TokenDescription(made.record, text: made.text)
        } remotely: {
            TokenDescription(
                try await $0.createOperatorToken(
                    name, scope: scope.rawValue, until: end?.description, for: lifetime?.description,
                    token: $1))
        }
        try place.output.show(made.json, or: made.text ?? "")
    }
}

struct TokenList: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the tokens, without their secrets.")

    @OptionGroup var place: TokenOptions

    func run() async throws {
        let tokens = try await place.perform {
            try await $0.all().map { TokenDescription($0) }
        } remotely: {
            try await $0.operatorTokens(token: $1).map { TokenDescription($0) }
        }
        try place.output.show(
            .array(tokens.map(\.json)),
            or: tokens.isEmpty ? "no tokens" : aligned(tokens.map(\.row)).joined(separator: "\n"))
    }
}

struct TokenRevoke: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "revoke", abstract: "Revoke a token. Each server refuses it within two seconds.")

    @Argument(help: "The id of the token, or its name.")
    var token: String

    @OptionGroup var place: TokenOptions

    func run() async throws {
        let revoked = try await place.perform {
            try await $0.revoke(token, by: NSUserName()).map { TokenDescription($0) }
        } remotely: {
            try await $0.revokeOperatorToken(token, token: $1).map { TokenDescription($0) }
        }
        try place.output.show(.array(revoked.map(\.json)), or: aligned(revoked.map(\.row)).joined(separator: "\n"))
    }
}

/// The server whose tokens a command concerns: its store, or its address.
struct TokenOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The server's store: sqlite:FILE, file:DIR or postgres://HOST/DATABASE. Pass it or --remote.",
            valueName: "store"))
    var store: String?

    @Option(
        help: ArgumentHelp(
            "The server: https://HOST (SYNCD_REMOTE). The token in --token-file needs the scope admin.",
            valueName: "url"))
    var remote: String?

    @OptionGroup(title: ServerOptions.title) var server: ServerOptions
    @OptionGroup var output: OutputOptions

    /// Performs a command on the store, or at the server.
    func perform<Result: Sendable>(
        _ body: (OperatorTokens) async throws -> Result,
        remotely: (AccountClient, @escaping HTTPBackend.Token) async throws -> Result
    ) async throws -> Result {
        if let store {
            guard remote == nil else { throw Failure.exclude("store", "remote") }
            let url = try StoreURL(store, option: "--store")
            let backend = url.existing()
            let isOfServer = try await finding(url) { try await backend.isOfServer() }
            guard isOfServer else {
                throw Failure(
                    .refused, "--store: \(store.singleLine) is not the store of a server: start syncd serve once")
            }
            return try await body(OperatorTokens(backend))
        }
        guard let text = remote ?? environmentVariable("SYNCD_REMOTE"), StoreURL.isServer(text) else {
            throw Failure(.usage, "pass --store with the server's store, or --remote https://HOST and --token-file")
        }
        guard let token = try server.operatorToken() else {
            throw Failure(.usage, "--remote needs --token-file (or SYNCD_TOKEN) with a token of the scope admin")
        }
        let client = try AccountClient(
            server: try server.origin(text, option: "--remote"), transport: try server.transport())
        return try await remotely(client) { (_) throws(BackendError) in token }
    }
}

/// A token in the output of a command.
private struct TokenDescription: Sendable {
    let json: JSON
    let row: [String]
    /// The text of the token; `nil` unless it was just created.
    let text: String?

    init(_ record: OperatorTokens.Record, text: String? = nil) {
        func date(_ milliseconds: Int64?) -> String? { milliseconds.map { "\(Timestamp(milliseconds: $0))" } }
        self.init(
            id: record.id, name: record.name, scope: record.scope, created: date(record.created) ?? "",
            expires: date(record.expires), revoked: date(record.revoked), text: text)
    }

    init(_ token: AccountClient.OperatorToken) {
        self.init(
            id: token.id, name: token.name, scope: token.scope, created: token.created, expires: token.expires,
            revoked: token.revoked, text: token.token)
    }

    private init(
        id: String, name: String, scope: String, created: String, expires: String?, revoked: String?, text: String?
    ) {
        self.text = text
        let secret = text.map { [("token", JSON.string($0))] } ?? []
        json = .object(
            [
                ("id", .string(id)), ("name", .string(name)), ("scope", .string(scope)), ("created", .string(created)),
                ("expires", JSON(expires)), ("revoked", JSON(revoked)),
            ] + secret)
        let state = revoked.map { "revoked \($0)" } ?? expires.map { "expires \($0)" } ?? "does not expire"
        row = [id, name.singleLine, scope, "created \(created)", state]
    }
}
