import Foundation
import TestSupport
import Testing

@Suite(
    "Behind a real proxy (Apache mod_proxy)",
    .enabled(if: ReverseProxy.isInstalled, "Apache with mod_proxy is not installed: apt-get install apache2-bin"))
struct ReverseProxyTests {
    /// The status of an unauthenticated request from `client` through the proxy.
    private func ask(_ proxy: ReverseProxy, as client: String, fields: [String] = []) throws -> Int? {
        let fields = ["\(ReverseProxy.clientField): \(client)"] + fields
        return try SyncServerTests.ask(proxy.port, "GET", "/v1/kv/a", fields: fields)?.status
    }

    @Test("Each client has its own rate limit despite forged fields, and the proxy itself has none")
    func clients() throws {
        let server = try ServerProcess(
            store: "memory:", options: ["--trusted-proxy", "127.0.0.1", "--limit", "stranger-requests=0.001/5"])
        let proxy = try ReverseProxy(to: server.port)
        for _ in 0..<5 { #expect(try ask(proxy, as: "203.0.113.1") == 401) }
        #expect(try ask(proxy, as: "203.0.113.1") == 429)
        #expect(try ask(proxy, as: "203.0.113.2") == 401)
        for forged in ["198.51.100.7", "203.0.113.2, 198.51.100.7", "rubbish", "127.0.0.1"] {
            #expect(try ask(proxy, as: "203.0.113.1", fields: ["X-Forwarded-For: \(forged)"]) == 429, "\(forged)")
        }
        // An IPv6 /64 counts as one address.
        for number in 1...5 { #expect(try ask(proxy, as: "2001:db8::\(number)") == 401) }
        #expect(try ask(proxy, as: "2001:db8::6") == 429)
        #expect(try ask(proxy, as: "2001:db8:0:1::1") == 401)
        // Direct requests from a loopback address are not limited.
        for _ in 0..<20 { #expect(try SyncServerTests.ask(server.port, "GET", "/v1/kv/a")?.status == 401) }
        #expect(server.stop() == 0)
    }

    @Test("Password guesses through the proxy do not block log-ins of other clients")
    func guesses() throws {
        let server = try ServerProcess(
            store: "memory:", options: ["--trusted-proxy", "127.0.0.1", "--limit", "log-ins=0.001/3"])
        let proxy = try ReverseProxy(to: server.port)
        _ = try AttackStage.signUp("alice", server)
        func logIn(as client: String, password: String) throws -> Int? {
            let body = #"{"grant_type":"password","username":"alice","password":"\#(password)"}"#
            return try SyncServerTests.ask(
                proxy.port, "POST", "/v1/sessions",
                fields: ["Content-Type: application/json", "\(ReverseProxy.clientField): \(client)"], body: body)?
                .status
        }
        var statuses: [Int?] = []
        for number in 0..<4 { statuses.append(try logIn(as: "203.0.113.1", password: "guess \(number)")) }
        #expect(statuses.last == 429)
        #expect(!statuses.contains(200))
        #expect(try logIn(as: "203.0.113.2", password: "correct horse") == 200)
        #expect(server.stop() == 0)
    }

    @Test(
        "All clients behind an untrusted proxy count as one client",
        .enabled(if: NetworkAddress.first != nil, "this machine has only loopback addresses"))
    func unknown() throws {
        let address = try #require(NetworkAddress.first)
        let server = try ServerProcess(
            store: "memory:",
            options: [
                "--listen", "\(address):0", "--insecure-http", "--name", "http://localhost", "--limit",
                "stranger-requests=0.001/5",
            ])
        let proxy = try ReverseProxy(to: server.port, host: address)
        for number in 1...5 { #expect(try ask(proxy, as: "203.0.113.\(number)") == 401) }
        #expect(try ask(proxy, as: "203.0.113.6") == 429)
        #expect(server.stop() == 0)
    }
}
