import CServerPages
import Crypto
import HTTPTypes
import SyncProtocol
import SyncService

/// The page of support people at `/console`, and its sessions.
///
/// A session is a cookie with the operator's token, which scripts cannot read. It authorises a request only together
/// with a header field that other sites cannot send, and only if the browser states that the page of the same origin
/// sends it. The page has no rights of its own: a request is the token's, so a revoked token ends the session.
struct Console: Sendable {
    /// The field that each request of the page has.
    static let marker = "EntitlementSync-Console"
    /// The lifetime of the cookie, in seconds: a working day.
    static let lifetime = 43_200
    /// The longest token, in bytes.
    private static let tokenByteCount = 1_024

    private static let policy =
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
        + "trusted-types 'none'"

    /// The header fields of each response with a file.
    static let fields = [
        ("Content-Security-Policy", policy), ("X-Content-Type-Options", "nosniff"), ("X-Frame-Options", "DENY"),
        ("Referrer-Policy", "no-referrer"), ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
    ]

    static let routes = RouteTable<Responder.Endpoint>([
        Route(.get, "/console", .document(Responder.consolePage)),
        Route(.post, "/console/session", .document(Responder.signIn)),
        Route(.delete, "/console/session", .document(Responder.signOut)),
        Route(.get, "/console/{file}", .document(Responder.consolePage)),
    ])

    /// The files by their names.
    static let files: [String: WebFolder.File] = {
        var (files, index): ([String: WebFolder.File], Int) = ([:], 0)
        while let page = consolePage(index)?.pointee {
            let bytes = Array(UnsafeBufferPointer(start: page.file.bytes, count: page.file.count))
            let name = String(cString: page.name)
            files[name] = WebFolder.File(
                bytes: bytes, mediaType: MediaTypes.of(name),
                tag: EntityTag(digest: Array(SHA256.hash(data: bytes).prefix(16))))
            index += 1
        }
        return files
    }()

    /// The request with the token of its session; `nil` for a request that is not the page's.
    static func authorised(_ request: HTTPRequest) -> HTTPRequest? {
        guard isOfPage(request), request.headerFields[.authorization] == nil, let token = token(in: request) else {
            return nil
        }
        var authorised = request
        authorised.headerFields[.authorization] = "Bearer \(token)"
        authorised.headerFields[.cookie] = nil
        return authorised
    }

    /// Returns `true` if the page sends the request: it has the marker, which another site cannot add without a
    /// preflight, and the browser states that both have the same origin.
    static func isOfPage(_ request: HTTPRequest) -> Bool {
        let fields = request.headerFields
        guard HTTPField.Name(marker).flatMap({ fields[$0] }) == "1" else { return false }
        if let site = HTTPField.Name("Sec-Fetch-Site").flatMap({ fields[$0] }) { return site == "same-origin" }
        // Browsers before 2023 send no such field, and an origin with each change only.
        guard let origin = fields[.origin], let authority = request.authority else { return false }
        return origin == "https://\(authority)" || origin == "http://\(authority)"
    }

    /// The field that begins a session, or ends it without a token.
    static func cookie(_ token: String?, for request: HTTPRequest) -> String {
        let (name, isSecure) = (cookieName(for: request), !isUnencrypted(request))
        return "\(name)=\(token ?? ""); Path=/; Max-Age=\(token == nil ? 0 : lifetime); HttpOnly; SameSite=Strict"
            + (isSecure ? "; Secure" : "")
    }

    /// Returns `true` if `token` can be the value of a cookie (RFC 6265, section 4.1.1).
    static func isToken(_ token: String) -> Bool {
        (1...tokenByteCount).contains(token.utf8.count)
            && token.utf8.allSatisfy { $0.isASCIIAlphanumeric(or: "-._~+/=") }
    }

    private static func token(in request: HTTPRequest) -> String? {
        value(of: cookieName(for: request), in: request).flatMap { isToken($0) ? $0 : nil }
    }

