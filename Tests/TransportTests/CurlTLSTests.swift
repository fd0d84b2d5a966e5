import CurlTransport
import Foundation
import HTTPTypes
import SyncProtocol
import TestSupport
import Testing

@Suite("TLS by libcurl")
struct CurlTLSTests {
    private func client(_ trust: CurlClient.Configuration.Trust) throws -> CurlClient {
        var configuration = CurlClient.Configuration()
        configuration.trust = trust
        return try CurlClient(configuration)
    }

    @Test("trusts only the configured certificates")
    func trust() async throws {
        let server = try TLSServer()
        for trust in [.file(server.file), .pem(Array(server.certificate.utf8))] as [CurlClient.Configuration.Trust] {
            let answer = try await client(trust).ask(server.authority, "GET", scheme: "https")
            #expect(answer.response.status == .ok && !answer.body.isEmpty)
        }
        let other = try TLSServer()
        for trust in [.system, .file(other.file), .file("/no/such/file"), .pem([])]
            as [CurlClient.Configuration.Trust]
        {
            await expectError(.untrusted, mayHaveArrived: false) {
                try await client(trust).ask(server.authority, "PUT", [1], scheme: "https")
            }
        }
    }

    @Test("trusts only the pinned certificates, even if the system trusts that of the server")
    func pinning() async throws {
        let (server, other) = (try TLSServer(commonName: "server"), try TLSServer(commonName: "other"))
        let folder = try TemporaryFolder()
        try Data(server.certificate.utf8).write(to: URL(filePath: folder.path(of: "authority.pem")))
        try ProcessEnd.run("/usr/bin/openssl", "rehash", folder.path)
        func ask(_ trust: CurlClient.Configuration.Trust) async throws -> HTTPResponse.Status {
            var configuration = CurlClient.Configuration()
            configuration.trust = trust
            configuration.defaultAuthorityFolder = folder.path
            return try await CurlClient(configuration).ask(server.authority, "GET", scheme: "https").response.status
        }
        #expect(try await ask(.system) == .ok, "the folder replaces the system's trusted certificates")
        for trust in [.file(other.file), .pem(Array(other.certificate.utf8)), .pem([])]
            as [CurlClient.Configuration.Trust]
        {
            await expectError(.untrusted, mayHaveArrived: false) { try await ask(trust) }
        }
        #expect(try await ask(.file(server.file)) == .ok)
    }

    @Test("rejects an expired certificate and one for another host")
    func others() async throws {
        for server in [try TLSServer(isExpired: true), try TLSServer(name: "DNS:example.com")] {
            let client = try client(.file(server.file))
            await expectError(.untrusted, mayHaveArrived: false) {
                try await client.ask(server.authority, "PUT", [1], scheme: "https")
            }
        }
    }

    @Test("reports a server without TLS as unreachable, not as untrusted")
    func plain() async throws {
        let server = try RawServer { connection, number in
            guard connection.read() != nil else { return }
            switch number {
            case 0: connection.write("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            case 1: break
            case 2: connection.reset()
            default: connection.waitForEnd()
            }
        }
        let client = try client(.system)
        for _ in 0..<3 {
            await expectError(.unreachable, mayHaveArrived: false) {
                try await client.ask(server.authority, "PUT", [1], scheme: "https")
            }
        }
        await expectError(.timedOut, mayHaveArrived: false) {
            try await client.ask(server.authority, "PUT", [1], scheme: "https", timeout: .milliseconds(150))
        }
    }
}
