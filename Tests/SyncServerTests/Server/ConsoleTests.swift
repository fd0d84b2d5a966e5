import HTTPTypes
import Logging
import ServiceTestSupport
import SyncCore
import SyncService
import Testing

@testable import SyncServer

@Suite("The console of operators")
struct ConsoleTests {
    private let clock = TestClock(1_800_000_000_000)
    private let store = MemoryBackend()
    private let service: EntitlementService
    private let tokens: OperatorTokens

    init() async throws {
        service = try await .open(store, clock: clock)
        tokens = OperatorTokens(store, host: clock.host)
    }

    private func responder(hasConsole: Bool = true) -> Responder {
        Responder(
            service, hasConsole: hasConsole, metrics: ServerMetrics(), limits: ListenerConfiguration(),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    }

    private static let page: HTTPFields = [
        .named(Console.marker): "1", .named("Sec-Fetch-Site"): "same-origin",
        .contentType: "application/json",
    ]

    private func ask(
        _ method: HTTPRequest.Method, _ path: String, _ fields: HTTPFields = [:], body: String = "",
        host: String = "sync.example.com", hasConsole: Bool = true
    ) async -> ServiceResponse {
        let head = HTTPRequest(method: method, scheme: "https", authority: host, path: path, headerFields: fields)
        return await responder(hasConsole: hasConsole).route(
            ServiceRequest(head, body: Array(body.utf8), peer: "192.0.2.1"))
    }

    /// The `Cookie` field of a session with a new token.
    private func signIn(_ name: String, _ scope: OperatorScope, expires: Int64? = nil) async throws -> HTTPFields {
        let token = try await tokens.create(name, scope: scope, expires: expires).text
        let response = await ask(.post, "/console/session", Self.page, body: "{\"token\": \" \(token)\\n\"}")
        #expect(response.head.status == .ok)
        let cookie = try #require(response.head.headerFields[.setCookie])
        #expect(
            cookie == "__Host-syncd-console=\(token); Path=/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure")
        return Self.page + [.cookie: "theme=dark; " + cookie.prefix { $0 != ";" }]
    }

    @Test("Behind a proxy that names itself, the cookie is for https pages if the page is one")
    func proxied() async throws {
        let token = try await tokens.create("desk", scope: .read, expires: nil).text
        let host = "127.0.0.1:8440"
        for (origin, name) in [
            ("https://sync.example.com", "__Host-syncd-console"), ("http://127.0.0.1:8440", "syncd-console"),
        ] {
            let begun = await ask(
                .post, "/console/session", Self.page + [.origin: origin], body: "{\"token\": \"\(token)\"}", host: host)
            let cookie = try #require(begun.head.headerFields[.setCookie])
            #expect(cookie.hasPrefix("\(name)=\(token); ") && cookie.hasSuffix("; Secure") == origin.hasPrefix("https"))
            let held: HTTPFields = Self.page + [.cookie: String(cookie.prefix { $0 != ";" })]
            #expect(await ask(.get, "/v1/server", held, host: host).head.status == .ok, "\(origin)")
        }
    }

