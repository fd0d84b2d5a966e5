public import HTTPTypes

/// Sends HTTP requests and receives the responses: libcurl, URLSession, a simulated network.
///
/// A transport follows no redirects, keeps no cookies, and never retries: only the caller knows which requests are safe
/// to repeat. If a connection of HTTP/1.1 delivers the response to another request, which ``WireFields/requestID``
/// reveals, the transport must not reuse the connection, because all later responses on it would be shifted as well.
/// The exchange then ends with ``TransportError/Kind/interrupted``.
public protocol HTTPTransport: Sendable {
    /// Sends `request` and reads the whole response.
    ///
    /// Cancelling the task ends the exchange.
    ///
    /// - Parameters:
    ///   - request: The method, address and header fields.
    ///   - body: The bytes sent after the header; empty for none.
    ///   - timeout: The time limit of the whole exchange.
    ///   - maximumByteCount: The largest body, in bytes. A longer response fails with ``TransportError/Kind/tooLarge``.
    func send(
        _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int
    ) async throws(TransportError) -> TransportAnswer
}

/// A complete response.
public struct TransportAnswer: Hashable, Sendable {
    /// The status and header fields.
    public var response: HTTPResponse
    /// The body, without any transfer coding.
    public var body: [UInt8]

    /// A response of the given parts.
    public init(_ response: HTTPResponse, body: [UInt8] = []) {
        self.response = response
        self.body = body
    }
}

/// The error of an exchange that did not bring a complete response.
public struct TransportError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The category of an error, for programs to act on.
    public enum Kind: String, Hashable, Sendable {
        /// No server responds at that address, or the host name is unknown.
        case unreachable
        /// The server could not prove its identity.
        case untrusted
        /// The connection ended in the middle of the exchange.
        case interrupted
        /// The time limit was exceeded.
        case timedOut
        /// The response is not valid HTTP.
        case malformed
        /// The response is longer than allowed.
        case tooLarge
        /// The task was cancelled.
        case cancelled
        /// Any other error.
        case other
    }

    /// The category of the error.
    public let kind: Kind
    /// True if the whole request may have reached the server, so that its effect may have taken place.
    public let mayHaveArrived: Bool
    /// A one-line description for people.
    public let message: String

    /// An error of `kind`.
    public init(_ kind: Kind, mayHaveArrived: Bool, message: String) {
        self.kind = kind
        self.mayHaveArrived = mayHaveArrived
        self.message = message
    }

    /// Kind and message.
    public var description: String { "\(kind.rawValue): \(message)" }
}
