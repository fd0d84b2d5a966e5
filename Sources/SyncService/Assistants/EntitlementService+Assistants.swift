import Entitlements
import HTTPTypes
import SyncCore
import SyncProtocol

// Tools for assistants, over the streamable HTTP transport of the Model Context Protocol.
extension EntitlementService {
    /// The path of the tools.
    package static let assistantPath = "/mcp"

    static let assistantRoutes = [
        // Not counted as one request, because a tool may erase an account. Each tool is counted instead.
        Route<Endpoint>(
            .post, assistantPath, .operator(.read, EntitlementService.assistant), query: [], takesLongBody: true,
            isErasure: true)
    ]

    private func assistant(_ call: Call, by caller: OperatorCaller) async throws -> ServiceResponse {
        // A page of a foreign origin must not use the operator's network (DNS rebinding).
        if let origin = call.fields.value(of: .origin) {
            let known = configuration.crossOrigin.origins + [configuration.name]
            guard known.contains(where: { $0.utf8.elementsEqual(origin.utf8) }) else {
                throw RequestError(
                    .forbidden, "the origin \"\(origin.singleLine)\" may not use the tools; see --origin")
            }
        }
        try call.fields.checkJSON()
        var subject: String?
        var isStateless = false
        var response: ServiceResponse
        do {
            let message = try RPCMessage(parsing: call.request.body)
            isStateless = AssistantProtocol.statedVersion(message) != nil
            try AssistantProtocol.check(call.fields, against: message)
            guard message.isRequest else { return ServiceResponse(HTTPResponse(status: .accepted)) }
            let result = try await AssistantProtocol.respond(
                to: message, version: configuration.version, scope: caller.scope
            ) { tool, arguments in
                subject = arguments?["account"]?.string?.singleLine
                return await run(tool, arguments, ToolCall(call: call, caller: caller))
            }
            response = try call.response(Array(result.line.utf8), to: caller)
        } catch let error as RPCError {
            response = .json(Array(error.response.line.utf8), status: error.status(isStateless: isStateless))
        }
        response.subject = subject
        return response
    }

    /// The result of a call, which may be that the tool refuses it.
    private func run(_ tool: AssistantTool, _ arguments: JSON?, _ call: ToolCall) async -> JSON {
        func content(_ text: String) -> JSON {
            .array([.object([("type", .string("text")), ("text", .string(text))])])
        }
        do {
            let result = try await tool.handler(self, try ToolArguments(arguments, tool.input), call).json
            return .object([
                ("content", content(result.line)), ("structuredContent", result), ("isError", .bool(false)),
            ])
        } catch {
            let refusal = RequestError(failure(error))
            var text = refusal.detail.visible(atMost: 2_000)
            if refusal.status == .notFound, text.contains(" account ") {
                let receiver = arguments?["to"]?.string.map { text.contains($0.quoted) } == true ? "to" : "account"
                text = "\(receiver): \(text); find_customers finds accounts by the beginning of a name"
            }
            if let wait = refusal.retryAfter { text += " (try again in \(wait) s)" }
            return .object([("content", content(text)), ("isError", .bool(true))])
        }
    }

    /// The answer of a route of the operators' API, which is asked in the caller's name with the caller's rights.
    ///
    /// - Parameter body: The body of a `POST`; empty for a `GET`.
    /// - Throws: ``RequestError`` if the route refuses the request.
    func ask(
        _ path: String, _ query: [(String, String?)] = [], body: [UInt8] = [], of tool: ToolCall
    ) async throws -> JSON {
        let method = body.isEmpty ? HTTPRequest.Method.get : .post
        let pairs = query.compactMap { name, value in value.map { "\(name)=\(WireQuery.encoded($0))" } }
        let target = path + (pairs.isEmpty ? "" : "?" + pairs.joined(separator: "&"))
        var head = HTTPRequest(method: method, scheme: nil, authority: nil, path: target)
        if !body.isEmpty { head.headerFields[.contentType] = "application/json" }
        var request = ServiceRequest(head, body: body, peer: tool.call.peer)
        request.reserveAnswer = tool.call.request.reserveAnswer
        let call = Call(request: request, target: try RequestTarget(head))
        guard let endpoint = call.target.resource.handler(of: method) else { throw RequestError.nothingHere }
        let epoch = requests.start()
        defer { requests.finish(epoch) }
        let response = await serve(call, endpoint, .operator(tool.caller))
        guard response.head.status.kind == .successful, case .bytes(let bytes) = response.body else {
            throw RequestError(response)
        }
        return try JSON(parsing: bytes)
    }

    /// A path below that of a customer.
    static func customerPath(_ account: String, _ parts: String...) -> String {
        "/v1/customers" + ([account] + parts).map { "/" + WireQuery.encoded($0).replacing("/", with: "%2F") }.joined()
    }
}

extension RPCError {
    /// The status of the response. In the revisions with a handshake, an answered request is a success.
    fileprivate func status(isStateless: Bool) -> HTTPResponse.Status {
        switch code {
        case .parseError, .invalidRequest, .headerMismatch, .unsupportedVersion: .badRequest
        case .invalidParams where isStateless: .badRequest
        case .methodNotFound where isStateless: .notFound
        default: .ok
        }
    }
}

extension RequestError {
    /// The refusal that a response carries.
    fileprivate init(_ response: ServiceResponse) {
        var detail = "the server could not do this"
        if case .bytes(let bytes) = response.body, let text = (try? JSON(parsing: bytes))?["detail"]?.string {
            detail = text
        }
        self.init(
            response.head.status, detail, retryAfter: response.head.headerFields[.retryAfter].flatMap { Int64($0) })
    }
}
