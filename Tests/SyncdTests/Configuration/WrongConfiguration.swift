import Foundation
import Testing

/// A configuration file with mistakes.
struct WrongConfiguration: Sendable, CustomTestStringConvertible {
    let testDescription: String
    /// The lines that `syncd config check` prints, without the name of the file.
    let mistakes: [String]
    /// Writes the file `syncd.json` and the files that it names.
    let write: @Sendable (Sandbox) throws -> Void

    init(_ description: String, _ text: String, _ mistakes: String...) {
        self.init(description, mistakes) { try $0.writeConfiguration(text) }
    }

    /// A file with the members of the section `serve`, each on its own line from the second on.
    static func serve(_ description: String, _ members: String..., mistakes: String...) -> Self {
        Self(description, mistakes) { try $0.writeConfiguration(section(members)) }
    }

    init(_ description: String, _ mistakes: [String], write: @escaping @Sendable (Sandbox) throws -> Void) {
        (testDescription, self.mistakes, self.write) = (description, mistakes, write)
    }

    static func section(_ members: [String]) -> String {
        "{\"serve\": {\n" + (["\"store\": \"sqlite:store.sqlite\""] + members).joined(separator: ",\n") + "\n}}\n"
    }

    static let all = documents + structure + values + combinations + files

    private static let documents: [Self] = [
        Self("text that is not JSON", "listen = 127.0.0.1:8440\n", ":1: column 1: a value is expected here"),
        Self("an empty file", "", ":1: column 1: the text ends where a value is expected"),
        Self("a truncated file", "{\"serve\": {\n\"store\": \"mem", ":2: column 14: the string is not terminated"),
        Self(
            "a trailing comma", "{\"serve\": {\n\"store\": \"memory:\",\n}}",
            ":3: column 1: a member name in quotes is expected"),
        Self("a repeated section", "{\"serve\": {},\n \"serve\": {}}", ":2: column 2: \"serve\" is repeated"),
        serve(
            "a repeated key", "\"listen\": \"127.0.0.1:1\"", "\"listen\": \"127.0.0.1:2\"",
            mistakes: ":4: column 1: \"listen\" is repeated"),
        Self(
            "a list of sections", "[{\"serve\": {}}]",
            ":1: must be an object with the sections \"serve\" and \"run\", not an array"),
        Self(
            "nesting that is too deep", String(repeating: "[", count: 65),
            ":1: column 65: nested deeper than 64 levels"),
        Self(
            "a byte order mark", "\u{FEFF}{}", ":1: starts with a byte order mark: save it as UTF-8 without one"),
        Self("text that is not UTF-8", [":2: column 2: the text is not UTF-8"]) { sandbox in
            try sandbox.write(Array("{\n\"".utf8) + [0xFF] + Array("\": 1}".utf8), to: "syncd.json")
            try sandbox.setMode(0o600, of: "syncd.json")
        },
    ]

    private static let structure: [Self] = [
        Self(
            "an unknown section", "{\n\"server\": {}}", ":2: server: unknown section, did you mean \"serve\"?"),
        Self(
            "a key outside of a section", "{\"listen\": \"127.0.0.1:8440\"}",
            ":1: listen: unknown section, put it in the section \"serve\""),
        Self("a section that is no object", "{\"serve\": true}", ":1: serve: must be an object, not true or false"),
        serve(
            "an unknown key that is similar to another", "\"tls-certifcate\": \"a.pem\"",
            mistakes: ":3: serve.tls-certifcate: unknown key, did you mean \"tls-certificate\"?"),
        serve(
            "an unknown key", "\"colour\": \"red\"",
            mistakes: ":3: serve.colour: unknown key, syncd help serve lists the options"),
        serve(
            "a secret in place of its file", "\"operator-token\": \"0123456789abcdef0123456789abcdef\"",
            mistakes: ":3: serve.operator-token: unknown key, did you mean \"operator-token-file\"?"),
        serve(
            "an option that acts once", "\"accept-clock\": true",
            mistakes: ":3: serve.accept-clock: applies to the command line only"),
        serve(
            "an option of run in serve", "\"poll\": \"60\"",
            mistakes: ":3: serve.poll: an option of \"run\", not of \"serve\""),
        Self(
            "an option of serve in run", "{\"run\": {\n\"listen\": \"127.0.0.1:1\"}}",
            ":1: run.catalog: is required: a JSON or .storekit file (or set SYNCD_CATALOG)",
            ":2: run.listen: an option of \"serve\", not of \"run\""),
        Self(
            "no store", "{\n\"serve\": {\"web\": \".\"}}",
            ":2: serve.store: is required: sqlite:FILE, file:DIR or memory: (or set SYNCD_STORE)"),
    ]

