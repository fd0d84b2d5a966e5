import Foundation
import TestSupport
import Testing

@Suite("Certificates and keys that cannot be used")
struct CertificateFileTests {
    private let sandbox: Sandbox

    init() throws {
        sandbox = try Sandbox()
        for name in ["a", "b"] {
            try ProcessEnd.run(
                "/usr/bin/openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-subj", "/CN=localhost", "-days", "1", "-keyout", sandbox.path("\(name).key"), "-out",
                sandbox.path("\(name).pem"))
        }
        try sandbox.write("garbage", to: "garbage")
        for name in ["a.key", "b.key", "garbage"] {
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: sandbox.path(name))
        }
    }

    @Test(
        "The server names the file and the cause",
        arguments: [
            (".", "a.key", "the TLS certificate . cannot be read: Is a directory"),
            ("garbage", "a.key", "the TLS certificate garbage holds no certificate in PEM form"),
            ("a.pem", "garbage", "the TLS key garbage holds no unencrypted private key in PEM form"),
            ("a.pem", "b.key", "the TLS key b.key does not belong to the certificate a.pem"),
        ])
    func server(certificate: String, key: String, reason: String) throws {
        #expect(try serve(certificate, key) == .refused(2, reason))
        #expect(try sandbox.tree().keys.filter { $0.hasPrefix("store.sqlite-") } == [], "the store was not closed")
    }

    @Test("The server does not open its store if a file is missing")
    func missing() throws {
        #expect(try serve("none.pem", "a.key") == .refused(3, "--tls-certificate: none.pem: no such file"))
        #expect(try serve("a.pem", "none.key") == .refused(3, "--tls-key: none.key: no such file"))
        #expect(try !sandbox.tree().keys.contains("store.sqlite"))
    }

    private func serve(_ certificate: String, _ key: String) throws -> Sandbox.Outcome {
        try sandbox.run(
            "serve --store sqlite:store.sqlite --password-cost 10 --listen 127.0.0.1:0 "
                + "--tls-certificate \(certificate) --tls-key \(key)")
    }

    @Test("A client names a file of certificate authorities that it cannot use")
    func authorities() throws {
        let command = "store check https://127.0.0.1:1"
        func check(_ file: String) throws -> Sandbox.Outcome {
            try sandbox.run("\(command) --ca-file \(file)", environment: ["SYNCD_TOKEN": "token"])
        }
        #expect(try check("none.pem") == .refused(3, "none.pem: no such file"))
        #expect(try check("garbage") == .refused(2, "--ca-file: garbage has no certificate in PEM form"))
        #expect(try check("a.pem").exitCode == 75)
    }
}
