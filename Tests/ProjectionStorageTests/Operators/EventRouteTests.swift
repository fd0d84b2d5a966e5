import Entitlements
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import Testing

@testable import SyncService

@Suite("The events of the projection at /v1/events", .timeLimit(.minutes(15)))
struct EventRouteTests {
    private func makeStage() async throws -> ProjectionStage {
        let stage = try await ProjectionStage(.sqlite)
        try await stage.project()
        for name in ["ann", "bob"] { try await stage.signUp(name) }
        try await stage.buy("owl", "o1", as: "ann")
        try await stage.project()
        return stage
    }

    private func kinds(_ reply: Reply) -> [String] {
        (reply.members["events"] as? [[String: Any]] ?? []).map { event in
            "\(event["id"] as? Int ?? 0) \(event["account"] as? String ?? "") \(event["type"] as? String ?? "")"
        }
    }

    /// A client that reads the pieces of a stream.
    private final class Reader {
        private var pieces: AsyncStream<[UInt8]>.Iterator

        init(_ stage: ProjectionStage, token: String = .operatorToken, after id: String?) async throws {
            var fields: HTTPFields = [.accept: "text/event-stream", .authorization: "Bearer \(token)"]
            if let id { fields[try #require(HTTPField.Name("Last-Event-ID"))] = id }
            let head = HTTPRequest(
                method: .get, scheme: "http", authority: "x", path: "/v1/events", headerFields: fields)
            let answer = await stage.service.respond(to: ServiceRequest(head, peer: "192.0.2.1"))
            guard case .stream(let stream, _) = answer.body else {
                Issue.record("no stream: \(answer.head.status)")
                pieces = AsyncStream<[UInt8]> { $0.finish() }.makeAsyncIterator()
                return
            }
            pieces = stream.makeAsyncIterator()
        }

        /// The next piece; `nil` at the end.
        func next() async -> String? { await pieces.next().map { String(decoding: $0, as: UTF8.self) } }
    }

    @Test("Pages have every event once, and state whether there are more", arguments: [1, 2, 100])
    func pages(size: Int) async throws {
        let stage = try await makeStage()
        var (all, after, hasMore): ([String], Int?, Bool) = ([], nil, true)
        while hasMore {
            let reply = await stage.ask("/v1/events?limit=\(size)" + (after.map { "&after=\($0)" } ?? ""))
            try #require(reply.status == 200, "\(reply.members)")
            all += kinds(reply)
            after = reply.members["next"] as? Int
            hasMore = reply.members["more"] as? Bool ?? false
        }
        #expect(
            all == [
                "1 ann account.created", "2 ann purchase.recorded", "3 ann access.granted", "4 bob account.created",
            ])
        let rest = await stage.ask("/v1/events?after=4")
        #expect(rest.status == 200 && kinds(rest).isEmpty && rest.members["next"] as? Int == 4)
    }

    @Test("A stream resumes after the last event that the client has seen, and goes on with live events")
    func stream() async throws {
        let stage = try await makeStage()
        let reader = try await Reader(stage, after: "2")
        #expect(await reader.next()?.contains("id: 2\nevent: position\n") == true)
        let known = try #require(await reader.next())
        #expect(known.hasPrefix("id: 3\nevent: access.granted\ndata: {\"id\": 3, \"type\": "))
        #expect(known.contains("\n\nid: 4\nevent: account.created\n") && known.hasSuffix("}\n\n"))
        try await stage.buy("owl", "o2", as: "bob")
        try await stage.project()
        stage.service.hub.announceEvents()
        let live = try #require(await reader.next())
        #expect(
            live.contains("id: 5\nevent: purchase.recorded\n") && live.contains("id: 6\nevent: access.granted\n"))
    }

    @Test("A client that knows no event begins at the end")
    func newClient() async throws {
        let stage = try await makeStage()
        let reader = try await Reader(stage, after: nil)
        #expect(await reader.next()?.contains("id: 4\nevent: position\n") == true)
        try await stage.signUp("cid")
        try await stage.project()
        stage.service.hub.announceEvents()
        #expect(await reader.next()?.hasPrefix("id: 5\nevent: account.created\n") == true)
    }

    @Test("A stream ends when its token is revoked")
    func revocation() async throws {
        let stage = try await makeStage()
        let tokens = OperatorTokens(stage.store, host: stage.clock.host)
        let made = try await tokens.create("backend", scope: .read, expires: nil)
        let reader = try await Reader(stage, token: made.text, after: "4")
        #expect(await reader.next() != nil)
        _ = try await tokens.revoke("backend")
        await stage.service.followChanges()
        #expect(await reader.next() == nil)
    }

    @Test("An event that was deleted, or that never was, is refused with where to go on")
    func pruned() async throws {
        let stage = try await makeStage()
        let ahead = await stage.ask("/v1/events?after=5")
        #expect(ahead.status == 410 && ahead.problem?.detail.contains("go on with after=4") == true)
        _ = try await stage.database.write([SQLStatement("DELETE FROM events WHERE id IN (1, 3)")], fence: nil)
        // One that is kept for a webhook is older than the gap.
        let first = await stage.ask("/v1/events")
        #expect(kinds(first) == ["2 ann purchase.recorded"] && first.members["more"] as? Bool == true)
        for after in [0, 2] {
            let reply = await stage.ask("/v1/events?after=\(after)")
            let text = "the events \(after + 1) to \(after + 1) were deleted"
            #expect(reply.status == 410 && reply.problem?.detail.contains(text) == true, "\(after)")
            #expect(reply.problem?.detail.contains("after=\(after + 1)") == true)
        }
        #expect(kinds(await stage.ask("/v1/events?after=3")) == ["4 bob account.created"])
        let stream: HTTPFields = [.accept: "text/event-stream"]
        #expect(await stage.ask("/v1/events?after=2", stream).status == 410)
        #expect(await stage.ask("/v1/events?after=x").status == 400)
        _ = try await stage.database.write([SQLStatement("DELETE FROM events")], fence: nil)
        #expect(await stage.ask("/v1/events?after=3").problem?.detail.contains("after=4") == true)
    }
}
