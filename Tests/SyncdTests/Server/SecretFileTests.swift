import Foundation
import TestSupport
import Testing

@Suite("Files with secrets that every user of the machine can read")
struct SecretFileTests {
    private let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    private func secret(_ name: String, mode: Int, in folder: String = "") throws -> String {
        let path = sandbox.path(folder + name)
        try Data("\(ServerProcess.operatorToken)\n".utf8).write(to: URL(filePath: path))
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        return path
    }

    /// Runs a server that accepts the secret and then fails because the web folder is missing.
    private func serve(_ options: String, environment: [String: String] = [:]) throws -> Sandbox.Outcome {
        try sandbox.run(
            "serve --store memory: --listen 127.0.0.1:0 --web nothing " + options, environment: environment)
    }

    private func isAccepted(_ outcome: Sandbox.Outcome) -> Bool {
        outcome.exitCode == 2 && outcome.error.hasPrefix("syncd: --web: ")
    }

    @Test("A token file that others can read is rejected, and one that the group can read is accepted")
    func operatorToken() throws {
        let open = try secret("open", mode: 0o644)
        #expect(
            try serve("--operator-token-file \(open)")
                == .refused(
                    2,
                    "--operator-token-file: \(open) has mode 0644, so every user of this machine has access to the "
                        + "secret in it: chmod o-rwx \(open), and replace the secret if others may have read it; or "
                        + "allow this with --allow-open-secrets"))
        let writable = try secret("writable", mode: 0o602)
        #expect(try serve("--operator-token-file \(writable)").error.contains("\(writable) has mode 0602"))
        for mode in [0o600, 0o640, 0o440] {
            #expect(isAccepted(try serve("--operator-token-file \(try secret("closed-\(mode)", mode: mode))")))
        }
    }

    @Test("Private keys and client tokens that others can read are rejected")
    func otherSecrets() throws {
        let open = try secret("open", mode: 0o644)
        let key = try serve("--tls-certificate \(open) --tls-key \(open)")
        #expect(key.exitCode == 2 && key.error.hasPrefix("syncd: --tls-key: \(open) has mode 0644"), "\(key)")
        let client = try sandbox.run("store check http://127.0.0.1:1 --token-file \(open)")
        #expect(client.exitCode == 2 && client.error.hasPrefix("syncd: --token-file: \(open) has"), "\(client)")
    }

    @Test("A flag accepts open secrets, as do the folders of systemd and container runtimes")
    func provided() throws {
        let open = try secret("open", mode: 0o644)
        let options = "--operator-token-file \(open)"
        #expect(isAccepted(try serve(options + " --allow-open-secrets")))
        #expect(isAccepted(try serve(options, environment: ["SYNCD_ALLOW_OPEN_SECRETS": "1"])))
        #expect(isAccepted(try serve(options, environment: ["CREDENTIALS_DIRECTORY": sandbox.folder.path])))
        try FileManager.default.createDirectory(atPath: sandbox.path("credentials"), withIntermediateDirectories: true)
        let elsewhere = ["CREDENTIALS_DIRECTORY": sandbox.path("credentials")]
        #expect(!isAccepted(try serve(options, environment: elsewhere)))
        let through = try secret("provided", mode: 0o444, in: "credentials/")
        try FileManager.default.createSymbolicLink(
            atPath: sandbox.path("link"), withDestinationPath: through)
        #expect(isAccepted(try serve("--operator-token-file link", environment: elsewhere)))
    }
}
