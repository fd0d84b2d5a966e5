package import HTTPTypes

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
