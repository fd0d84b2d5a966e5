import Entitlements
import HTTPTypes
import SyncService

/// A request that arrived at a server. A repeated message arrives more than once.
final class Delivery {
    let number: Int
    /// The number of the arrival, which differs for each repetition of the message.
    let id: Int
    let method: HTTPRequest.Method
    /// The path without its query.
    let path: String
    let query: String
    /// The token of the request.
    let bearer: String?
    let bytes: [UInt8]
    /// The body, if it is JSON.
    let body: JSON?
    /// The version that a conditional write replaces, as an entity tag.
    let replacedTag: String?
    /// The virtual time of the arrival, in microseconds.
    let arrival: Int64
    /// The process that received it.
    unowned let process: ServerProcess
    /// The error of its wall clock at the arrival, in milliseconds.
    let clockOffset: Int64

    init(
        _ number: Int, id: Int, _ request: HTTPRequest, _ bytes: [UInt8], to process: ServerProcess, at arrival: Int64
    ) {
        (self.number, self.id, self.process) = (number, id, process)
        clockOffset = process.machine.clockOffset
        replacedTag = request.headerFields[.ifMatch]
        (self.arrival, self.bytes, method) = (arrival, bytes, request.method)
        let parts = (request.path ?? "").split(separator: "?", maxSplits: 1).map(String.init)
        (path, query) = (parts.first ?? "", parts.count > 1 ? parts[1] : "")
        bearer = request.headerFields[.authorization].map { String($0.dropFirst("Bearer ".count)) }
        body = (bytes.first == UInt8(ascii: "{")) ? try? JSON(parsing: bytes) : nil
    }

    /// A text in the body.
    func text(_ name: String) -> String? { body?[name]?.string }

    /// The key of an entry that the request concerns.
    var key: String? { path.hasPrefix("/v1/kv/") ? String(path.dropFirst("/v1/kv/".count)) : nil }
}

/// One life of an account's name, from a sign-up to an erasure.
final class Life {
    let incarnation: String
    let name: String
    /// The virtual time of the first request for its erasure that arrived.
    var erasureAsked: Int64?
    /// The virtual time at which an erasure was answered.
    var erasedAt: Int64?
    /// True if a server was frozen and then killed while it had a request of this life.
    var hasLostRequest = false

    init(_ name: String, _ incarnation: String) { (self.name, self.incarnation) = (name, incarnation) }
}

/// A session: the tokens that refresh each other.
final class Chain {
    let life: Life
    /// The password from which its authority comes; `nil` if it is unknown.
    var password: String?
    /// The virtual time at which it was issued.
    let issued: Int64
    /// The virtual time at which its end was answered, and the reason.
    private(set) var ended: (at: Int64, reason: String)?

    init(_ life: Life, password: String?, issued: Int64) {
        (self.life, self.password, self.issued) = (life, password, issued)
    }

    func end(at time: Int64, _ reason: String) { ended = ended ?? (time, reason) }
}

/// A password that a request has set or tried to set.
struct Password {
    /// The folded name of the account.
    var name: String
    /// The life that it belongs to; `nil` while that is unknown.
    var life: Life?
    /// The arrival of the first request that set it, and the time at which its end was answered.
    var introduced: Int64
    var ended: Int64?
}

/// The tokens in an answer, with their origin.
struct IssuedTokens {
    var access: String
    var refresh: String
    var life: Life
    var chain: Chain
    /// The path of the request and the kind of its credential.
    var origin: String
}