    private static func value(of name: String, in request: HTTPRequest) -> String? {
        let cookies = request.headerFields[values: .cookie].flatMap { $0.split(separator: ";") }
        return cookies.lazy.map { $0.drop { $0 == " " } }.first { $0.utf8.starts(with: (name + "=").utf8) }
            .map { String($0.dropFirst(name.count + 1)) }
    }

    /// The prefix ensures that no other host and no page without TLS has set the cookie (RFC 6265bis).
    private static func cookieName(for request: HTTPRequest) -> String {
        isUnencrypted(request) ? "syncd-console" : secureName
    }

    private static let secureName = "__Host-syncd-console"

    /// Returns `true` if a browser on this machine uses the server without TLS.
    ///
    /// A proxy may replace the authority with its own, which is on this machine. Then the origin, which browsers send
    /// with each change, or the cookie tells.
    private static func isUnencrypted(_ request: HTTPRequest) -> Bool {
        guard isLoopback(request) else { return false }
        if let origin = request.headerFields[.origin] { return origin.hasPrefix("http://") }
        return value(of: secureName, in: request) == nil
    }

    /// Returns `true` if the browser runs on this machine, where it may use a server without TLS.
    private static func isLoopback(_ request: HTTPRequest) -> Bool {
        let authority = request.authority ?? ""
        let host = authority.hasPrefix("[") ? authority.prefix { $0 != "]" } + "]" : authority.prefix { $0 != ":" }
        return ["localhost", "127.0.0.1", "[::1]"].contains(host.lowercased()) || host.hasSuffix(".localhost")
    }
}

extension Responder {
    /// The response to a request of the console's page for `/v1`; `nil` for any other request. An invalid token ends
    /// the session.
    func consoleResponse(to request: ServiceRequest) async -> ServiceResponse? {
        guard hasConsole, let head = Console.authorised(request.head) else { return nil }
        var authorised = request
        authorised.head = head
        var response = await handler.respond(to: authorised)
        if response.head.status == .unauthorized {
            response.head.headerFields[.setCookie] = Console.cookie(nil, for: request.head)
        }
        return response
    }

    /// The response with a file of the console.
    fileprivate func consolePage(_ request: ServiceRequest) -> ServiceResponse {
        let name = RequestPath(request.head).path.split(separator: "/").dropFirst().joined(separator: "/")
        guard let file = Console.files[name.isEmpty ? "index.html" : name] else {
            return RequestError.nothingHere.response
        }
        return file.response(to: request.head, Console.fields)
    }

    /// Begins a session with the token in the body.
    fileprivate func signIn(_ request: ServiceRequest) async -> ServiceResponse {
        do throws(RequestError) {
            try checkOrigin(request)
            let members = try RequestFields(request.body, request.head.headerFields)
            let token = try members.text("token").filter { !$0.isWhitespace }
            guard Console.isToken(token) else {
                throw RequestError(.unauthorized, "this is not the text of a token, which begins with est_")
            }
            // The answer names the token and its scope.
            var head = HTTPRequest(
                method: .get, scheme: request.head.scheme, authority: request.head.authority, path: "/v1/server")
            head.headerFields[.authorization] = "Bearer \(token)"
            var response = await handler.respond(to: ServiceRequest(head, body: [], peer: request.peer))
            if response.head.status == .ok {
                response.head.headerFields[.setCookie] = Console.cookie(token, for: request.head)
            }
            return response
        } catch {
            return error.response
        }
    }

    /// Ends a session: the browser forgets the token, which stays valid.
    fileprivate func signOut(_ request: ServiceRequest) -> ServiceResponse {
        do throws(RequestError) { try checkOrigin(request) } catch { return error.response }
        var head = HTTPResponse(status: .noContent)
        head.headerFields[.setCookie] = Console.cookie(nil, for: request.head)
        return ServiceResponse(head)
    }

    private func checkOrigin(_ request: ServiceRequest) throws(RequestError) {
        guard Console.isOfPage(request.head) else {
            throw RequestError(.forbidden, "only the page at /console of this server may send this request")
        }
    }
}
