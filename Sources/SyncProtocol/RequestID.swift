package import HTTPTypes

extension WireFields {
    /// The identifier of a request, chosen by the client: 1 to 64 visible ASCII characters that are never reused. The
    /// server's answer repeats it, so that a client never takes an answer for that of another request. A proxy that
    /// sends one answer twice, for example, shifts all later ones.
    public static let requestID = "EntitlementSync-Request-ID"

    fileprivate static let requestIDName = HTTPField.Name(requestID)

    /// Copies the identifier of a request, if it has one, to the header fields of the answer.
    ///
    /// - Parameters:
    ///   - request: The request's header fields.
    ///   - fields: The answer's header fields.
    package static func copyRequestID(of request: HTTPFields, in fields: inout HTTPFields) {
        guard let name = requestIDName, let id = request.value(of: name), (1...64).contains(id.utf8.count),
            id.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else { return }
        fields[name] = id
    }
}

extension WireFields {
    /// The request identifier in the header fields of a request or an answer; `nil` for none.
    package static func requestID(of fields: HTTPFields) -> String? { requestIDName.flatMap(fields.value(of:)) }
}

extension TransportError {
    /// The error of an answer that carries the identifier of another request.
    package static let mismatchedAnswer = TransportError(
        .interrupted, mayHaveArrived: true,
        message: "the answer belongs to another request; a proxy between client and server mixes up answers")
}

extension HTTPTransport {
    /// Sends `request` as ``send(_:body:timeout:maximumByteCount:)`` does, with an identifier of its own, and rejects
    /// an answer with another identifier. An answer without one is accepted, because it may be a proxy's report of an
    /// error.
    ///
    /// - Parameter id: 64 bits that no other request uses.
    /// - Throws: The transport's errors, and ``TransportError/Kind/interrupted`` for an answer to another request.
    package func exchange(
        _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int, id: UInt64
    ) async throws(TransportError) -> TransportAnswer {
        let request = request.named(id)
        let answer = try await send(request, body: body, timeout: timeout, maximumByteCount: maximumByteCount)
        guard answer.response.matchesRequestID(request) else { throw .mismatchedAnswer }
        return answer
    }
}

extension HTTPStreamingTransport {
    /// Opens a stream as ``stream(_:idleTimeout:)`` does, with an identifier of its own, and rejects an answer with
    /// another identifier.
    ///
    /// - Parameter id: 64 bits that no other request uses.
    /// - Throws: The transport's errors, and ``TransportError/Kind/interrupted`` for an answer to another request.
    package func stream(
        _ request: HTTPRequest, idleTimeout: Duration, id: UInt64
    ) async throws(TransportError) -> TransportStream {
        let request = request.named(id)
        let stream = try await stream(request, idleTimeout: idleTimeout)
        guard stream.response.matchesRequestID(request) else { throw .mismatchedAnswer }
        return stream
    }
}

extension HTTPRequest {
    fileprivate func named(_ id: UInt64) -> HTTPRequest {
        guard let name = WireFields.requestIDName else { return self }
        var request = self
        request.headerFields[name] = String(id, radix: 16)
        return request
    }
}

extension HTTPResponse {
    /// Returns `true` if the answer belongs to `request` or carries no identifier.
    package func matchesRequestID(_ request: HTTPRequest) -> Bool {
        matchesRequestID(requestID: WireFields.requestID(of: request.headerFields))
    }

    /// Returns `true` if the answer belongs to the request identified by `id` or carries no identifier.
    package func matchesRequestID(requestID id: String?) -> Bool {
        guard let id, let other = WireFields.requestID(of: headerFields) else { return true }
        return other == id
    }
}
