import HTTPTypes
import SyncCore
import SyncProtocol
import SyncService

extension Responder {
    private static let route = "web"
    /// Allows resources and requests of the same origin only, and no framing.
    private static let policy =
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
        + "frame-ancestors 'none'"

    /// Answers with a file of the web folder.
    func answer(to request: ServiceRequest, _ web: WebFolder, _ path: String) async -> ServiceAnswer {
        guard request.head.method == .get else {
            var answer = refusal(
                RefusedRequest(.methodNotAllowed, "this path accepts GET, HEAD"), to: nil, route: Self.route)
            answer.response.headerFields[.allow] = "GET, HEAD"
            return answer
        }
        guard let file = await web.file(at: path) else {
            return refusal(RefusedRequest(.notFound, "there is nothing at this path"), to: nil, route: Self.route)
        }
        var response = HTTPResponse(status: .ok)
        WireFields.note(serverTime: host.now(), in: &response.headerFields)
        response.headerFields[.eTag] = file.tag
        // Browsers must revalidate, so that a page and its scripts match. The entity tag makes that cheap.
        response.headerFields[.cacheControl] = "no-cache"
        for (name, value) in [
            ("Content-Security-Policy", Self.policy), ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"), ("Cross-Origin-Opener-Policy", "same-origin"),
        ] {
            guard let name = HTTPField.Name(name) else { continue }
            response.headerFields[name] = value
        }
        if let field = request.head.headerFields[.ifNoneMatch], Self.isKnown(file.tag, by: field) {
            response.status = .notModified
            return ServiceAnswer(response, route: Self.route)
        }
        response.headerFields[.contentType] = file.mediaType
        return ServiceAnswer(response, body: .bytes(file.bytes), route: Self.route)
    }

    /// Returns `true` if `If-None-Match` matches `tag` by weak comparison (RFC 9110, section 13.1.2).
    private static func isKnown(_ tag: String, by field: String) -> Bool {
        switch TagCondition(field) {
        case .anything: true
        case .tags(let tags): tags.contains { EntityTag(strong: $0).description == tag }
        case nil: false
        }
    }
}
