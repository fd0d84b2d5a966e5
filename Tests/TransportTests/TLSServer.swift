import Foundation
import SyncCoreTesting
import TestSupport
import Testing

/// An `openssl s_server` process that answers every request with a page. It ends when the object is deallocated.
final class TLSServer {
    /// The certificate in PEM.
    let certificate: String
    /// The address of the server, `127.0.0.1:PORT`.
    let authority: String
    private let folder: TemporaryFolder
    private let process: ChildProcess

    /// Starts a server with a self-signed certificate for `name`, such as `IP:127.0.0.1` or `DNS:example.com`.
    ///
    /// - Parameters:
    ///   - commonName: The subject and issuer. OpenSSL uses only the first of several certificates with one subject.
    ///   - isExpired: `true` for a certificate that expired years ago.
    init(name: String = "IP:127.0.0.1", commonName: String = "test", isExpired: Bool = false) throws {
        folder = try TemporaryFolder()
        let configuration = """
            [ca]
            default_ca = own
            [own]
            database = \(folder.path)/index
            new_certs_dir = \(folder.path)
            default_md = sha256
            rand_serial = yes
            policy = names
            x509_extensions = fields
            [names]
            commonName = supplied
            [fields]
            subjectAltName = \(name)
            [req]
            distinguished_name = names
            """
        try Data(configuration.utf8).write(to: URL(fileURLWithPath: folder.path + "/conf"))
        try Data().write(to: URL(fileURLWithPath: folder.path + "/index"))
        try ProcessEnd.run(
            "/usr/bin/openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-subj", "/CN=\(commonName)", "-config", folder.path + "/conf", "-keyout", folder.path + "/key", "-out",
            folder.path + "/request")
        try ProcessEnd.run(
            "/usr/bin/openssl", "ca", "-batch", "-selfsign", "-notext", "-config", folder.path + "/conf", "-keyfile",
            folder.path + "/key", "-in", folder.path + "/request", "-out", folder.path + "/cert", "-startdate",
            "20200101000000Z", "-enddate", isExpired ? "20200102000000Z" : "20991231000000Z")
        certificate = try String(contentsOfFile: folder.path + "/cert", encoding: .utf8)
        process = try ChildProcess(
            "/usr/bin/openssl",
            [
                "s_server", "-accept", "127.0.0.1:0", "-cert", folder.path + "/cert", "-key", folder.path + "/key",
                "-www",
            ])
        var port: Substring?
        while port == nil {
            guard case .line(let line) = process.hear() else { break }
            port = line.hasPrefix("ACCEPT ") ? line.split(separator: ":").last : nil
        }
        authority = "127.0.0.1:\(try #require(port))"
    }

    /// The path of the certificate's file.
    var file: String { folder.path + "/cert" }
}