    private static let values: [Self] = [
        serve("a number as an address", "\"listen\": 8440", mistakes: ":3: serve.listen: must be text, not a number"),
        serve("null", "\"listen\": null", mistakes: ":3: serve.listen: must be text, not null"),
        serve("an empty text", "\"listen\": \"\"", mistakes: ":3: serve.listen: must not be empty"),
        serve(
            "a NUL in a text", "\"name\": \"https://a\\u0000b\"",
            mistakes: ":3: serve.name: must not contain the character U+0000"),
        serve("a list in place of a text", "\"name\": [\"a\"]", mistakes: ":3: serve.name: must be text, not an array"),
        serve(
            "a text in place of a list", "\"origin\": \"https://a.example\"",
            mistakes: ":3: serve.origin: must be a list of texts, not \"https://a.example\""),
        serve(
            "an empty text in a list", "\"origin\": [\"https://a.example\",\n\"\"]",
            mistakes: ":4: serve.origin: must not be empty"),
        serve(
            "a number out of range", "\"password-cost\": 25",
            mistakes: ":3: serve.password-cost: must be a number from 10 to 20, not 25"),
        serve(
            "a number as text", "\"password-cost\": \"17\"",
            mistakes: ":3: serve.password-cost: must be a number from 10 to 20, not \"17\""),
        serve(
            "a number with a fraction", "\"password-cost\": 17.5",
            mistakes: ":3: serve.password-cost: must be a number from 10 to 20, not a number"),
        serve(
            "a flag as text", "\"no-sign-up\": \"yes\"",
            mistakes: ":3: serve.no-sign-up: must be true or false, not \"yes\""),
        serve(
            "an unknown choice", "\"ownership\": \"transfr\"",
            mistakes: ":3: serve.ownership: must be one of keepWithFirst, transfer, share, not \"transfr\", did you "
                + "mean \"transfer\"?"),
        serve(
            "an address without a port", "\"listen\": \"localhost\"",
            mistakes: ":3: serve.listen: must be HOST:PORT, such as 127.0.0.1:8440, not \"localhost\""),
        serve(
            "an unknown limit", "\"limit\": [\"nothing=1\"]",
            mistakes: ":3: serve.limit: must be NAME=VALUE with a name from --limits, not \"nothing=1\""),
        serve(
            "an origin with a path", "\"origin\": [\"https://a.example\",\n\"https://b.example/\"]",
            mistakes: ":4: serve.origin: must be scheme://host or scheme://host:port, not \"https://b.example/\""),
        serve(
            "two wrong elements of a list", "\"origin\": [\"a\",\n\"https://b.example\",\n\"c\"]",
            mistakes: ":3: serve.origin: must be scheme://host or scheme://host:port, not \"a\"",
            ":5: serve.origin: must be scheme://host or scheme://host:port, not \"c\""),
        Self(
            "a store of an unknown kind",
            [":2: serve.store: must be file:DIR, sqlite:FILE, folder:DIR or memory:, not \"sql:a\""]
        ) {
            try $0.writeConfiguration("{\"serve\": {\n\"store\": \"sql:a\"}}")
        },
    ]

