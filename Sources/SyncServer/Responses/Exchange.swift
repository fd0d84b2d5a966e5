import HTTPTypes
import SyncService

/// The facts about a request that its answer, the metrics and the log need.
struct Exchange: Sendable {
    /// `nil` for input that was no request.
    let method: HTTPRequest.Method?
    /// `nil` for input that was no request.
    let client: Peer.Client?
    let isStream: Bool
    let start = ContinuousClock.now

    init(_ request: IncomingRequest?, isStream: Bool) {
        (method, client, self.isStream) = (request?.head.method, request?.client, isStream)
    }

    /// The longest answer whose bytes are not counted until the client has taken them. A connection of HTTP/1 has one
    /// answer under way, one of HTTP/2 has a hundred.
    var uncountedByteCount: Int { isStream ? 4_096 : Self.pieceByteCount }

    /// The part of a long answer that is written at once. Each has the write timeout for itself.
    static let pieceByteCount = 64 << 10
}
