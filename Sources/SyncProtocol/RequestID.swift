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

extension HTTPTransport {
    /// Sends `request` as ``send(_:body:timeout:maximumByteCount:)`` does, under a name of its own, and takes no
    /// answer that has another one. An answer without any is taken: it may be a proxy's, which says what is wrong.
    ///
    /// - Parameter id: 64 bits that no other request has.
    /// - Throws: what the transport throws, and ``TransportError/Kind/interrupted`` for another request's answer.
    package func exchange(
        _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int, id: UInt64
    ) async throws(TransportError) -> TransportAnswer {
        guard let name = WireFields.requestIDName else {
            return try await send(request, body: body, timeout: timeout, maximumByteCount: maximumByteCount)
        }
        let id = String(id, radix: 16)
        var request = request
        request.headerFields[name] = id
        let answer = try await send(request, body: body, timeout: timeout, maximumByteCount: maximumByteCount)
        guard let other = answer.response.headerFields[name], other != id else { return answer }
        throw TransportError(
            .interrupted, mayHaveArrived: true,
            message: "what came is the answer to another request; something on the way mixes them up")
    }
}
