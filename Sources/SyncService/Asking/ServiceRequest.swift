public import HTTPTypes
import SyncProtocol

/// A request as it came, all of it.
public struct ServiceRequest: Sendable {
    /// Method, path with query, and header.
    public var head: HTTPRequest
    /// The body; whoever listens bounds its length.
    public var body: [UInt8]
    /// Who asked, as far as the connection tells: an address without port. Wrong guesses are counted by it.
    public var peer: String
    /// Whether it was counted as one of its address before, by ``Service/admitStream(_:peer:)``.
    package var isCounted = false
    /// Reserves room for that many more bytes of the answer, before the answer keeps them. `false` when there is no
    /// room: the bytes must be left out, and the answer must say so. The room is given back with the answer's last
    /// byte.
    package var reserveAnswer: @Sendable (Int) -> Bool = { _ in true }

    /// A request of the given parts.
    public init(_ head: HTTPRequest, body: [UInt8] = [], peer: String) {
        (self.head, self.body, self.peer) = (head, body, peer)
    }
}

/// An answer, with what the log and the metrics say about it.
public struct ServiceAnswer: Sendable {
    /// What follows the header.
    public enum Body: Sendable {
        /// All of it.
        case bytes([UInt8])
        /// One piece after the other, until the stream ends; it holds few pieces, and ends by itself for a reader who
        /// does not read. Whoever iterates it calls `end` when nobody wants it any more, from any thread and as often
        /// as he likes: it ends soon after, and what stands behind it is released.
        case stream(AsyncStream<[UInt8]>, end: @Sendable () -> Void)
    }

    /// Status and header.
    public var response: HTTPResponse
    /// What follows.
    public var body: Body
    /// Which kind of request it was, as the OpenAPI document writes the path: `/v1/kv/{key}`. Never what the client
    /// wrote, which may be a secret or anything.
    public var route: String
    /// The sender of the request, if it is known: an account's name or `operator`.
    public var caller: String?
    /// The name of the account that a request of the operator acted upon, as the client wrote it; `nil` for requests of
    /// accounts, and for those that concern no account.
    public var subject: String?

    /// An answer of the given parts.
    public init(
        _ response: HTTPResponse, body: Body = .bytes([]), route: String, caller: String? = nil, subject: String? = nil
    ) {
        (self.response, self.body, self.route) = (response, body, route)
        (self.caller, self.subject) = (caller, subject)
    }

    init(_ answer: TransportAnswer, route: String, caller: String? = nil, subject: String? = nil) {
        self.init(answer.response, body: .bytes(answer.body), route: route, caller: caller, subject: subject)
    }
}
