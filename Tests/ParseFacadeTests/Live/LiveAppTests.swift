import CurlTransport
import Entitlements
import Foundation
import HTTPTypes
import SyncProtocol
import TestSupport
import Testing

/// An app of the tutorials on one device, over HTTP.
private final class LiveApp {
    let server: ServerProcess
    let client: CurlClient
    let installation: String
    var (id, token) = ("", "")
    /// The date in the app's user defaults.
    var local: Timestamp?

    init(_ server: ServerProcess, _ installation: String) throws {
        (self.server, self.installation) = (server, installation)
        client = try CurlClient()
    }

    func ask(
        _ method: HTTPRequest.Method, _ path: String, _ json: [String: Any] = [:], bearer: String? = nil
    ) async throws -> [String: Any] {
        let url = try #require(URL(string: server.url + path))
        var request = HTTPRequest(
            method: method, scheme: "http", authority: "127.0.0.1:\(server.port)", path: url.path())
        let values = [
            ("X-Parse-Application-Id", "owls"), ("X-Parse-Client-Key", "ignored"),
            ("X-Parse-Installation-Id", installation), ("X-Parse-Session-Token", token),
            ("Content-Type", "application/json"),
        ]
        for (name, value) in values where !value.isEmpty {
            if let name = HTTPField.Name(name) { request.headerFields[name] = value }
        }
        if let bearer { request.headerFields[.authorization] = "Bearer \(bearer)" }
        let body = method == .get ? [] : Array(try JSONSerialization.data(withJSONObject: json))
        let answer = try await client.send(request, body: body, timeout: .seconds(20), maximumByteCount: 1 << 20)
        return try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any] ?? [:]
    }

    func logIn(signsUp: Bool = false) async throws {
        var body = ["username": "owl", "password": "secret password"]
        if !signsUp { body["_method"] = "GET" }
        let user = try await ask(.post, signsUp ? "/parse/users" : "/parse/login", body)
        id = try #require(user["objectId"] as? String)
        token = try #require(user["sessionToken"] as? String)
    }

    private func remote() async throws -> Timestamp? {
        let find: [String: Any] = ["where": ["objectId": id], "limit": "1", "_method": "GET"]
        let results = try await ask(.post, "/parse/classes/_User", find)["results"] as? [[String: Any]] ?? []
        let date = try #require(results.first)["ExpirationDate"] as? [String: Any]
        return try (date?["iso"] as? String).map { try Timestamp($0) }
    }

    private func write(_ date: Timestamp) async throws {
        let body = ["ExpirationDate": ["__type": "Date", "iso": "\(date)"]]
        let answer = try await ask(.put, "/parse/classes/_User/\(id)", body)
        _ = try #require(answer["updatedAt"])
    }

    /// The sample's `syncExpiration`: the later date wins, in both directions.
    func syncExpiration() async throws {
        let remote = try await remote()
        if let remote, remote > local ?? .earliest {
            local = remote
        } else if let local, local > remote ?? .earliest {
            try await write(local)
        }
    }

    /// The sample's `purchaseSubscriptionWithMonths`. `saveEventually` writes the returned date later.
    func purchaseSubscription(months: Int64, isOnline: Bool = true) async throws -> Timestamp {
        let remote = isOnline ? try await remote() : nil
        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
        let base = max([local, remote].compactMap { $0 }.max() ?? now, now)
        let date = base.adding(CalendarDuration(months: months))
        local = date
        if isOnline { try await write(date) }
        return date
    }

    func saveEventually(_ date: Timestamp, times: Int = 1) async throws {
        for _ in 0..<times { try await write(date) }
    }
}

@Suite("The tutorials' app against a real server")
struct LiveAppTests {
    private static let options = [
        "--parse", "owls", "--parse-field", "ExpirationDate=date:random", "--parse-classes", "Purchase",
    ]

    private func start() throws -> ServerProcess {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let catalog = root.appending(path: "Examples/insomniowl.json").path(percentEncoded: false)
        return try ServerProcess(store: "memory:", options: ["--catalog", catalog] + Self.options)
    }

