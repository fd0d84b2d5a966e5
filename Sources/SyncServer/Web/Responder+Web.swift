import HTTPTypes
import SyncCore
import SyncProtocol
import SyncService

extension Responder {
    /// Allows resources and requests of the same origin only, and no framing.
    private static let policy =
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
        + "frame-ancestors 'none'"

    /// The response with a file of the web folder.
    func page(_ request: ServiceRequest) async -> ServiceResponse {
        guard let file = await web?.file(at: RequestPath(request.head).path) else {
            return RequestError.nothingHere.response
        }
        return file.response(
            to: request.head,
            [
                ("Content-Security-Policy", Self.policy), ("X-Content-Type-Options", "nosniff"),
                ("Referrer-Policy", "no-referrer"), ("Cross-Origin-Opener-Policy", "same-origin"),
            ])
    }
}

extension WebFolder.File {
    /// The response with the file and the header fields `fields`.
    func response(to request: HTTPRequest, _ fields: [(String, String)]) -> ServiceResponse {
        var response = HTTPResponse(status: .ok)
        response.headerFields[.eTag] = tag.description
        // Browsers must revalidate, so that a page and its scripts match. The entity tag makes that cheap.
        response.headerFields[.cacheControl] = "no-cache"
        for (name, value) in fields {
            guard let name = HTTPField.Name(name) else { continue }
            response.headerFields[name] = value
        }
        if request.headerFields.isKnown(tag) == true {
            response.status = .notModified
            return ServiceResponse(response)
        }
        response.headerFields[.contentType] = mediaType
        return ServiceResponse(response, body: bytes)
    }
}
