import Foundation
import TestSupport
import Testing

@Suite("Options of syncd notifications")
struct NotificationOptionTests {
    private let sandbox: Sandbox

    init() throws {
        sandbox = try Sandbox()
        try sandbox.write("no key", to: "key.p8")
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: sandbox.path("key.p8"))
        try sandbox.write("a b\n", to: "tokens")
        try sandbox.write("\n", to: "empty")
        try sandbox.write("{}", to: "open.json")
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: sandbox.path("open.json"))
    }

    private static let catchUp = "notifications catch-up --store file:server --since 2026-01-01"
    private static let apple = catchUp + " --app-store-key key.p8 --app-store-key-id K --app-store-issuer I"
    private static let play = catchUp + " --play-package com.example --play-service-account"

    static let refusals: [Refusal] = [
        Refusal(2, "notifications", "--store is required: sqlite:FILE or file:DIR (or set SYNCD_STORE)"),
        Refusal(
            2, "notifications list --store memory:",
            "--store must be the store of a server, sqlite:FILE or file:DIR, not memory:"),
        Refusal(
            2, "notifications catch-up --store file:server",
            "Missing expected argument '--since <time>'. See 'syncd help notifications catch-up'."),
        Refusal(
            2, "notifications catch-up --since soon",
            #"--since: "soon" is not a date: the year needs 4 digits (write 2026-01-31T12:00:00Z or 2026-01-31)"#),
        Refusal(
            2, catchUp + " --until 2025-01-01", "--since must be earlier than --until, or than now without it"),
        Refusal(2, catchUp, "pass --app-store-key for the App Store, or --play-service-account for Google Play"),
        Refusal(2, catchUp + " --sandbox", "--sandbox needs --app-store-key"),
        Refusal(2, catchUp + " --app-store-key-id K", "--app-store-key-id needs --app-store-key"),
        Refusal(
            2, catchUp + " --app-store-key key.p8", "--app-store-key needs --app-store-key-id and --app-store-issuer"),
        Refusal(2, apple, "--app-store-key needs --app-store-bundle, the app whose history is read"),
        Refusal(
            2, apple + " --app-store-bundle com.example --app-store-app-id 1x",
            #"--app-store-app-id must be a number, not "1x""#),
        Refusal(
            2, apple + " --app-store-bundle com.example",
            "the private key of the App Store Server API must be the .p8 file of the key K: PEM with a P-256 key"),
        Refusal(
            2, apple + " --app-store-bundle com.example=1 --app-store-app-id 2",
            "--app-store-app-id must be 1, as --app-store-bundle has it, not 2"),
        Refusal(
            2, apple + " --app-store-bundle com.example=one",
            "--app-store-bundle must be BUNDLE or BUNDLE=APPID, as com.example.app=1234567890, not "
                + #""com.example=one""#),
        Refusal(
            2, catchUp + " --play-package com.example", "Google Play needs --play-service-account and --play-package"),
        Refusal(
            2, catchUp + " --play-tokens tokens", "Google Play needs --play-service-account and --play-package"),
        Refusal(
            2, catchUp + " --play-service-account key.p8", "--play-service-account needs --play-package"),
        Refusal(
            2, play + " key.p8 --play-tokens tokens",
            "tokens: line 1 is not a purchase token: 1 to 4096 characters of ASCII without spaces"),
        Refusal(2, play + " key.p8 --play-tokens empty", "empty has no IDs"),
        Refusal(2, "serve --store memory: --play-api http://x", "--play-api needs --play-service-account"),
        Refusal(
            2, "serve --store memory: --play-service-account key.p8",
            "--play-service-account needs --play-package and --play-key"),
    ]

    @Test("Wrong options end with one line and create nothing", arguments: refusals)
    func wrongOptions(refusal: Refusal) throws {
        let before = try sandbox.tree()
        #expect(try sandbox.run(refusal.arguments) == .refused(refusal.exitCode, refusal.reason))
        #expect(try sandbox.tree() == before)
    }

    @Test("A service account that every user of the machine can read is refused")
    func openSecret() throws {
        try sandbox.write("token\n", to: "tokens")
        let outcome = try sandbox.run(Self.play + " open.json --play-tokens tokens")
        #expect(outcome.exitCode == 2)
        #expect(outcome.error.hasPrefix("syncd: --play-service-account: open.json has mode 0644"), "\(outcome)")
    }

    @Test("A store that does not exist is not created")
    func missingStore() throws {
        let outcome = try sandbox.run("notifications list --store file:server")
        #expect(outcome.exitCode == 3, "\(outcome)")
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("server")))
    }
}