    @Test(
        "A wrong value is refused before anything starts",
        arguments: [
            ["--parse", "a b"], ["--parse", "owls", "--parse-path", "parse/"], ["--parse-field", "A=date:random"],
            ["--parse", "owls", "--parse-path", "/v1/parse"], ["--parse", "owls", "--parse-field", "A"],
            ["--parse", "owls", "--parse-field", "A=time:random"], ["--parse", "owls", "--parse-classes", "_User"],
            ["--parse", "owls", "--parse-field", "username=date:random"],
            ["--parse", "owls", "--parse-field", "A=date:none"],
        ])
    func wrongValues(_ options: [String]) throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let catalog = root.appending(path: "Examples/insomniowl.json").path(percentEncoded: false)
        let failure = #expect(throws: ServerProcess.Failure.self) {
            _ = try ServerProcess(store: "memory:", options: ["--catalog", catalog] + options)
        }
        #expect(failure?.description.contains("--parse") == true, "\(options): \(failure?.description ?? "")")
    }

    @Test("Two devices that buy offline lose nothing, and a new version on the same account sees all")
    func devices() async throws {
        let server = try start()
        let (first, second) = (try LiveApp(server, "a"), try LiveApp(server, "b"))
        try await first.logIn(signsUp: true)
        let start = try await first.purchaseSubscription(months: 3)
        try await second.logIn()
        try await second.syncExpiration()
        #expect(abs((second.local?.milliseconds ?? 0) - start.milliseconds) < 10_000)
        // Both are offline and add to the same date.
        let dates = [
            try await first.purchaseSubscription(months: 3, isOnline: false),
            try await second.purchaseSubscription(months: 3, isOnline: false),
        ]
        try await first.saveEventually(dates[0], times: 2)
        try await second.saveEventually(dates[1], times: 3)
        for app in [first, second, first] { try await app.syncExpiration() }
        let right = start.adding(CalendarDuration(months: 6)).milliseconds
        for app in [first, second] { #expect(abs((app.local?.milliseconds ?? 0) - right) < 10_000) }
        // A restored device gets the date.
        let third = try LiveApp(server, "c")
        try await third.logIn()
        try await third.syncExpiration()
        #expect(third.local == first.local)
        // The new version.
        let session = try await third.ask(
            .post, "/v1/sessions",
            ["grant_type": "password", "username": "owl", "password": "secret password"])
        let bearer = try #require(session["access_token"] as? String)
        let state = try await third.ask(.get, "/v1/entitlements", bearer: bearer)
        let groups = state["subscriptions"] as? [[String: Any]] ?? []
        #expect(groups.first?["expires"] as? String == first.local?.description)
        #expect((groups.first?["periods"] as? [Any])?.count == 3)
        #expect(server.stop() == 0)
    }

    @Test(
        "qs-parse-rest works unchanged",
        .enabled(
            if: ProcessInfo.processInfo.environment["QS_PARSE_REST_PYTHON"] != nil,
            "QS_PARSE_REST_PYTHON must name a python3 that has the package qs-parse-rest (pip install qs-parse-rest)"))
    func python() throws {
        let server = try start()
        let program = """
            from parse_rest.connection import register
            from parse_rest.user import User
            from parse_rest.datatypes import Object
            register('owls', 'key')
            user = User.signup('owl', 'secret password', theme='dark')
            user = User.login('owl', 'secret password')
            assert user.theme == 'dark', user.theme
            register('owls', 'key', session_token=user.sessionToken)
            assert User.Query.get(username='owl').objectId == user.objectId
            assert list(User.Query.filter(username='bat')) == []
            user.theme = 'light'
            user.save()
            assert User.Query.get(objectId=user.objectId).theme == 'light'
            Purchase = Object.factory('Purchase')
            made = Purchase(product='owl')
            made.save()
            assert Purchase.Query.get(product='owl').objectId == made.objectId
            made.delete()
            print('done')
            """
        let folder = try TemporaryFolder()
        let file = folder.path(of: "client.py")
        try Data(program.utf8).write(to: URL(filePath: file))
        let (process, output) = (Process(), Pipe.closedOnExec())
        let python = ProcessInfo.processInfo.environment["QS_PARSE_REST_PYTHON"] ?? ""
        (process.executableURL, process.arguments) = (URL(filePath: python), [file])
        process.environment = ["PARSE_API_ROOT": server.url + "/parse"]
        (process.standardOutput, process.standardError) = (output, output)
        let end = ProcessEnd(of: process)
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        end.wait()
        #expect(text == "done\n", "\(text)")
        #expect(server.stop() == 0)
    }
}
