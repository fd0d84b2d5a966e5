public import HTTPTypes

/// A transport that can also deliver a response while it arrives.
public protocol HTTPStreamingTransport: HTTPTransport {
    /// Sends `request`, which has no body, and returns as soon as the header of the response has arrived.
    ///
    /// Cancelling the task ends the exchange.
    ///
    /// - Parameters:
    ///   - request: The method, address and header fields.
    ///   - idleTimeout: The longest silence, before the header and between any two bytes. An event stream may be silent
    ///     for a long time; to detect a dead connection, the server must send heartbeats.
    func stream(
        _ request: HTTPRequest, idleTimeout: Duration
    ) async throws(TransportError) -> TransportStream
}

/// A response whose body arrives in pieces. It can be iterated once.
///
/// The connection is read only as fast as the pieces are requested. Dropping the stream and its iterator, or cancelling
/// the task that waits for a piece, ends the exchange.
public struct TransportStream: AsyncSequence, Sendable {
    /// One or more bytes of the body.
    public typealias Element = [UInt8]
    /// The error of a body that ended too early.
    public typealias Failure = TransportError

    /// The status and header fields.
    public let response: HTTPResponse
    private let source: any TransportSource

    /// A stream whose body comes from `source`.
    public init(_ response: HTTPResponse, source: any TransportSource) {
        (self.response, self.source) = (response, source)
    }

    /// An iterator over the remaining pieces.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(source: source) }

    /// The iterator over the pieces of a body.
    public struct AsyncIterator: AsyncIteratorProtocol, Sendable {
        fileprivate let source: any TransportSource

        /// The next piece; `nil` at the end of the body.
        public mutating func next() async throws(TransportError) -> [UInt8]? { try await source.next() }

        /// The next piece; `nil` at the end of the body.
        public mutating func next(
            isolation actor: isolated (any Actor)?
        ) async throws(TransportError) -> [UInt8]? {
            try await source.next()
        }
    }
}

/// The source of the pieces of a body. Releasing the last reference ends the exchange.
public protocol TransportSource: AnyObject, Sendable {
    /// The next piece; `nil` at the end of the body. Calls must not overlap.
    ///
    /// - Throws: The error that ended the body too early; `cancelled` if the calling task was cancelled.
    func next() async throws(TransportError) -> [UInt8]?
}
