import Crypto
import Entitlements
import EvidenceTestSupport
import Foundation
import SQLiteStorage
import SyncCore
import TestSupport

/// A running server with the account alice, and the files that `syncd notifications catch-up` needs.
struct NotificationStage {
    let sandbox: Sandbox
    let server: ServerProcess
    let foundry: AppStoreFoundry
    /// The token by which stores name alice.
    let token: String
    /// The time of the outage, in milliseconds since 1970.
    let now = HostServices.system.now()

    private static let store = "sqlite:server.sqlite"

    /// - Parameter options: Further options of the server.
    init(_ options: (Sandbox) throws -> [String] = { _ in [] }) throws {
        let sandbox = try Sandbox()
        foundry = try AppStoreFoundry.valid.get()
        try sandbox.write(foundry.roots, to: "roots.pem")
        server = try ServerProcess(
            store: "sqlite:\(sandbox.path("server.sqlite"))", options: try options(sandbox),
            environment: ["SYNCD_LOG_LEVEL": "error", "SYNCD_CATALOG": Sandbox.example])
        self.sandbox = sandbox
        let made = try Self.device(sandbox, server, "account create alice")
        let entered = try Self.device(sandbox, server, "account login alice")
        guard made.exitCode == 0, entered.exitCode == 0 else { throw StageError(text: "\(made) \(entered)") }
        token = try Self.accountToken(sandbox, server)
    }

    struct StageError: Error { var text: String }

    private static func device(_ sandbox: Sandbox, _ server: ServerProcess, _ command: String) throws
        -> Sandbox.Outcome
    {
        try sandbox.run(
            "\(command) --local file:phone --remote \(server.url)",
            environment: ["SYNCD_PASSWORD": "correct horse", "XDG_STATE_HOME": sandbox.path("state")])
    }

    /// Asks the server for the account's token, with the session that the device keeps.
    private static func accountToken(_ sandbox: Sandbox, _ server: ServerProcess) throws -> String {
        let names = try FileManager.default.subpathsOfDirectory(atPath: sandbox.path("state"))
        guard let name = names.first(where: { $0.hasSuffix(".json") }),
            let session = FakeAPI.object(Data(try sandbox.bytes(of: "state/\(name)")))["access_token"] as? String
        else { throw StageError(text: "no session in \(names)") }
        let answer = try ask(server, "GET /v1/accounts/self/token", "Authorization: Bearer \(session)\r\n")
        guard let token = answer["token"] as? String else { throw StageError(text: "no token: \(answer)") }
        return token
    }

    /// Sends a request to the server and returns the body of the answer.
    static func ask(
        _ server: ServerProcess, _ line: String, _ fields: String = "", body: String = ""
    ) throws -> [String: Any] {
        guard let port = UInt16(exactly: server.port), let connection = RawConnection.connect(to: port) else {
            throw StageError(text: "no server")
        }
        defer { connection.close() }
        let host = "Host: 127.0.0.1:\(port)\r\nContent-Length: \(body.utf8.count)\r\n"
        connection.write("\(line) HTTP/1.1\r\n\(host)\(fields)\r\n\(body)")
        guard let bytes = connection.readMessage(), let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else {
            throw StageError(text: "no answer")
        }
        let head = String(decoding: bytes[..<end.lowerBound], as: UTF8.self)
        var answer = FakeAPI.object(Data(bytes[end.upperBound...]))
        answer["statusLine"] = String(head.prefix { $0 != "\r\n" })
        return answer
    }

    /// A notification of a purchase that Apple signed `minutes` before the stage was made.
    func notification(
        _ id: String, minutes: Int64, token: String? = nil, bundle: String = "com.example",
        foundry: AppStoreFoundry? = nil
    ) throws -> FakeAppStore.Entry {
        let date = now - minutes * 60_000
        let payload = try (foundry ?? self.foundry).notification(
            "ONE_TIME_CHARGE", transaction: purchase(id, at: date, token, bundle),
            data: ["bundleId": .text(bundle), "environment": "Production"], fields: ["signedDate": .number(date)])
        return FakeAppStore.Entry(date: date, payload: payload)
    }

