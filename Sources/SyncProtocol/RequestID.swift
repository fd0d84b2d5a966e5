public import HTTPTypes

extension WireFields {
    /// What a client names its request by: 1 to 64 visible ASCII characters that nobody repeats. The server's answer
    /// has the same, so that a client whose answers were mixed up on the way (a proxy that sends one twice, and all
    /// after it one too late) takes none for that of another request.
    public static let requestID = "EntitlementSync-Request-ID"

    fileprivate static let requestIDName = HTTPField.Name(requestID)

    /// Copies the name of a request to its answer, where it has one.
    ///
    /// - Parameters:
    ///   - request: the request's fields.
    ///   - fields: the answer's.
    public static func noteRequestID(of request: HTTPFields, in fields: inout HTTPFields) {
        guard let name = requestIDName, let id = request.value(of: name), (1...64).contains(id.utf8.count),
            id.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else { return }
        fields[name] = id
    }
}

extension WireFields {
    /// The name of the request whose header, or whose answer's, has these fields; `nil` for none.
    package static func requestID(of fields: HTTPFields) -> String? { requestIDName.flatMap(fields.value(of:)) }
}

extension TransportError {
    /// What came names another request than the one that was sent.
    package static let answerOfAnother = TransportError(
        .interrupted, mayHaveArrived: true,
        message: "what came is the answer to another request; something on the way mixes them up")
}

extension HTTPTransport {
    /// Sends `request` as ``send(_:body:timeout:maximumByteCount:)`` does, under a name of its own, and takes no
    /// answer that has another one. An answer without any is taken: it may be a proxy's, which says what is wrong.
    ///
    /// - Parameter id: 64 bits that no other request has.
    /// - Throws: what the transport throws, and ``TransportError/Kind/interrupted`` for another request's answer.
    package func exchange(
        _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int, id: UInt64
    ) async throws(TransportError) -> TransportAnswer {
        let request = request.named(id)
        let answer = try await send(request, body: body, timeout: timeout, maximumByteCount: maximumByteCount)
        guard answer.response.mayAnswer(request) else { throw .answerOfAnother }
        return answer
    }
}

extension HTTPStreamingTransport {
    /// Opens a stream as ``stream(_:idleTimeout:)`` does, of a request with a name of its own, and takes no answer that
    /// has another one.
    ///
    /// - Parameter id: 64 bits that no other request has.
    /// - Throws: what the transport throws, and ``TransportError/Kind/interrupted`` for another request's answer.
    package func stream(
        _ request: HTTPRequest, idleTimeout: Duration, id: UInt64
    ) async throws(TransportError) -> TransportStream {
        let request = request.named(id)
        let stream = try await stream(request, idleTimeout: idleTimeout)
        guard stream.response.mayAnswer(request) else { throw .answerOfAnother }
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
    /// Whether the answer is of `request`, or does not say so.
    package func mayAnswer(_ request: HTTPRequest) -> Bool {
        mayAnswer(requestID: WireFields.requestID(of: request.headerFields))
    }

    /// Whether the answer is of the request with that name, or does not say so.
    package func mayAnswer(requestID id: String?) -> Bool {
        guard let id, let other = WireFields.requestID(of: headerFields) else { return true }
        return other == id
    }
}
