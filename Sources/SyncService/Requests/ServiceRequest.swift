package import HTTPTypes
package import SyncProtocol

/// A complete request.
package struct ServiceRequest: Sendable {
    /// Method, path with query, and header fields.
    package var head: HTTPRequest
    /// The body. The listener bounds its length.
    package var body: [UInt8]
    /// The client's address without a port. Rates and wrong guesses are counted by it.
    package var peer: String
    /// The user id of a local program at the other end of a Unix socket; `nil` for other connections.
    package var localUser: UInt32?
    /// Reserves room for that many more bytes of the answer to an account, before the answer is built. `false` if there
    /// is no room: the bytes must be left out, and the answer must say so. The room is released with the last byte of
    /// the answer.
    package var reserveAnswer: @Sendable (_ byteCount: Int, _ account: String?) -> Bool = { _, _ in true }

    /// A request of the given parts.
    package init(_ head: HTTPRequest, body: [UInt8] = [], peer: String) {
        (self.head, self.body, self.peer) = (head, body, peer)
    }
}

/// An answer, with the facts that the log and the metrics record about it.
package struct ServiceAnswer: Sendable {
    /// The body of an answer.
    package enum Body: Sendable {
        /// The whole body.
        case bytes([UInt8])
        /// A body in pieces, until the stream ends. The stream buffers few pieces, and ends by itself if they are not
        /// taken. The server calls `end` when it needs no more pieces, from any thread and any number of times.
        case stream(AsyncStream<[UInt8]>, end: @Sendable () -> Void)
    }

    /// Status and header fields.
    package var response: HTTPResponse
    /// The body.
    package var body: Body
    /// The path as the OpenAPI document writes it: `/v1/kv/{key}`. Never the client's text, which may contain a secret.
    package var route: String
    /// The sender of the request, if it is known: an account's name or `operator`.
    package var caller: String?
    /// The name of the account that an operator's request concerned, as the client wrote it; `nil` for requests of
    /// accounts, and for requests that concern no account.
    package var subject: String?

    /// An answer of the given parts.
    package init(
        _ response: HTTPResponse, body: Body = .bytes([]), route: String, caller: String? = nil, subject: String? = nil
    ) {
        (self.response, self.body, self.route) = (response, body, route)
        (self.caller, self.subject) = (caller, subject)
    }

    package init(_ answer: TransportAnswer, route: String, caller: String? = nil, subject: String? = nil) {
        self.init(answer.response, body: .bytes(answer.body), route: route, caller: caller, subject: subject)
    }
}
