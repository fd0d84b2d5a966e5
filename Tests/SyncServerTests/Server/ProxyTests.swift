import HTTPTypes
import Testing

@testable import SyncServer
import SyncService

@Suite("Trusted proxies")
struct ProxyTests {
    private static let name = HTTPField.Name("X-Forwarded-For")
    private static let standardName = HTTPField.Name("Forwarded")

    private func proxies(_ texts: String...) throws -> TrustedProxies {
        var proxies = TrustedProxies()
        for text in texts {
            let isTaken = proxies.insert(text)
            try #require(isTaken, "\(text)")
        }
        return proxies
    }

    private func client(
        of peer: String, _ proxies: TrustedProxies, list: [String] = [], standard: [String] = []
    ) throws -> String {
        var fields = HTTPFields()
        for value in list { fields.append(HTTPField(name: try #require(Self.name), value: value)) }
        for value in standard { fields.append(HTTPField(name: try #require(Self.standardName), value: value)) }
        return proxies.client(of: peer, fields)
    }

    @Test(
        "The client is the last address that is not a proxy's; earlier ones can be forged",
        arguments: [
            (["203.0.113.9"], "203.0.113.9"), (["1.1.1.1, 203.0.113.9"], "203.0.113.9"),
            (["203.0.113.9, 10.0.0.2"], "203.0.113.9"), (["1.1.1.1", "203.0.113.9, 10.9.9.9"], "203.0.113.9"),
            (["203.0.113.9:4711"], "203.0.113.9"), (["2001:db8::7"], "2001:db8::7"),
            (["[2001:db8::7]:4711, 10.0.0.3"], "2001:db8::7"), (["10.0.0.5, 10.0.0.6"], "10.0.0.5"),
            (["rubbish, 203.0.113.9"], "203.0.113.9"),
        ])
    func lists(_ list: [String], expected: String) throws {
        let proxies = try proxies("10.0.0.0/8", "127.0.0.1")
        #expect(try client(of: "10.0.0.1", proxies, list: list) == expected)
        #expect(try client(of: "127.0.0.1", proxies, list: list) == expected)
        // The fields of other peers are ignored.
        #expect(try client(of: "198.51.100.1", proxies, list: list) == "198.51.100.1")
        #expect(try client(of: "10.0.0.1", TrustedProxies(), list: list) == "10.0.0.1")
    }

    @Test(
        "The Forwarded field has the same meaning",
        arguments: [
            ("for=203.0.113.9", "203.0.113.9"), ("for=1.1.1.1, for=203.0.113.9;proto=https", "203.0.113.9"),
            ("proto=http;For=\"[2001:db8::7]:80\";by=10.0.0.1", "2001:db8::7"),
            ("for=203.0.113.9, for=10.0.0.7", "203.0.113.9"),
        ])
    func standard(_ field: String, expected: String) throws {
        let proxies = try proxies("10.0.0.0/8")
        #expect(try client(of: "10.0.0.1", proxies, standard: [field]) == expected)
    }

    @Test(
        "Clients behind unreadable or contradictory fields count as one client, which is not loopback",
        arguments: [
            (["unknown"], []), (["203.0.113.9, _hidden"], []), ([""], []), (["203.0.113.9,"], []),
            (["1.2.3.4:x"], []), (["[::1"], []), ([], ["for=unknown"]), ([], ["proto=https"]),
            ([], ["for=\"1.2.3.4"]), ([], ["for=1.1.1.1;for=2.2.2.2"]), (["203.0.113.9"], ["for=203.0.113.8"]),
        ] as [([String], [String])])
    func wrong(list: [String], standard: [String]) throws {
        let proxies = try proxies("127.0.0.1")
        let name = try client(of: "127.0.0.1", proxies, list: list, standard: standard)
        #expect(name == "behind 127.0.0.1")
    }

    @Test("Both fields may be present if they agree; a request without them is the proxy's own")
    func agreeing() throws {
        let proxies = try proxies("127.0.0.1", "fd00::/8")
        #expect(
            try client(of: "127.0.0.1", proxies, list: ["203.0.113.9"], standard: ["for=203.0.113.9"])
                == "203.0.113.9")
        #expect(try client(of: "127.0.0.1", proxies) == "127.0.0.1")
        #expect(try client(of: "fd12::1", proxies, list: ["203.0.113.9"]) == "203.0.113.9")
    }

    @Test(
        "A malformed address range is rejected",
        arguments: [
            "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "/8", "", "proxy.example", "::/129", "1.2.3.4/+8",
        ])
    func ranges(_ text: String) {
        var proxies = TrustedProxies()
        let isTaken = proxies.insert(text)
        #expect(!isTaken)
        #expect(proxies.isEmpty)
    }
}

@Suite("Limits by name")
struct LimitNameTests {
    private func limits() -> ServerLimits { ServerLimits(listener: ListenerConfiguration()) }

    @Test("Every limit can be set to its displayed value and to another one")
    func all() throws {
        let usual = limits()
        #expect(usual.rows.count == 34)
        for row in usual.rows {
            var limits = usual
            try limits.set("\(row.name)=\(row.value)")
            #expect(limits.rows == usual.rows)
            let other =
                row.unit.contains("A_SECOND")
                ? "7/70" : row.unit.contains("1M to") ? "2M" : row.unit.contains("bytes") ? "2K" : "77"
            try limits.set("\(row.name)=\(other)")
            #expect(limits.rows.filter { !usual.rows.contains($0) }.map(\.value) == [other], "\(row.name)")
            if row.unit.contains("none") {
                try limits.set("\(row.name)=none")
                #expect(limits.rows.contains { $0.name == row.name && $0.value == "none" })
            } else {
                #expect(throws: ListenerError.self) { try limits.set("\(row.name)=none") }
            }
        }
    }

    @Test(
        "An invalid setting is rejected and changes nothing",
        arguments: [
            "requests", "requests=", "requests=0", "requests=1e3", "requests=-1", "requests=+5", "nothing=1", "=1",
            "log-ins=5", "log-ins=0/5", "log-ins=5/0", "log-ins=nan/5", "body-bytes=1", "body-bytes=1T",
            "body-bytes=99999999999999999999", "header-seconds=0", "account-keys=-1", "account-bytes=1.5M",
        ])
    func wrong(_ text: String) {
        var limits = limits()
        let before = limits.rows
        #expect(throws: ListenerError.self) { try limits.set(text) }
        #expect(limits.rows == before)
    }
}
