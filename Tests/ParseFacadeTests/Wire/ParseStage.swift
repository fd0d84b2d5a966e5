import Entitlements
import Foundation
import HTTPTypes
import ParseFacade
import ServiceTestSupport
import SyncCore
import SyncService
import Synchronization
import TestSupport

/// The catalogue of the tutorials' app.
func tutorialCatalog() throws -> Catalog {
    try Catalog(json: Data(contentsOf: Repository.file("Examples/insomniowl.json")))
}

/// An answer of the façade.
struct ParseReply {
    var status: Int
    var fields: HTTPFields
    var body: [UInt8]

    /// A text member of the JSON body; `nil` if it is missing or not a text.
    subscript(member: String) -> String? { members[member] as? String }

    var members: [String: Any] {
        (try? JSONSerialization.jsonObject(with: Data(body))) as? [String: Any] ?? [:]
    }

    /// The objects that a find has returned.
    var results: [[String: Any]] { members["results"] as? [[String: Any]] ?? [] }

    var code: Int? { members["code"] as? Int }

    /// The answers to the requests of a batch, each with the status 200 or 400.
    func parts() throws -> [ParseReply] {
        let list = try JSONSerialization.jsonObject(with: Data(body)) as? [[String: Any]] ?? []
        return try list.map { part in
            let body = try JSONSerialization.data(withJSONObject: part["success"] ?? part["error"] ?? [:])
            return ParseReply(status: part["success"] == nil ? 400 : 200, fields: [:], body: Array(body))
        }
    }
}

/// The lines of the conflict log of a façade.
final class ConflictLines: Sendable {
    private let lines = Mutex<[String]>([])

    var all: [String] { lines.withLock { $0 } }

    func append(_ line: String) { lines.withLock { $0.append(line) } }
}

/// A façade over a service in this process, and the requests of apps.
struct ParseStage {
    let conflicts = ConflictLines()
    let clock = TestClock(1_800_000_000_000)
    let store = MemoryBackend()
    let service: EntitlementService
    let parse: ParseServer

    /// - Parameter backend: The store of the service; by default ``store``.
    init(
        over backend: (any KeyValueBackend)? = nil, shape: String = "date", policy: TrustPolicy = .trusted,
        passwords: any PasswordHasher = PlainPasswords(),
        configure: (inout ServiceConfiguration) -> Void = { _ in }
    ) async throws {
        let tutorial = try tutorialCatalog()
        var rules = tutorial.policy
        rules.rules.consumables = .shared
        let catalog = try Catalog(products: tutorial.products, entitlements: tutorial.entitlements, policy: rules)
        service = try await .open(
            backend ?? store, clock: clock, passwords: passwords,
            configure: { configuration in
                (configuration.catalog, configuration.policy) = (catalog, policy)
                configuration.facade = .derivedPurchases(catalog)
                configure(&configuration)
            })
        var configuration = try ParseConfiguration(applicationID: "owls")
        try configuration.addField("ExpirationDate=\(shape):random", catalog: catalog)
        try configuration.addClass("Purchase")
        parse = ParseServer(configuration, service, onConflict: conflicts.append)
    }

    /// Sends a request as an app does.
    func ask(
        _ method: String, _ path: String, _ body: String = "", token: String? = nil, installation: String? = "i1",
        application: String? = "owls", request: String? = nil, peer: String = "192.0.2.1",
        further: [String: String] = [:]
    ) async -> ParseReply {
        var fields = HTTPFields()
        let values = [
            ("X-Parse-Application-Id", application), ("X-Parse-Session-Token", token),
            ("X-Parse-Installation-Id", installation), ("X-Parse-Request-Id", request),
        ]
        for (name, value) in values + further.map({ ($0.key, $0.value) }) {
            if let name = HTTPField.Name(name), let value { fields[name] = value }
        }
        let head = HTTPRequest(
            method: HTTPRequest.Method(method) ?? .get, scheme: "http", authority: "x", path: "/parse" + path,
            headerFields: fields)
        let answer = await parse.respond(to: ServiceRequest(head, body: Array(body.utf8), peer: peer))
        var bytes: [UInt8] = []
        if case .bytes(let body) = answer.body { bytes = body }
        return ParseReply(status: answer.head.status.code, fields: answer.head.headerFields, body: bytes)
    }

    /// Sends a request as the SDK of JavaScript does: POST with a text that holds everything.
    ///
    /// - Parameters:
    ///   - members: The members of the body, without the braces.
    ///   - request: The request id, which the SDK sends only if idempotency is on.
    func askAsJavaScript(
        _ method: String, _ path: String, _ members: String = "", token: String? = nil, application: String = "owls",
        request: String? = nil
    ) async -> ParseReply {
        var all = members.isEmpty ? [] : [members]
        if method != "POST" { all.append(#""_method":"\#(method)""#) }
        all.append(#""_ApplicationId":"\#(application)","_JavaScriptKey":"key","_ClientVersion":"js3.4.2""#)
        all.append(#""_InstallationId":"browser""#)
        if let token { all.append(#""_SessionToken":"\#(token)""#) }
        let body = "{" + all.joined(separator: ",") + "}"
        return await ask(
            "POST", path, body, installation: nil, application: nil, request: request,
            further: ["Content-Type": "text/plain"])
    }

    /// A signed-up user.
    struct User {
        var id: String
        var token: String
    }

    func signUp(_ name: String = "owl", _ password: String = "pw", installation: String = "i1") async -> User {
        let body = #"{"username":"\#(name)","password":"\#(password)"}"#
        let reply = await ask("POST", "/users", body, installation: installation)
        return User(id: reply["objectId"] ?? "", token: reply["sessionToken"] ?? "")
    }

    /// Writes a date to the expiry field of a user.
    func write(_ date: String, _ user: User, installation: String = "i1") async -> ParseReply {
        let body = #"{"ExpirationDate":{"__type":"Date","iso":"\#(date)"}}"#
        return await ask("PUT", "/users/\(user.id)", body, token: user.token, installation: installation)
    }

    /// The date that the expiry field of a user shows.
    func end(of user: User, installation: String = "i1") async -> String? {
        let reply = await ask("GET", "/users/me", token: user.token, installation: installation)
        return (reply.members["ExpirationDate"] as? [String: String])?["iso"]
    }

    /// The position of the latest change of the store.
    func cursor() async throws -> ChangeCursor? { try await store.latestCursor().outcome }

    func text(_ reply: ParseReply) -> String { String(decoding: reply.body, as: UTF8.self) }

    /// The date `months` after the time of the clock.
    func date(months: Int64, days: Int64 = 0) -> String {
        "\(Timestamp(milliseconds: clock.now).adding(CalendarDuration(months: months, days: days)))"
    }
}
