import CurlTransport
import Foundation
import HTTPStorage
import SyncCore
import TestSupport

/// A server process and a client with the operator's token.
final class LiveServer: Sendable {
    let folder: TemporaryFolder
    let server: ServerProcess
    let client: CurlClient

    /// - Parameters:
    ///   - store: `memory:`, or the scheme `file` or `sqlite` for a store in a temporary folder.
    ///   - isSecure: `true` for TLS, which also selects HTTP/2.
    ///   - port: The port on 127.0.0.1; 0 for any free port.
    init(store: String, isSecure: Bool = false, port: Int = 0) throws {
        folder = try TemporaryFolder()
        var options = ["--listen", "127.0.0.1:\(port)"]
        var configuration = CurlClient.Configuration()
        if isSecure {
            let (certificate, key) = (folder.path(of: "certificate.pem"), folder.path(of: "key.pem"))
            try ProcessEnd.run(
                "/usr/bin/openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost", "-addext",
                "subjectAltName=IP:127.0.0.1", "-batch")
            options += ["--tls-certificate", certificate, "--tls-key", key]
            configuration.trust = .file(certificate)
        }
        let url = store == "memory:" ? store : "\(store):\(folder.path(of: "store"))"
        server = try ServerProcess(store: url, options: options)
        client = try CurlClient(configuration)
    }

    func backend() throws -> HTTPBackend {
        try HTTPBackend(server: server.url, transport: client) { _ throws(BackendError) in ServerProcess.operatorToken }
    }
}