    /// A purchase that Apple signed `minutes` before the stage was made.
    func transaction(_ id: String, minutes: Int64, token: String? = nil) throws -> String {
        try foundry.transaction(purchase(id, at: now - minutes * 60_000, token, "com.example"))
    }

    private func purchase(_ id: String, at date: Int64, _ token: String?, _ bundle: String) -> SignedFields {
        [
            "transactionId": .text(id), "originalTransactionId": .text(id), "bundleId": .text(bundle),
            "productId": .text(Owls.night), "type": "Non-Consumable", "expiresDate": nil,
            "subscriptionGroupIdentifier": nil, "appAccountToken": token.map { .text($0) },
            "purchaseDate": .number(date), "originalPurchaseDate": .number(date), "signedDate": .number(date),
            "environment": "Production",
        ]
    }

    /// Runs `syncd notifications catch-up` against a stand-in for Apple's API.
    ///
    /// - Parameters:
    ///   - key: The key of the app; by default that of `store`.
    ///   - since: The value of `--since`.
    func catchUp(
        _ api: FakeAPI, of store: FakeAppStore, key: P256.Signing.PrivateKey? = nil, since: Int64? = nil,
        into target: String = Self.store, _ more: [String] = []
    ) throws -> Sandbox.Outcome {
        try write(secret: Array((key ?? store.key).pemRepresentation.utf8), to: "key.p8")
        let start = Timestamp(milliseconds: since ?? now - 86_400_000)
        return try sandbox.run(
            [
                "notifications", "catch-up", "--store", target, "--since", "\(start)", "--app-store-key", "key.p8",
                "--app-store-key-id", FakeAppStore.keyID, "--app-store-issuer", FakeAppStore.issuer,
                "--app-store-bundle", FakeAppStore.bundle, "--app-store-app-id", "1234", "--evidence-root",
                "roots.pem", "--app-store-api", api.url,
            ] + more)
    }

    /// Runs `syncd notifications catch-up` against a stand-in for Google's API.
    ///
    /// - Parameters:
    ///   - tokens: The content of the file of purchase tokens; `nil` for no such file.
    ///   - days: The beginning of the outage, in days before the stage was made.
    func catchUp(
        _ api: FakeAPI, of play: FakePlay, tokens: [String]?, days: Int64 = 20
    ) throws -> Sandbox.Outcome {
        let start = Timestamp(milliseconds: now - days * 86_400_000)
        try write(secret: try play.keyFile(api), to: "account.json")
        if let tokens { try sandbox.write(tokens.joined(separator: "\n") + "\n", to: "tokens") }
        return try sandbox.run(
            [
                "notifications", "catch-up", "--store", Self.store, "--since", "\(start)",
                "--play-package", FakePlay.package, "--play-service-account", "account.json", "--play-api", api.url,
            ] + (tokens == nil ? [] : ["--play-tokens", "tokens"]))
    }

    func write(secret: [UInt8], to name: String) throws {
        try sandbox.write(secret, to: name)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: sandbox.path(name))
    }

    /// Runs `syncd notifications list`.
    func list(_ options: String = "") throws -> Sandbox.Outcome {
        try sandbox.run("notifications list --store \(Self.store)\(options)")
    }

    /// Returns `true` if the device of alice has access after a sync with the server.
    func hasAccess(to entitlement: String) throws -> Bool {
        let synced = try Self.device(sandbox, server, "sync")
        guard synced.exitCode == 0 else { throw StageError(text: "\(synced)") }
        return try Self.device(sandbox, server, "check \(entitlement)").exitCode == 0
    }

    /// The keys of the store and their versions.
    func versions() async throws -> [String: EntryVersion?] {
        let backend = SQLiteBackend(path: sandbox.path("server.sqlite"))
        var versions: [String: EntryVersion?] = [:]
        var after: EntryKey?
        repeat {
            let page = try await backend.list(prefix: "", after: after, limit: 1_000).outcome
            // A server states its time every minute.
            for item in page.items where item.key.text != "server/clock" { versions[item.key.text] = item.version }
            after = page.next
        } while after != nil
        return versions
    }
}
