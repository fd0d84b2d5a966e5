import CurlTransport
import HTTPTypes
import SyncProtocol
import TestSupport
import Testing

extension HTTPTransport {
    /// Sends a request to `authority`.
    @discardableResult
    func ask(
        _ authority: String, _ method: String, _ body: [UInt8] = [], path: String = "/", fields: HTTPFields = [:],
        scheme: String = "http", timeout: Duration = Patience.limit, maximumByteCount: Int = 100_000
    ) async throws(TransportError) -> TransportAnswer {
        let method = HTTPRequest.Method(rawValue: method) ?? .get
        let request = HTTPRequest(
            method: method, scheme: scheme, authority: authority, path: path, headerFields: fields)
        return try await send(request, body: body, timeout: timeout, maximumByteCount: maximumByteCount)
    }

    /// Sends a request to `server`.
    @discardableResult
    func ask(
        _ server: RawServer, _ method: String, _ body: [UInt8] = [], path: String = "/", fields: HTTPFields = [:],
        timeout: Duration = Patience.limit, maximumByteCount: Int = 100_000
    ) async throws(TransportError) -> TransportAnswer {
        try await ask(
            server.authority, method, body, path: path, fields: fields, timeout: timeout,
            maximumByteCount: maximumByteCount)
    }
}

extension HTTPStreamingTransport {
    /// Opens a stream from `server`.
    func open(_ server: RawServer, idleTimeout: Duration = Patience.limit) async throws(TransportError)
        -> TransportStream
    {
        let request = HTTPRequest(method: .get, scheme: "http", authority: server.authority, path: "/stream")
        return try await stream(request, idleTimeout: idleTimeout)
    }
}

extension RawServer {
    /// Starts a server that repeats the right ID in its first answer of a connection, and in later ones the ID of the
    /// previous request.
    static func alwaysLate(_ body: String) throws -> RawServer {
        try RawServer { connection, _ in
            let field = "\(WireFields.requestID): "
            var last: String?
            while let request = connection.readRequest() {
                let line = request.split(separator: "\r\n").first { $0.lowercased().hasPrefix(field.lowercased()) }
                guard let id = line?.dropFirst(field.count) else { return }
                connection.answer(body, fields: "\(field)\(last ?? String(id))\r\n")
                last = String(id)
            }
        }
    }

    /// Expects that `client` rejects an answer to another request and sends the next request on a new connection.
    func expectNoLateAnswer(
        to client: some HTTPStreamingTransport, _ method: String, _ body: String,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let method = HTTPRequest.Method(rawValue: method) ?? .get
        let request = HTTPRequest(method: method, scheme: "http", authority: authority, path: "/")
        for id in 1...2 as ClosedRange<UInt64> {
            let answer = try await client.exchange(
                request, body: [], timeout: Patience.limit, maximumByteCount: 100, id: 10 * id)
            #expect(answer.body == Array(body.utf8), sourceLocation: sourceLocation)
            let error = await expectError(.interrupted, mayHaveArrived: true, sourceLocation: sourceLocation) {
                if method == .get, id == 2 {
                    return try await client.stream(request, idleTimeout: Patience.limit, id: 21).response
                }
                return try await client.exchange(
                    request, body: [], timeout: Patience.limit, maximumByteCount: 100, id: 10 * id + 1
                ).response
            }
            #expect(error == .mismatchedAnswer, sourceLocation: sourceLocation)
            #expect(connectionCount == Int(id), sourceLocation: sourceLocation)
        }
    }
}

extension RawServer {
    /// Starts a server that answers each request with its path.
    static func echo() throws -> RawServer {
        try RawServer { connection, _ in
            while let request = connection.readRequest() {
                connection.answer(String(request.dropFirst(4).prefix { $0 != " " }))
            }
        }
    }

    /// Expects that each of 200 concurrent requests to an ``echo()`` gets its own answer.
    func expectOwnAnswers(to client: some HTTPTransport) async {
        let wrong = await withTaskGroup(of: Bool.self) { group in
            for number in 0..<200 {
                group.addTask {
                    let answer = try? await client.ask(self, "GET", path: "/\(number)")
                    return answer?.body == Array("/\(number)".utf8)
                }
            }
            return await group.reduce(into: 0) { count, isRight in count += isRight ? 0 : 1 }
        }
        #expect(wrong == 0)
    }
}

/// Expects an error of `kind` with a message of one line, and returns it.
@discardableResult
func expectError(
    _ kind: TransportError.Kind, mayHaveArrived: Bool, sourceLocation: SourceLocation = #_sourceLocation,
    _ body: () async throws -> some Any
) async -> TransportError? {
    let error = await #expect(throws: TransportError.self, sourceLocation: sourceLocation) { _ = try await body() }
    guard let error else { return nil }
    #expect(error.kind == kind, "\(error)", sourceLocation: sourceLocation)
    #expect(error.mayHaveArrived == mayHaveArrived, "\(error)", sourceLocation: sourceLocation)
    #expect(!error.message.isEmpty && !error.message.contains("\n"), "\(error)", sourceLocation: sourceLocation)
    return error
}
