import HTTPTypes
import SyncService

/// The properties of a request that its answer, the metrics and the access log need.
struct Exchange: Sendable {
    /// `nil` for input that is not a request.
    let method: HTTPRequest.Method?
    /// `nil` for input that is not a request.
    let client: Peer.Client?
    /// True on an HTTP/2 stream.
    let isStream: Bool
    let start = ContinuousClock.now

    init(_ request: IncomingRequest?, isStream: Bool) {
        (method, client, self.isStream) = (request?.head.method, request?.client, isStream)
    }

    /// The length up to which an answer is not counted in ``Admission/answers``. It is lower for HTTP/2, where a
    /// connection may have a hundred answers in flight; an HTTP/1 connection has one.
    var uncountedByteCount: Int { isStream ? 4_096 : Self.pieceByteCount }

    /// The length of the pieces in which a long answer is written. The write timeout applies to each piece.
    static let pieceByteCount = 64 << 10
}
