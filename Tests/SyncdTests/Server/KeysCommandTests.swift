import Foundation
import TestSupport
import Testing

@Suite("syncd keys")
struct KeysCommandTests {
    private let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    @Test("A root key is private, never overwritten, and the one that OpenSSL reads")
    func root() throws {
        let made = try sandbox.run("keys root root.pem --create")
        #expect(made.exitCode == 0)
        #expect(made.output.utf8.count == 44)
        let attributes = try FileManager.default.attributesOfItem(atPath: sandbox.path("root.pem"))
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        #expect(try sandbox.run("keys root root.pem") == made)
        let before = try sandbox.tree()
        #expect(
            try sandbox.run("keys root root.pem --create")
                == .refused(4, "root.pem exists, and a root key is never overwritten: choose another name"))
        #expect(try sandbox.tree() == before)
        try ProcessEnd.run(
            "/usr/bin/openssl", "pkey", "-in", sandbox.path("root.pem"), "-pubout", "-outform", "DER", "-out",
            sandbox.path("public.der"))
        let text = String(made.output.dropLast()).replacing("-", with: "+").replacing("_", with: "/") + "="
        #expect(Array(try #require(Data(base64Encoded: text))) == Array(try sandbox.bytes(of: "public.der").suffix(32)))
        try ProcessEnd.run(
            "/usr/bin/openssl", "genpkey", "-algorithm", "ed25519", "-out", sandbox.path("theirs.pem"))
        #expect(try sandbox.run("keys root theirs.pem").output.utf8.count == 44)
    }

    @Test("A file without a root key is refused")
    func wrongRoot() throws {
        #expect(try sandbox.run("keys root none.pem") == .refused(3, "none.pem: no such file"))
        try sandbox.write("-----BEGIN PRIVATE KEY-----\nMC4CAQ==\n-----END PRIVATE KEY-----\n", to: "short.pem")
        try ProcessEnd.run(
            "/usr/bin/openssl", "genpkey", "-algorithm", "x25519", "-out", sandbox.path("other.pem"))
        for name in ["short.pem", "other.pem"] {
            #expect(
                try sandbox.run("keys root \(name)")
                    == .refused(
                        2, "\(name) holds no Ed25519 key in PEM form: create one with syncd keys root --create"))
        }
        let nowhere = try sandbox.run("keys root nowhere/root.pem --create")
        #expect(nowhere == .refused(1, "nowhere/root.pem: cannot be created: No such file or directory"))
    }

    @Test("A server refuses grants without a catalogue, with an open key or with a wrong lifetime")
    func options() throws {
        try sandbox.run("keys root root.pem --create")
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: sandbox.path("root.pem"))
        let serve = "serve --store memory: --listen 127.0.0.1:0"
        let open = try sandbox.run("\(serve) --catalog \(Sandbox.example) --root-key root.pem")
        #expect(open.exitCode == 2 && open.error.contains("root.pem has mode 0644"), "\(open.error)")
        #expect(
            try sandbox.run("\(serve) --root-key root.pem", environment: ["SYNCD_CATALOG": ""])
                == .refused(2, "--root-key needs --catalog: grants state the entitlements of the catalogue"))
        #expect(try sandbox.run("\(serve) --grant-days 3") == .refused(2, "--grant-days needs --root-key"))
        let days = try sandbox.run("\(serve) --catalog \(Sandbox.example) --root-key root.pem --grant-days 31")
        #expect(days.exitCode == 2 && days.error.contains("from 1 to 30"), "\(days.error)")
    }

    @Test("The keys of a store are shown and rotated; a store that no server has used is refused and not created")
    func rotation() throws {
        let missing = try sandbox.run("keys show --store sqlite:store.sqlite")
        #expect(missing.exitCode == 3, "\(missing)")
        #expect(try sandbox.run("keys rotate --store sqlite:store.sqlite").exitCode == 3)
        #expect(try sandbox.tree().isEmpty)
        try sandbox.run("record purchase \(Owls.night) --local sqlite:device.sqlite")
        let device = try sandbox.run("keys rotate --store sqlite:device.sqlite")
        #expect(device == .refused(3, "no server has used this store yet: start syncd serve once"))

        let store = "sqlite:\(sandbox.path("store.sqlite"))"
        #expect(try ServerProcess(store: store).stop() == 0)
        let first = try sandbox.run("keys show --store \(store)").output
        #expect(first.hasSuffix("Z\n") && first.contains("signs until"), "\(first)")
        let second = try sandbox.run("keys rotate --store \(store)").output.split(separator: "\n")
        #expect(second.count == 2)
        #expect(second[0].prefix(16) == first.prefix(16) && second[0].hasSuffix("verifies what it has signed"))
        let third = try sandbox.run("keys rotate --store \(store) --remove-former").output.split(separator: "\n")
        #expect(third.count == 1 && third[0].prefix(16) != second[1].prefix(16))
        let json = try sandbox.run("keys show --json --store \(store)").output
        let object = try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: [[String: Any]]]
        #expect(object?["keys"]?.first?["current"] as? Bool == true)
        #expect(!json.contains("\"key\""))
    }
}
