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
    /// The virtual time of the arrival, in microseconds.
    let arrival: Int64

    init(_ number: Int, id: Int, _ request: HTTPRequest, _ bytes: [UInt8], at arrival: Int64) {
        (self.number, self.id) = (number, id)
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

/// The writes of one entry, to check that reads see the last one.
struct EntryHistory {
    private struct Write {
        var value: [UInt8]
        var arrival: Int64
        /// `nil` while it is unknown whether it was done.
        var completed: Int64?
        var isDone = false
    }

    private var writes: [Int: Write] = [:]

    mutating func didArrive(_ id: Int, _ value: [UInt8], at time: Int64) {
        writes[id] = Write(value: value, arrival: time)
    }

    mutating func didEnd(_ id: Int, isDone: Bool, at time: Int64) {
        writes[id]?.completed = time
        writes[id]?.isDone = isDone
    }

    /// The arrival of the last write that was done; `nil` if there is none.
    var lastDone: Int64? { writes.values.filter(\.isDone).map(\.arrival).max() }

    /// Returns `true` if a read that arrived at `time` may have found `value`: no write was done after it.
    func mayShow(_ value: [UInt8]?, at time: Int64) -> Bool {
        // A write that was refused has written nothing.
        if let value, !writes.values.contains(where: { $0.value == value && ($0.isDone || $0.completed == nil) }) {
            return false
        }
        // The last instant at which the value may have been written.
        let latest = value.map { value in
            writes.values.filter { $0.value == value }.map { $0.completed ?? .max }.max() ?? -1
        }
        return !writes.values.contains { write in
            guard write.isDone, let completed = write.completed, completed < time, write.value != value else {
                return false
            }
            return write.arrival > latest ?? -1
        }
    }
}
