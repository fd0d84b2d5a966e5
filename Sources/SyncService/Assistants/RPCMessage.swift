package import Entitlements

/// A message of JSON-RPC 2.0, as the Model Context Protocol uses it: one object, never a batch.
package struct RPCMessage: Sendable {
    /// The text or the number that the response repeats; `nil` for a notification.
    package let id: JSON?
    /// The method; `nil` for a response of the client, which is ignored.
    package let method: String?
    /// The parameters, an object.
    package let params: JSON

    /// The largest message, in bytes.
    package static let byteCount = 1 << 20

    /// Parses a message.
    package init(parsing bytes: some Collection<UInt8>) throws(RPCError) {
        guard bytes.count <= Self.byteCount else {
            throw RPCError(.invalidRequest, "the message must have at most \(Self.byteCount) bytes, not \(bytes.count)")
        }
        let value: JSON
        do throws(InputError) { value = try JSON(parsing: bytes) } catch {
            throw RPCError(.parseError, "the message is not JSON: \(error)")
        }
        if case .array = value {
            throw RPCError(.invalidRequest, "batches are not supported: send each message on its own")
        }
        guard case .object = value else {
            throw RPCError(.invalidRequest, "the message must be an object, not \(value.typeName)")
        }
        switch value["id"] {
        case .string, .number, .decimal, nil: id = value["id"]
        case let id?: throw RPCError(.invalidRequest, "id must be a text or a number, not \(id.typeName)")
        }
        guard value["jsonrpc"]?.string == "2.0" else {
            throw RPCError(.invalidRequest, "jsonrpc must be \"2.0\"", id: id)
        }
        method = value["method"]?.string
        let isResponse = value["method"] == nil && (value["result"] != nil || value["error"] != nil)
        guard method != nil || isResponse else {
            throw RPCError(.invalidRequest, "method is required, and must be a text", id: id)
        }
        params = value["params"] ?? .object([])
        guard case .object = params else {
            throw RPCError(.invalidRequest, "params must be an object, not \(params.typeName)", id: id)
        }
    }

    /// Returns `true` if the message is answered: a request.
    package var isRequest: Bool { method != nil && id != nil }

    /// The response with `result`.
    package func response(_ result: JSON) -> JSON {
        .object([("jsonrpc", .string("2.0")), ("id", id ?? .null), ("result", result)])
    }
}

/// An error of the protocol, as opposed to one of a tool.
package struct RPCError: Error, Sendable {
    /// The codes of JSON-RPC 2.0 and of the Model Context Protocol.
    package enum Code: Int64, Sendable {
        case parseError = -32_700
        case invalidRequest = -32_600
        case methodNotFound = -32_601
        case invalidParams = -32_602
        case internalError = -32_603
        /// A header field contradicts the body.
        case headerMismatch = -32_020
        case unsupportedVersion = -32_022
        /// The server did not answer.
        case unreachable = -32_010
        /// The server refused the request before it read the message.
        case refused = -32_011
    }

    package var code: Code
    package var message: String
    package var data: JSON?
    /// The id of the request; `nil` if it is unknown.
    package var id: JSON?

    package init(_ code: Code, _ message: String, data: JSON? = nil, id: JSON? = nil) {
        (self.code, self.message, self.data, self.id) = (code, message, data, id)
    }

    /// The response that carries the error.
    package var response: JSON {
        var members: [(String, JSON)] = [("code", .number(code.rawValue)), ("message", .string(message))]
        if let data { members.append(("data", data)) }
        return .object([("jsonrpc", .string("2.0")), ("id", id ?? .null), ("error", .object(members))])
    }
}
