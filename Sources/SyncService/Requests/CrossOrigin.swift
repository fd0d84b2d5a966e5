import HTTPTypes
import SyncProtocol

/// Which web pages of other origins may ask (the Fetch standard's CORS protocol). Nothing is done with cookies, so that
/// a page can only ask with a token that it was given.
struct CrossOrigin {
    /// Origins that may ask, byte for byte.
    let origins: [String]

    private static let exposed =
        "ETag, Retry-After, Location, \(WireFields.serverTime), \(WireFields.decisions), \(WireFields.requestID)"
    private static let taken =
        "Authorization, Content-Type, If-Match, If-None-Match, \(WireFields.lastEventID), \(WireFields.requestID)"

    /// Notes in an answer that the page of `origin` may read it.
    func note(_ origin: String?, in fields: inout HTTPFields) {
        guard !origins.isEmpty else { return }
        // A cache must not hand an answer for one origin to another.
        fields[.vary] = "Origin"
        guard let origin, origins.contains(where: { $0.utf8.elementsEqual(origin.utf8) }) else { return }
        fields[.accessControlAllowOrigin] = origin
        fields[.accessControlExposeHeaders] = Self.exposed
    }

    /// The answer to the question whether a page may ask with a method and fields, of a path that takes `names`.
    func preflight(_ request: HTTPRequest, methods names: String) -> TransportAnswer {
        var response = HTTPResponse(status: .noContent)
        response.headerFields[.allow] = names
        guard request.headerFields[.accessControlRequestMethod] != nil else { return TransportAnswer(response) }
        response.headerFields[.accessControlAllowMethods] = names
        response.headerFields[.accessControlAllowHeaders] = Self.taken
        response.headerFields[.accessControlMaxAge] = "600"
        return TransportAnswer(response)
    }
}
