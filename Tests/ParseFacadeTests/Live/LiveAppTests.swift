import CurlTransport
import Entitlements
import Foundation
import HTTPTypes
import SyncProtocol
import TestSupport
import Testing

/// The tutorials, by the shape of their field: one date, or the array of 2013, to which the app adds.
enum Tutorial: String, CaseIterable {
    case date, dates
}

/// An app of the tutorials on one device, over HTTP.
private final class LiveApp {
    let server: ServerProcess
    let client: CurlClient
    let installation: String
    let tutorial: Tutorial
    var (id, token) = ("", "")
    /// The date in the app's user defaults.
    var local: Timestamp?

    init(_ server: ServerProcess, _ installation: String, _ tutorial: Tutorial) throws {
        (self.server, self.installation, self.tutorial) = (server, installation, tutorial)
        client = try CurlClient()
    }

    /// Sends a request with the header fields of the SDK of iOS.
    func ask(
        _ method: HTTPRequest.Method, _ path: String, _ json: [String: Any] = [:], bearer: String? = nil
    ) async throws -> [String: Any] {
        let fields = [
            "X-Parse-Application-Id": "owls", "X-Parse-Client-Key": "ignored", "X-Parse-Installation-Id": installation,
            "X-Parse-Session-Token": token, "Content-Type": "application/json",
            "Authorization": bearer.map { "Bearer \($0)" } ?? "",
        ]
        return try await send(method, path, json, fields)
    }

    /// Sends a request as the SDK of JavaScript does, with everything in a text.
    func askAsJavaScript(_ method: String, _ path: String, _ json: [String: Any] = [:]) async throws -> [String: Any] {
        let own = [
            "_method": method, "_ApplicationId": "owls", "_JavaScriptKey": "ignored", "_ClientVersion": "js3.4.2",
            "_InstallationId": installation, "_SessionToken": token,
        ]
        return try await send(.post, path, json.merging(own) { $1 }, ["Content-Type": "text/plain"])
    }

    private func send(
        _ method: HTTPRequest.Method, _ path: String, _ json: [String: Any], _ fields: [String: String]
    ) async throws -> [String: Any] {
        let url = try #require(URL(string: server.url + path))
        var request = HTTPRequest(
            method: method, scheme: "http", authority: "127.0.0.1:\(server.port)", path: url.path())
        for (name, value) in fields where !value.isEmpty {
            request.headerFields[try #require(HTTPField.Name(name))] = value
        }
        let body = method == .get ? [] : Array(try JSONSerialization.data(withJSONObject: json))
        let answer = try await client.send(request, body: body, timeout: Patience.limit, maximumByteCount: 1 << 20)
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
        return try date(in: try #require(results.first))
    }

    /// The date in the field of a user: the date itself, or the last element of the array.
    func date(in user: [String: Any]) throws -> Timestamp? {
        guard let value = user["ExpirationDate"] else { return nil }
        let date = tutorial == .date ? value as? [String: Any] : (value as? [[String: Any]])?.last
        return try Timestamp(try #require(date?["iso"] as? String))
    }

    private func write(_ date: Timestamp) async throws {
        let date = ["__type": "Date", "iso": "\(date)"]
        let value: [String: Any] = tutorial == .date ? date : ["__op": "Add", "objects": [date]]
        let answer = try await ask(.put, "/parse/classes/_User/\(id)", ["ExpirationDate": value])
        _ = try #require(answer["updatedAt"])
        // The answer to an operation has the new value of the field, which the app does not read.
        if tutorial == .dates { _ = try #require(try self.date(in: answer)) }
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
    private func start(_ tutorial: Tutorial = .date) throws -> ServerProcess {
        return try ServerProcess(
            store: "memory:",
            options: [
                "--catalog", Repository.catalog, "--parse", "owls", "--parse-field",
                "ExpirationDate=\(tutorial):random",
                "--parse-classes", "Purchase",
            ])
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
        let failure = #expect(throws: ServerProcess.Failure.self) {
            _ = try ServerProcess(store: "memory:", options: ["--catalog", Repository.catalog] + options)
        }
        #expect(failure?.description.contains("--parse") == true, "\(options): \(failure?.description ?? "")")
    }

    @Test(
        "Two devices that buy offline lose nothing, and a new version on the same account sees all",
        arguments: Tutorial.allCases)
    func devices(_ tutorial: Tutorial) async throws {
        let server = try start(tutorial)
        let (first, second) = (try LiveApp(server, "a", tutorial), try LiveApp(server, "b", tutorial))
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
        let third = try LiveApp(server, "c", tutorial)
        try await third.logIn()
        try await third.syncExpiration()
        #expect(third.local == first.local)
        // A web page of the same user.
        let page = try await third.askAsJavaScript("GET", "/parse/users/me")
        #expect(page["objectId"] as? String == first.id && page["sessionToken"] as? String == third.token)
        #expect(try third.date(in: page) == first.local)
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
