import CurlTransport
import HTTPTypes
import SyncProtocol
import TestSupport
import Testing

extension HTTPTransport {
    /// Asks `authority` for `path`.
    @discardableResult
    func ask(
        _ authority: String, _ method: String, _ body: [UInt8] = [], path: String = "/", fields: HTTPFields = [:],
        scheme: String = "http", timeout: Duration = .seconds(20), maximumByteCount: Int = 100_000
    ) async throws(TransportError) -> TransportAnswer {
        let method = HTTPRequest.Method(rawValue: method) ?? .get
        let request = HTTPRequest(
            method: method, scheme: scheme, authority: authority, path: path, headerFields: fields)
        return try await send(request, body: body, timeout: timeout, maximumByteCount: maximumByteCount)
    }

    /// Asks `server` for `path`.
    @discardableResult
    func ask(
        _ server: RawServer, _ method: String, _ body: [UInt8] = [], path: String = "/", fields: HTTPFields = [:],
        timeout: Duration = .seconds(20), maximumByteCount: Int = 100_000
    ) async throws(TransportError) -> TransportAnswer {
        try await ask(
            server.authority, method, body, path: path, fields: fields, timeout: timeout,
            maximumByteCount: maximumByteCount)
    }
}

extension HTTPStreamingTransport {
    /// Opens a stream from `server`.
    func open(_ server: RawServer, idleTimeout: Duration = .seconds(20)) async throws(TransportError) -> TransportStream
    {
        let request = HTTPRequest(method: .get, scheme: "http", authority: server.authority, path: "/stream")
        return try await stream(request, idleTimeout: idleTimeout)
    }
}

/// Expects an error of `kind`, with a message of one line.
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
