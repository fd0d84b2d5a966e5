import HTTPTypes
import SyncProtocol

/// The web pages of other origins that may send requests (CORS, Fetch standard). The server uses no cookies, so a page
/// can only send requests with a token that it was given.
struct CrossOrigin {
    /// The permitted origins, compared byte by byte.
    let origins: [String]

    private static let exposedFields =
        "ETag, Retry-After, Location, \(WireFields.serverTime), \(WireFields.decisions), \(WireFields.requestID)"
    static let allowedFields =
        "Authorization, Content-Type, If-Match, If-None-Match, \(WireFields.lastEventID), \(WireFields.requestID)"

    /// Adds the header fields that let a page of `origin` read a response.
    func addFields(to fields: inout HTTPFields, for origin: String?) {
        guard !origins.isEmpty else { return }
        // A cache must not serve a response for one origin to another.
        fields[.vary] = "Origin"
        guard let origin, origins.contains(where: { $0.utf8.elementsEqual(origin.utf8) }) else { return }
        fields[.accessControlAllowOrigin] = origin
        fields[.accessControlExposeHeaders] = Self.exposedFields
    }

    /// The response to a preflight request for a path that accepts the methods `names`.
    func preflight(
        _ request: HTTPRequest, methods names: String, fields: String = allowedFields
    ) -> ServiceResponse {
        var response = HTTPResponse(status: .noContent)
        response.headerFields[.allow] = names
        guard request.headerFields[.accessControlRequestMethod] != nil else { return ServiceResponse(response) }
        response.headerFields[.accessControlAllowMethods] = names
        response.headerFields[.accessControlAllowHeaders] = fields
        response.headerFields[.accessControlMaxAge] = "600"
        return ServiceResponse(response)
    }
}
