import HTTPTypes
import SyncService
import Testing

@Suite("The table of routes")
struct RouteTableTests {
    private static let table = RouteTable<String>([
        Route(.get, "/v1/kv/{key...}", "read"),
        Route(.delete, "/v1/kv/{key...}", "delete"),
        Route(.get, "/v1/accounts", "list"),
        Route(.post, "/v1/accounts/self/erasure", "own"),
        Route(.post, "/v1/accounts/{name}/erasure", "erase"),
        Route(.put, "/v1/{class}/{id}", "save"),
    ])

    private func respond(_ method: HTTPRequest.Method, _ path: String, preflight: Bool = true) async -> ServiceResponse?
    {
        let head = HTTPRequest(method: method, scheme: "http", authority: "x", path: path)
        var asked: [String] = []
        let response = await Self.table.resource(at: RequestPath(head).path)?.respond(
            to: ServiceRequest(head, peer: "192.0.2.1"),
            preflight: preflight
                ? { ServiceResponse(HTTPResponse(status: .noContent, headerFields: [.allow: $0])) } : nil
        ) { request, handler in
            asked.append(handler)
            return ServiceResponse(HTTPResponse(status: .ok), body: Array("\(request.head.method) \(handler)".utf8))
        }
        #expect(asked.count == (response?.head.status == .ok ? 1 : 0))
        return response
    }

    @Test(
        "A request goes to the first path that matches, with the parameters of the path",
        arguments: [
            ("/v1/kv/a/b", "/v1/kv/{key}", ["a/b"]), ("/v1/kv/", "/v1/kv/{key}", [""]),
            ("/v1/accounts", "/v1/accounts", []), ("/v1/accounts/self/erasure", "/v1/accounts/self/erasure", []),
            ("/v1/accounts/a%2Fb/erasure", "/v1/accounts/{name}/erasure", ["a%2Fb"]),
            ("/v1/notes/7", "/v1/{class}/{id}", ["notes", "7"]),
            ("/v1/kv", nil, []), ("/v1/accounts/", "/v1/{class}/{id}", ["accounts", ""]),
            ("/v1/accounts/a/b/erasure", nil, []), ("/v1", nil, []), ("", nil, []),
        ] as [(String, String?, [String])])
    func matching(path: String, pattern: String?, parameters: [String]) {
        let resource = Self.table.resource(at: path)
        #expect(resource?.path == pattern)
        #expect(resource?.parameters(in: path).map(String.init) ?? [] == parameters)
    }

    @Test("HEAD is handled as GET, and the query does not matter")
    func head() async throws {
        let response = try #require(await respond(.head, "/v1/accounts?limit=1"))
        guard case .bytes(let bytes) = response.body else { throw CancellationError() }
        #expect(String(decoding: bytes, as: UTF8.self) == "GET list" && response.route == "/v1/accounts")
    }

    @Test("Another method gets 405 with the accepted ones, and OPTIONS gets them where there is a preflight")
    func methods() async {
        let allowed = "GET, HEAD, DELETE"
        let put = await respond(.put, "/v1/kv/a")
        #expect(put?.head.status == .methodNotAllowed && put?.head.headerFields[.allow] == allowed + ", OPTIONS")
        #expect(put?.route == "/v1/kv/{key}")
        #expect(await respond(.options, "/v1/kv/a")?.head.headerFields[.allow] == allowed + ", OPTIONS")
        let options = await respond(.options, "/v1/kv/a", preflight: false)
        #expect(options?.head.status == .methodNotAllowed && options?.head.headerFields[.allow] == allowed)
    }

    @Test("A part of a path is decoded once, and must be text")
    func decoding() {
        #expect(RequestPath.decoded("a%26b=c&d+e") == "a&b=c&d+e")
        #expect(RequestPath.decoded("%2525") == "%25")
        for part in ["", "%", "%FF"] as [Substring] { #expect(RequestPath.decoded(part) == nil) }
    }
}
