public import HTTPTypes

/// What carries requests to a server and answers back: libcurl, URLSession, a simulated network.
///
/// It follows no redirect, keeps no cookies and repeats nothing: whoever asked knows better what may be done twice.
/// A connection of HTTP/1.1 that hands out the answer to another request, as ``WireFields/requestID`` tells, is not to
/// be used again: all that come after it would be one too late as well. The exchange ends with
/// ``TransportError/Kind/interrupted``.
public protocol HTTPTransport: Sendable {
    /// Sends `request` and reads all of the answer.
    ///
    /// Cancelling the task ends the exchange.
    ///
    /// - Parameters:
    ///   - request: method, address and header.
    ///   - body: what is sent after the header, empty for nothing.
    ///   - timeout: how long all of it may take.
    ///   - maximumByteCount: a longer answer is ``TransportError/Kind/tooLarge``.
    func send(
        _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int
    ) async throws(TransportError) -> TransportAnswer
}

/// All of an answer.
public struct TransportAnswer: Hashable, Sendable {
    /// Status and header.
    public var response: HTTPResponse
    /// The body, without any coding of the transfer.
    public var body: [UInt8]

    /// An answer of these parts.
    public init(_ response: HTTPResponse, body: [UInt8] = []) {
        self.response = response
        self.body = body
    }
}

/// An exchange that brought no whole answer.
public struct TransportError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What went wrong, for a program to decide by.
    public enum Kind: String, Hashable, Sendable {
        /// Nobody answers at that address, or there is none of that name.
        case unreachable
        /// The other side cannot prove who it is.
        case untrusted
        /// The connection ended in the middle.
        case interrupted
        /// It took too long.
        case timedOut
        /// What came is no HTTP.
        case malformed
        /// The answer is longer than allowed.
        case tooLarge
        /// The task was cancelled.
        case cancelled
        /// None of the others.
        case other
    }

    /// What went wrong.
    public let kind: Kind
    /// Whether the request may have reached the server, all of it; so what it asked for may have been done.
    public let mayHaveArrived: Bool
    /// One line for a person.
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
