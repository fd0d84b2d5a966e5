public import HTTPTypes

/// A transport that can also hand out an answer while it comes.
public protocol HTTPStreamingTransport: HTTPTransport {
    /// Sends `request`, which has no body, and answers as soon as the header of the answer is there.
    ///
    /// Cancelling the task ends the exchange.
    ///
    /// - Parameters:
    ///   - request: method, address and header.
    ///   - idleTimeout: how long nothing may come, before the header and between any two bytes. A stream may be silent
    ///     for long; whoever wants to notice that its connection is dead lets the server say something now and then.
    func stream(
        _ request: HTTPRequest, idleTimeout: Duration
    ) async throws(TransportError) -> TransportStream
}

/// An answer whose body comes piece by piece. To be iterated once.
///
/// The connection is read only as fast as the pieces are asked for. Dropping the stream and its iterator, or cancelling
/// the task that waits for a piece, ends the exchange.
public struct TransportStream: AsyncSequence, Sendable {
    /// Some bytes of the body, one or more.
    public typealias Element = [UInt8]
    /// Why it ended too early.
    public typealias Failure = TransportError

    /// Status and header.
    public let response: HTTPResponse
    private let source: any TransportSource

    /// A stream whose body comes from `source`.
    public init(_ response: HTTPResponse, source: any TransportSource) {
        (self.response, self.source) = (response, source)
    }

    /// The pieces from here on.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(source: source) }

    /// The pieces of a body.
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

/// Where the pieces of a body come from. When nobody holds it any more, it ends its exchange.
public protocol TransportSource: AnyObject, Sendable {
    /// The next piece; `nil` at the end of the body. One caller at a time.
    ///
    /// - Throws: what ended the body too early, `cancelled` where it was the calling task.
    func next() async throws(TransportError) -> [UInt8]?
}
