import ArgumentParser
import Entitlements
import Foundation
import HTTPStorage
import SyncCore

struct WebhookCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "webhook", abstract: "Show the webhooks of a server, and send events to them again.",
        discussion: """
            Webhooks are configured with syncd serve --webhooks FILE: see Docs/Webhooks.md.

            Examples:
              syncd webhook list --remote https://sync.example.com --token-file read.token
              syncd webhook send crm --dead-letters --remote https://sync.example.com --token-file support.token
            """,
        subcommands: [WebhookList.self, WebhookSend.self, WebhookTest.self])
}

struct WebhookList: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the webhooks with their state, and the newest 100 dead letters.")

    @OptionGroup var server: WebhookOptions

    func run() async throws {
        let report = try await server.perform { try await $0.webhooks(token: $1) }
        let webhooks = report["webhooks"]?.elements ?? []
        let letters = report["deadLetters"]?.elements ?? []
        let rows = webhooks.map { row in
            [
                text(row, "name"), text(row, "state"), text(row, "url"), "\(text(row, "delivered")) delivered",
                "\(text(row, "pending")) waiting", "\(text(row, "deadLetters")) dead",
                row["state"]?.string == "failing" ? text(row, "error") : "",
            ]
        }
        let dead = letters.map { row in
            ["dead:"] + ["webhook", "id", "type", "account", "died", "error"].map { text(row, $0) }
        }
        let lines = aligned(rows) + aligned(dead)
        try server.output.show(report, or: lines.isEmpty ? "no webhooks" : lines.joined(separator: "\n"))
    }

    private func text(_ object: JSON, _ member: String) -> String {
        switch object[member] {
        case .string(let text): text.singleLine
        case .number(let number): "\(number)"
        default: ""
        }
    }
}

struct WebhookSend: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "send", abstract: "Send dead letters, or one event, to a webhook again.",
        discussion: "The event keeps its id. The token needs the scope support.")

    @Argument(help: "The name of the webhook.") var name: String
    @Flag(help: "Send all its dead letters.") var deadLetters = false
    @Option(help: ArgumentHelp("The id of the event to send, whether it was delivered or not.", valueName: "id"))
    var event: String?

    @OptionGroup var server: WebhookOptions

    func run() async throws {
        guard deadLetters != (event != nil) else { throw Failure(.usage, "pass either --dead-letters or --event ID") }
        let answer = try await server.perform { try await $0.sendAgain(to: name, event: event, token: $1) }
        guard case .number(let count) = answer["events"] else { throw WebhookOptions.foreign }
        try server.output.show(answer, or: "\(plural(Int(count), "event")) will be sent to \(name.singleLine)")
    }
}

struct WebhookTest: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "test", abstract: "Send an event of the type webhook.test to a webhook, once and now.",
        discussion: "Exits with 1 if the webhook does not accept it. The token needs the scope admin.")

    @Argument(help: "The name of the webhook.") var name: String

    @OptionGroup var server: WebhookOptions

    func run() async throws {
        let answer = try await server.perform { try await $0.testWebhook(name, token: $1) }
        guard case .bool(let isDelivered) = answer["delivered"] else { throw WebhookOptions.foreign }
        let reason = answer["error"]?.string?.singleLine(atMost: 300) ?? ""
        try server.output.show(
            answer, or: "\(name.singleLine): \(isDelivered ? "delivered" : "not delivered: \(reason)")")
        if !isDelivered { throw ExitCode(Failure.Code.failed.rawValue) }
    }
}

/// The server whose webhooks a command concerns.
struct WebhookOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The server, required: https://HOST (SYNCD_REMOTE). It also needs --token-file.", valueName: "url"))
    var remote: String?

    @OptionGroup(title: ServerOptions.title) var server: ServerOptions
    @OptionGroup var output: OutputOptions

    static let foreign = Failure(.failed, "the answer is none of ours; is this the right server?")

    /// Performs a request, and returns the answer.
    func perform(_ body: (AccountClient, @escaping HTTPBackend.Token) async throws -> [UInt8]) async throws -> JSON {
        guard let text = remote ?? environmentVariable("SYNCD_REMOTE"), StoreURL.isServer(text),
            let token = try server.operatorToken()
        else {
            throw Failure(
                .usage,
                "this command is for a server's operator: pass --remote https://HOST and --token-file (or SYNCD_TOKEN)"
            )
        }
        let client = try AccountClient(
            server: try server.origin(text, option: "--remote"), transport: try server.transport())
        let bytes = try await body(client) { (_) throws(BackendError) in token }
        guard let answer = try? JSON(parsing: bytes) else { throw Self.foreign }
        return answer
    }
}