    @Test("Every file is served with a strict policy and an entity tag, and nothing is without --console")
    func files() async throws {
        #expect(Console.files.count == 13)
        for (name, file) in Console.files {
            let path = "/console/" + (name == "index.html" ? "" : name)
            let response = await ask(.get, path)
            guard case .bytes(let bytes) = response.body else {
                Issue.record("\(path) is a stream")
                continue
            }
            #expect(response.head.status == .ok && bytes == file.bytes, "\(path)")
            let fields = response.head.headerFields
            let policy = fields[.named("Content-Security-Policy")] ?? ""
            for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'none'"] {
                #expect(policy.contains(part), "\(path): \(part)")
            }
            #expect(!policy.contains("unsafe"))
            #expect(fields[.named("X-Content-Type-Options")] == "nosniff")
            #expect(fields[.named("Referrer-Policy")] == "no-referrer")
            #expect(fields[.cacheControl] == "no-cache")
            let again = await ask(.get, path, [.ifNoneMatch: fields[.eTag] ?? ""])
            #expect(again.head.status == .notModified, "\(path)")
            #expect(await ask(.get, path, hasConsole: false).head.status == .notFound, "\(path)")
        }
        #expect(await ask(.get, "/console").head.status == .ok)
        for path in ["/console/x.js", "/console/../x", "/console/a/b", "/console/%2e%2e"] {
            #expect(await ask(.get, path).head.status == .notFound, "\(path)")
        }
    }

    @Test("No file names another host, loads code by a string, or writes HTML")
    func contents() {
        for (name, file) in Console.files where name != "icon.svg" {
            let text = String(decoding: file.bytes, as: UTF8.self)
            for word in ["innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "new Function", "style=\"", "//cdn"] {
                #expect(!text.contains(word), "\(name): \(word)")
            }
            let hosts = text.split(separator: "\"").filter {
                $0.hasPrefix("http") && !$0.hasPrefix("http://www.w3.org/")
            }
            #expect(hosts.isEmpty, "\(name): \(hosts)")
        }
    }

    @Test("A cookie authorises a request of the page only: with the marker, and from the same origin")
    func forgery() async throws {
        let session = try await signIn("helpdesk", .support)
        #expect(await ask(.get, "/v1/server", session).head.status == .ok)
        #expect(await ask(.get, "/v1/server", session, hasConsole: false).head.status == .unauthorized)
        // The cookie for pages without TLS counts on this machine only.
        let plain = Self.page + [.cookie: (session[.cookie] ?? "").replacing("__Host-", with: "")]
        #expect(await ask(.get, "/v1/server", plain).head.status == .unauthorized)
        #expect(await ask(.get, "/v1/server", plain, host: "localhost:8440").head.status == .ok)
        let (marker, site) = (HTTPField.Name.named(Console.marker), HTTPField.Name.named("Sec-Fetch-Site"))
        let forged: [(String, HTTPFields)] = [
            ("no marker", [site: "same-origin"]), ("another marker", [marker: "0", site: "same-origin"]),
            ("another site", [marker: "1", site: "cross-site"]), ("a neighbour", [marker: "1", site: "same-site"]),
            ("a link", [marker: "1", site: "none"]), ("no origin", [marker: "1"]),
            ("another origin", [marker: "1", .origin: "https://evil.example"]),
            ("another port", [marker: "1", .origin: "https://sync.example.com:8443"]),
            ("no origin of its own", [marker: "1", .origin: "null"]),
            ("contradictions", [marker: "1", site: "cross-site", .origin: "https://sync.example.com"]),
        ]
        for (name, fields) in forged {
            let cookie: HTTPFields = [.cookie: session[.cookie] ?? "", .contentType: "application/json"]
            for (method, path) in [
                (.get, "/v1/customers/alice"), (.post, "/v1/customers/alice/grants"), (.get, "/v1/server"),
            ] as [(HTTPRequest.Method, String)] {
                let response = await ask(method, path, cookie + fields, body: method == .get ? "" : "{}")
                #expect(response.head.status == .unauthorized, "\(name): \(method) \(path)")
            }
            #expect(await ask(.post, "/console/session", fields, body: "{}").head.status == .forbidden, "\(name)")
            #expect(await ask(.delete, "/console/session", fields).head.status == .forbidden, "\(name)")
        }
        let old: HTTPFields = [marker: "1", .origin: "https://sync.example.com", .cookie: session[.cookie] ?? ""]
        #expect(await ask(.get, "/v1/server", old).head.status == .ok)
        // A request with a token of its own is not the page's.
        let both = session + [.authorization: "Bearer est_0000000000000000_0"]
        #expect(await ask(.get, "/v1/server", both).head.status == .unauthorized)
    }

    @Test("A revoked token and an expired one end the session, and signing out deletes the cookie")
    func end() async throws {
        let lost = try await signIn("lost", .support)
        let brief = try await signIn("brief", .read, expires: clock.now + 1_000)
        _ = try await tokens.revoke("lost")
        clock.pass(seconds: 1)
        for session in [lost, brief] {
            // Another server of the store, as this one learns of the change only while it runs.
            let other = try await EntitlementService.open(store, clock: clock)
            let head = HTTPRequest(
                method: .get, scheme: "https", authority: "sync.example.com", path: "/v1/server", headerFields: session)
            let response = await Responder(
                other, hasConsole: true, metrics: ServerMetrics(), limits: ListenerConfiguration(),
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            ).route(ServiceRequest(head, peer: "192.0.2.1"))
            #expect(response.head.status == .unauthorized)
            #expect(
                response.head.headerFields[.setCookie]
                    == "__Host-syncd-console=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict; Secure")
        }
        let out = await ask(.delete, "/console/session", Self.page, host: "127.0.0.1:8440")
        #expect(out.head.status == .noContent)
        #expect(
            out.head.headerFields[.setCookie] == "syncd-console=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict")
    }

    @Test("A token that is wrong or cannot be a cookie begins no session")
    func wrongTokens() async throws {
        for token in ["est_0000000000000000_00", "x; Domain=evil", "", String(repeating: "x", count: 2_000)] {
            let response = await ask(.post, "/console/session", Self.page, body: "{\"token\": \"\(token)\"}")
            #expect(response.head.status == .unauthorized, "\(token.prefix(20))")
            #expect(response.head.headerFields[.setCookie] == nil)
        }
        #expect(await ask(.post, "/console/session", Self.page, body: "[]").head.status == .badRequest)
        #expect(await ask(.get, "/console/session", Self.page).head.status == .methodNotAllowed)
    }

    @Test("A session with the scope read performs no act")
    func readOnly() async throws {
        let session = try await signIn("dashboard", .read)
        for (method, path) in [
            (.post, "/v1/customers/alice/grants"), (.post, "/v1/customers/alice/refunds"),
            (.post, "/v1/customers/alice/transfers"), (.post, "/v1/customers/alice/recovery"),
            (.post, "/v1/customers/alice/erasure"), (.delete, "/v1/customers/alice/sessions"),
            (.put, "/v1/customers/alice/external-id"), (.post, "/v1/webhooks/crm/deliveries"), (.post, "/v1/tokens"),
            (.get, "/v1/kv/notes"),
        ] as [(HTTPRequest.Method, String)] {
            for path in [path, path + "?dry-run=true"] {
                #expect(await ask(method, path, session, body: "{}").head.status == .forbidden, "\(method) \(path)")
            }
        }
    }
}

extension HTTPFields {
    /// The fields of both; those of `other` replace those of the same name.
    fileprivate static func + (fields: HTTPFields, other: HTTPFields) -> HTTPFields {
        other.reduce(into: fields) { $0[$1.name] = $1.value }
    }
}

extension HTTPField.Name {
    /// The name of a field that the library has no constant for.
    fileprivate static func named(_ text: String) -> HTTPField.Name { HTTPField.Name(text) ?? .accept }
}
