package import HTTPTypes
import SyncProtocol

/// The web pages of other origins that may send requests (CORS, Fetch standard). A page can only send requests with a
/// token that it was given: the cookie of the console counts only in requests of its own origin.
package struct CrossOrigin: Sendable {
    /// The permitted origins, compared byte by byte.
    let origins: [String]

    private static let exposedFields =
        "ETag, Retry-After, Location, \(WireFields.serverTime), \(WireFields.decisions), \(WireFields.requestID)"
    /// The header fields that a page may send to `/v1`.
    package static let allowedFields =
        "Authorization, Content-Type, If-Match, If-None-Match, \(WireFields.lastEventID), \(WireFields.requestID), "
        + "MCP-Protocol-Version, Mcp-Method, Mcp-Name"

    /// Adds the header fields that let the page that sent `request` read its response.
    package func addFields(to fields: inout HTTPFields, for request: HTTPRequest) {
        guard !origins.isEmpty else { return }
        // A cache must not serve a response for one origin to another.
        fields[.vary] = "Origin"
        guard let origin = request.headerFields.value(of: .origin),
            origins.contains(where: { $0.utf8.elementsEqual(origin.utf8) })
        else { return }
        fields[.accessControlAllowOrigin] = origin
        fields[.accessControlExposeHeaders] = Self.exposedFields
    }

    /// The response to a preflight request for a path that accepts the methods `names`, and the header `fields`.
    package func preflight(
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
