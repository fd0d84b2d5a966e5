import ArgumentParser
import Entitlements
import Foundation
import HTTPTypes
import SyncCore
import SyncProtocol
import SyncService

struct McpCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mcp", abstract: "Offer a server's tools for support to an assistant, over standard input.",
        discussion: """
            Speaks the Model Context Protocol: one message of JSON-RPC a line. Each message is sent to the server, \
            which also offers the tools at /mcp. A token with the scope read may ask; one with the scope support may \
            also act, after a dry run and a confirmation: see Docs/Assistants.md.

            Example, as an assistant starts it:
              syncd mcp --remote https://sync.example.com --token-file support.token
            """)

    @Option(
        help: ArgumentHelp(
            "The server, required: https://HOST (SYNCD_REMOTE). It also needs --token-file.", valueName: "url"))
    var remote: String?

    @OptionGroup(title: ServerOptions.title) var server: ServerOptions

    func run() async throws {
        guard let text = remote ?? environmentVariable("SYNCD_REMOTE"), StoreURL.isServer(text),
            let token = try server.operatorToken()
        else {
            throw Failure(
                .usage,
                "this command is for a server's operator: pass --remote https://HOST and --token-file (or SYNCD_TOKEN)"
            )
        }
        let bridge = AssistantBridge(
            origin: try server.origin(text, option: "--remote"), token: token, transport: try server.transport())
        var lines = BoundedLines(limit: RPCMessage.byteCount)
        while let line = lines.next() {
            guard !line.isEmpty, let answer = await bridge.answer(to: line) else { continue }
            try writeOutput(Array((answer + "\n").utf8))
        }
    }
}

/// Forwards the messages of an assistant to a server.
private struct AssistantBridge {
    let origin: String
    let token: String
    let transport: any HTTPTransport

    /// The answer to a message, on one line; `nil` for a notification.
    func answer(to line: [UInt8]) async -> String? {
        let message: RPCMessage
        do throws(RPCError) { message = try RPCMessage(parsing: line) } catch { return error.response.line }
        let answer: TransportAnswer
        do throws(TransportError) {
            answer = try await transport.send(
                request(message), body: line, timeout: .seconds(120), maximumByteCount: 4 << 20)
        } catch {
            return failure(
                .unreachable,
                "\(origin) did not answer: \(error.message). An act may have happened: repeat it with the same "
                    + "arguments and confirmation, which acts once", message)
        }
        guard message.isRequest else { return nil }
        let body = try? JSON(parsing: answer.body)
        if let body, body["jsonrpc"] != nil { return body.line }
        guard let detail = body?["detail"]?.string else {
            return failure(
                .refused, "\(origin) answered \(answer.response.status.code), but not as a syncd with tools does",
                message)
        }
        return failure(
            .refused, detail, message, data: .object([("status", .number(Int64(answer.response.status.code)))]))
    }

    private func failure(_ code: RPCError.Code, _ text: String, _ message: RPCMessage, data: JSON? = nil) -> String? {
        message.isRequest ? RPCError(code, text, data: data, id: message.id).response.line : nil
    }

    private func request(_ message: RPCMessage) -> HTTPRequest {
        var fields: HTTPFields = [
            .authorization: "Bearer \(token)", .contentType: "application/json", .accept: "application/json",
        ]
        for (name, value) in AssistantProtocol.fields(of: message) {
            if let name = HTTPField.Name(name) { fields[name] = value }
        }
        let scheme = origin.prefix { $0 != ":" }
        let rest = origin.dropFirst(scheme.count + 3)
        let authority = rest.prefix { $0 != "/" }
        return HTTPRequest(
            method: .post, scheme: String(scheme), authority: String(authority),
            path: rest.dropFirst(authority.count) + EntitlementService.assistantPath, headerFields: fields)
    }
}

/// The lines of standard input.
private struct BoundedLines {
    /// The longest line, in bytes. One byte more is returned of a longer one.
    let limit: Int
    private var buffer: [UInt8] = []
    private var isAtEnd = false

    init(limit: Int) { self.limit = limit }

    /// The next line; `nil` at the end.
    mutating func next() -> [UInt8]? {
        var line: [UInt8] = []
        while true {
            if let end = buffer.firstIndex(of: 0x0A) {
                line += buffer[..<end].prefix(limit + 1 - line.count)
                buffer.removeFirst(end + 1)
                return line
            }
            line += buffer.prefix(limit + 1 - line.count)
            buffer = [UInt8](repeating: 0, count: 65_536)
            let count = isAtEnd ? 0 : read(STDIN_FILENO, &buffer, buffer.count)
            buffer.removeLast(buffer.count - max(count, 0))
            if count < 0, errno == EINTR { continue }
            if count <= 0 {
                isAtEnd = true
                return line.isEmpty ? nil : line
            }
        }
    }
}