    private static let combinations: [Self] = [
        serve(
            "two options that exclude each other", "\"sign-up\": true", "\"no-sign-up\": true",
            mistakes: ":3: serve.sign-up: sign-up and no-sign-up exclude each other"),
        serve(
            "a certificate without its key", "\"tls-certificate\": \"syncd.json\"",
            mistakes: ":3: serve.tls-certificate: tls-certificate and tls-key must be passed together"),
        serve(
            "a public address without TLS", "\"listen\": \"0.0.0.0:80\"",
            mistakes: ":3: serve.listen: other machines can reach 0.0.0.0:80, so passwords need TLS: pass "
                + "tls-certificate and tls-key, or insecure-http behind a proxy that provides TLS"),
        serve(
            "several mistakes", "\"name\": \"abc\"", "\"lisen\": \"127.0.0.1:1\"", "\"web\": \"nothing\"",
            "\"issuer\": \"a\"",
            mistakes: ":3: serve.name: must be a URL such as https://sync.example.com, not \"abc\"",
            ":4: serve.lisen: unknown key, did you mean \"listen\"?",
            ":5: serve.web: nothing: not a readable folder",
            ":6: serve.issuer: issuer, audience and jwks must be passed together"),
    ]

    private static let files: [Self] = [
        serve(
            "a catalogue that is missing", "\"catalog\": \"none.json\"",
            mistakes: ":3: serve.catalog: none.json: no such file"),
        serve(
            "a secret file that is missing, or a secret in its place", "\"tls-certificate\": \"syncd.json\"",
            "\"tls-key\": \"secret\"",
            mistakes: ":4: serve.tls-key: no such file: it must be the path of a file with the secret, never the "
                + "secret itself"),
        Self(
            "a secret file that others can read",
            [
                ":3: serve.operator-token-file: token has mode 0644, so every user of this machine has access to the "
                    + "secret in it: chmod o-rwx token, and replace the secret if others may have read it; or allow "
                    + "this with allow-open-secrets"
            ]
        ) { sandbox in
            try sandbox.write("0123456789abcdef0123456789abcdef\n", to: "token")
            try sandbox.setMode(0o644, of: "token")
            try sandbox.writeConfiguration(section(["\"operator-token-file\": \"token\""]))
        },
        Self(
            "a certificate that is none",
            [":3: serve.tls-certificate: the TLS certificate syncd.json holds no certificate in PEM form"]
        ) {
            try $0.write("no key", to: "key")
            try $0.setMode(0o600, of: "key")
            try $0.writeConfiguration(section(["\"tls-certificate\": \"syncd.json\"", "\"tls-key\": \"key\""]))
        },
        Self(
            "a file that others can change", [": has mode 0666, so other users can change it: chmod go-w syncd.json"]
        ) { sandbox in
            try sandbox.write("{}", to: "syncd.json")
            try sandbox.setMode(0o666, of: "syncd.json")
        },
        Self("a folder", [": must be a regular file"]) { sandbox in
            try FileManager.default.createDirectory(
                atPath: sandbox.path("syncd.json"), withIntermediateDirectories: false)
        },
        Self("a named pipe", [": must be a regular file"]) { sandbox in
            try #require(mkfifo(sandbox.path("syncd.json"), 0o600) == 0)
        },
        Self("a file that cannot be opened", [": Too many levels of symbolic links"]) { sandbox in
            try FileManager.default.createSymbolicLink(
                atPath: sandbox.path("syncd.json"), withDestinationPath: "syncd.json")
        },
        Self("a file that is missing", [": no such file"]) { _ in },
        Self("a huge file", [": is longer than 1 MiB"]) { sandbox in
            try sandbox.writeConfiguration("{}" + String(repeating: " ", count: 1 << 20))
        },
    ]
}

extension Sandbox {
    /// Writes a file that only its owner can change, whatever the umask of this process is.
    func writeConfiguration(_ text: String, to name: String = "syncd.json") throws {
        try write(text, to: name)
        try setMode(0o600, of: name)
    }

    func setMode(_ mode: Int, of name: String) throws {
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path(name))
    }
}
