import Entitlements
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import Synchronization
import TestSupport
import Testing

@testable import SyncService

@Suite("Events that are sent to webhooks", .timeLimit(.minutes(15)))
struct WebhookSenderTests {
    private static let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

    private static func endpoints(_ names: String..., filter: String = "null") throws -> [WebhookEndpoint] {
        let list = names.map { name in
            #"{"name":"\#(name)","url":"https://\#(name).example","secrets":["\#(secret)"],"events":\#(filter)}"#
        }
        return try WebhookEndpoint.list(json: Array("[\(list.joined(separator: ","))]".utf8))
    }

    /// Notes of a sender, and requests to all endpoints.
    private final class Receivers: HTTPTransport {
        struct Arrival: Hashable {
            var webhook: String
            var account: String
            var type: String
            var id: String

            var text: String { "\(account) \(type)" }
        }

        private let state = Mutex<(arrivals: [Arrival], notes: [String])>(([], []))
        private let signals = SignalHub()
        /// Returns the status; `nil` to answer never.
        private let answer: @Sendable (Arrival) -> Int?

        init(_ answer: @escaping @Sendable (Arrival) -> Int? = { _ in 204 }) { self.answer = answer }

        var arrivals: [Arrival] { state.withLock { $0.arrivals } }
        var notes: [String] { state.withLock { $0.notes } }

        func note(_ text: String) {
            state.withLock { $0.notes.append(text) }
            signals.signal()
        }

        func texts(_ webhook: String) -> [String] { arrivals.filter { $0.webhook == webhook }.map(\.text) }

        func wait(until condition: (Receivers) -> Bool) async {
            for await _ in signals.subscribe(startingWith: (), keeping: 1) where condition(self) { return }
        }

        func send(
            _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int
        ) async throws(TransportError) -> TransportAnswer {
            let event = try? JSON(parsing: body)
            let arrival = Arrival(
                webhook: String(request.authority?.prefix { $0 != "." } ?? ""),
                account: event?["account"]?.string ?? "",
                type: event?["type"]?.string ?? "",
                id: HTTPField.Name("webhook-id").flatMap { request.headerFields[$0] } ?? "")
            state.withLock { $0.arrivals.append(arrival) }
            signals.signal()
            guard let code = answer(arrival) else {
                let (never, end) = AsyncStream.makeStream(of: Void.self)
                for await _ in never {}
                end.finish()
                throw TransportError(.cancelled, mayHaveArrived: true, message: "cancelled")
            }
            return TransportAnswer(HTTPResponse(status: HTTPResponse.Status(code: code)))
        }
    }

    /// Runs a sender while `body` runs.
    private func sending(
        _ stage: ProjectionStage, to endpoints: [WebhookEndpoint]?, _ receivers: Receivers,
        _ body: (WebhookSender) async throws -> Void
    ) async throws {
        let sender = WebhookSender(
            stage.projector, stage.database, endpoints: endpoints, host: stage.clock.host,
            transport: { _ in receivers }, onError: { Issue.record("\($0)") }, onNote: { receivers.note($0) })
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await sender.run() }
            try await body(sender)
            group.cancelAll()
        }
    }

    private func isNew(_ name: String) -> (Receivers) -> Bool {
        { $0.notes.contains("the webhook \(name) is new: it receives the events from now on") }
    }

    @Test(
        "An endpoint receives the events from its start on, in order for each account", arguments: DatabaseKind.allCases
    )
    func order(kind: DatabaseKind) async throws {
        let stage = try await ProjectionStage(kind)
        try await stage.project()
        try await stage.signUp("early")
        try await stage.project()
        let receivers = Receivers()
        let all = try Self.endpoints("all") + Self.endpoints("some", filter: #"["purchase.recorded"]"#)
        try await sending(stage, to: all, receivers) { sender in
            await receivers.wait { isNew("all")($0) && isNew("some")($0) }
            for number in 0..<12 {
                try await stage.signUp("u\(number % 4)\(number)")
                try await stage.buy("month", "m\(number)", as: "u\(number % 4)\(number)")
                try await stage.buy("owl", "o\(number)", as: "u\(number % 4)\(number)")
                try await stage.project()
            }
            await receivers.wait { $0.texts("all").count >= 12 * 6 && $0.texts("some").count >= 24 }
            let expected = [
                "account.created", "purchase.recorded", "subscription.started", "access.granted", "purchase.recorded",
                "access.granted",
            ]
            for number in 0..<12 {
                let own = receivers.arrivals.filter { $0.webhook == "all" && $0.account == "u\(number % 4)\(number)" }
                // The two purchases may be projected together.
                #expect(own.map(\.type).sorted() == expected.sorted() && own.first?.type == expected[0], "\(own)")
                let numbers = own.compactMap { StoredEvent.number($0.id) }
                #expect(numbers == numbers.sorted())
            }
            #expect(!receivers.arrivals.contains { $0.account == "early" })
            #expect(Set(receivers.texts("some").map { $0.split(separator: " ").last }) == ["purchase.recorded"])
            let ids = receivers.arrivals.filter { $0.type == "purchase.recorded" }
            #expect(Dictionary(grouping: ids, by: \.id).values.allSatisfy { Set($0.map(\.webhook)).count == 2 })
        }
        #expect(try await stage.rows("SELECT count(*) FROM deliveries WHERE dead IS NOT NULL") == [[.integer(0)]])
    }

    @Test(
        "A failing event holds back its account only, becomes a dead letter, and can be sent again",
        arguments: DatabaseKind.allCases)
    func deadLetter(kind: DatabaseKind) async throws {
        let stage = try await ProjectionStage(kind)
        try await stage.project()
        let isMended = Atomic(false)
        let receivers = Receivers { arrival in
            arrival.text == "ann purchase.recorded" && !isMended.load(ordering: .relaxed) ? 500 : 200
        }
        try await sending(stage, to: try Self.endpoints("crm"), receivers) { sender in
            await receivers.wait(until: isNew("crm"))
            for name in ["ann", "bob"] {
                try await stage.signUp(name)
                try await stage.buy("month", "m-\(name)", as: name)
            }
            try await stage.project()
            await receivers.wait {
                $0.texts("crm").contains("bob access.granted") && $0.texts("crm").contains("ann purchase.recorded")
            }
            #expect(!receivers.texts("crm").contains("ann subscription.started"))
            // The last attempt is after three days. The later events go on then.
            stage.clock.advance(seconds: 73 * 3_600)
            await receivers.wait { $0.texts("crm").contains("ann access.granted") }
            let own = receivers.texts("crm").filter { $0.hasPrefix("ann") }
            #expect(
                own == [
                    "ann account.created", "ann purchase.recorded", "ann purchase.recorded", "ann subscription.started",
                    "ann access.granted",
                ])
            let ids = receivers.arrivals.filter { $0.text == "ann purchase.recorded" }.map(\.id)
            #expect(Set(ids).count == 1)
            isMended.store(true, ordering: .relaxed)
            var letters = try await sender.tables.deadLetters()
            while letters.isEmpty { letters = try await sender.tables.deadLetters() }
            #expect(letters.map(\.event.webhookID) == Array(ids.prefix(1)) && letters.first?.attempts == 2)
            #expect(letters.first?.error == "the answer was 500")
            #expect(try await sender.tables.sendAgain(nil, to: "crm", at: stage.clock.now) == 1)
            await receivers.wait { $0.texts("crm").filter { $0 == "ann purchase.recorded" }.count == 3 }
            #expect(try await sender.tables.sendAgain(99_999, to: "crm", at: stage.clock.now) == nil)
            let first = try #require(receivers.arrivals.first.flatMap { StoredEvent.number($0.id) })
            #expect(try await sender.tables.sendAgain(first, to: "crm", at: stage.clock.now) == 1)
            await receivers.wait { $0.arrivals.filter { StoredEvent.number($0.id) == first }.count == 2 }
            var report = try await sender.tables.reports().first
            while report?.pending != 0 { report = try await sender.tables.reports().first }
            #expect(report?.dead == 0 && report?.failed == 2 && report?.failures == 0)
        }
    }

    @Test("A receiver that never answers delays no other one")
    func silent() async throws {
        let stage = try await ProjectionStage(.sqlite)
        try await stage.project()
        let receivers = Receivers { $0.webhook == "silent" ? nil : 200 }
        try await sending(stage, to: try Self.endpoints("silent", "quick"), receivers) { _ in
            await receivers.wait { isNew("silent")($0) && isNew("quick")($0) }
            for number in 0..<20 { try await stage.signUp("u\(number)") }
            try await stage.project()
            await receivers.wait { $0.texts("quick").count == 20 && $0.texts("silent").count == 8 }
        }
        #expect(receivers.texts("silent").count == 8)
    }

    @Test("An endpoint that is removed is forgotten, but not if none are configured", arguments: DatabaseKind.allCases)
    func forgotten(kind: DatabaseKind) async throws {
        let stage = try await ProjectionStage(kind)
        try await stage.project()
        let receivers = Receivers { $0.webhook == "old" ? 500 : 200 }
        try await sending(stage, to: try Self.endpoints("old", "new"), receivers) { sender in
            await receivers.wait { isNew("old")($0) && isNew("new")($0) }
            try await stage.signUp("ann")
            try await stage.project()
            await receivers.wait { $0.arrivals.count == 2 }
            sender.use(nil)
            var known = sender.progress
            while !known.isEmpty { known = sender.progress; await Task.yield() }
            #expect(try await stage.rows("SELECT webhook FROM webhooks ORDER BY webhook").count == 2)
            sender.use(try Self.endpoints("new"))
            await receivers.wait { $0.notes.contains { $0.hasPrefix("the webhook old is no longer configured") } }
            #expect(try await stage.rows("SELECT webhook FROM webhooks") == [[.text("new")]])
            #expect(try await stage.rows("SELECT webhook FROM deliveries WHERE webhook = 'old'").isEmpty)
        }
    }

    @Test(
        "A server that lost its lease records nothing; what is known survives a rebuild and a migration",
        arguments: DatabaseKind.allCases)
    func fenced(kind: DatabaseKind) async throws {
        let stage = try await ProjectionStage(kind)
        try await stage.project()
        let tables = WebhookTables(database: stage.database)
        let endpoint = try #require(try Self.endpoints("crm").first)
        let epoch = try #require(stage.projector.epoch)
        #expect(try await tables.add("crm", at: 0, epoch: epoch))
        for name in ["ann", "bob"] { try await stage.signUp(name) }
        try await stage.buy("owl", "o1", as: "ann")
        try await stage.project()
        let position = try #require(try await tables.position(of: "crm", at: 0, limit: 9)).position
        #expect(position.taken == 0 && position.lastEvent == 4)
        #expect(try await tables.take(position, for: endpoint, at: 5, epoch: epoch))
        let due = try #require(try await tables.position(of: "crm", at: 5, limit: 9)).due
        #expect(due.sorted() == ["ann", "bob"])
        // The projector goes on beside these transactions.
        try await stage.buy("month", "m1", as: "bob")
        try await stage.project()
        var (lane, events) = try await tables.lane(of: "ann", for: "crm")
        #expect(lane.waiting.count == 3 && events.values.map(\.account) == ["ann", "ann", "ann"])
        lane.record(.delivered, at: 5, jitter: 0)
        lane.record(.failed("no", retryAfter: nil), at: 5, jitter: 0)
        let outcomes = [WebhookTables.Outcome(account: "ann", lane: lane)]
        let content = try await stage.rows("SELECT event, due, attempts, dead FROM deliveries ORDER BY event")
        try await ProjectionTables(stage.database).requestRebuild()
        #expect(try await !tables.record(outcomes, of: "crm", at: 5, isRecovered: false, epoch: epoch))
        #expect(try await !tables.take(position, for: endpoint, at: 5, epoch: epoch))
        #expect(try await !tables.add("other", at: 5, epoch: epoch))
        #expect(try await stage.rows("SELECT event, due, attempts, dead FROM deliveries ORDER BY event") == content)
        try await stage.project()
        let changes = [
            "DROP VIEW customers_v1", "DROP VIEW acts_v1", "DROP VIEW statistics_v1", "DROP INDEX customers_external",
            "ALTER TABLE customers DROP COLUMN external_id", "DROP TABLE acts", "DROP TABLE statistics",
            "ALTER TABLE sessions DROP COLUMN incarnation", "ALTER TABLE state DROP COLUMN rebuilt",
            "ALTER TABLE state DROP COLUMN views",
            "UPDATE state SET version = 1",
        ]
        #expect(try await stage.database.write(changes.map { SQLStatement($0) }, fence: nil))
        _ = try await ProjectionTables(stage.database).open { Issue.record("\($0)") }
        try await stage.project()
        #expect(try await stage.rows("SELECT event, due, attempts, dead FROM deliveries ORDER BY event") == content)
        let next = try #require(stage.projector.epoch)
        #expect(try await tables.record(outcomes, of: "crm", at: 5, isRecovered: false, epoch: next))
        let rows = try await stage.rows("SELECT account, due, attempts FROM deliveries WHERE event < 5 ORDER BY event")
        #expect(
            Set(rows) == [
                [.text("ann"), .integer(4_005), .integer(1)], [.text("ann"), .null, .integer(0)],
                [.text("bob"), .integer(5), .integer(0)],
            ])
        // An endpoint that accepts events again gets all of them at once.
        #expect(try await tables.record([], of: "crm", at: 6, isRecovered: true, epoch: next))
        #expect(try await tables.position(of: "crm", at: 6, limit: 9)?.due.sorted() == ["ann", "bob"])
    }

    @Test("Old events are deleted unless an endpoint has not received them", arguments: DatabaseKind.allCases)
    func pruning(kind: DatabaseKind) async throws {
        let stage = try await ProjectionStage(kind)
        try await stage.project()
        let tables = WebhookTables(database: stage.database)
        let epoch = try #require(stage.projector.epoch)
        let endpoint = try #require(try Self.endpoints("crm").first)
        for name in ["a", "b", "c", "d"] { try await stage.signUp(name) }
        try await stage.project()
        let start = stage.clock.now
        #expect(try await tables.prune(before: start, after: 0, limit: 3, epoch: epoch) == nil)
        #expect(try await stage.events().count == 4)
        // A new endpoint begins after the last event.
        #expect(try await tables.add("crm", at: 0, epoch: epoch))
        for name in ["e", "f", "g"] { try await stage.signUp(name) }
        try await stage.project()
        #expect(try await tables.prune(before: start + 1, after: 0, limit: 3, epoch: epoch) == 3)
        #expect(try await tables.prune(before: start + 1, after: 3, limit: 3, epoch: epoch) == nil)
        #expect(try await stage.events().count == 3)
        let position = try #require(try await tables.position(of: "crm", at: 0, limit: 9)).position
        #expect(try await tables.take(position, for: endpoint, at: 0, epoch: epoch))
        var lane = try await tables.lane(of: "e", for: "crm").lane
        lane.record(.delivered, at: 0, jitter: 0)
        var dead = try await tables.lane(of: "f", for: "crm").lane
        dead.record(.refused("gone"), at: 0, jitter: 0)
        let outcomes = [
            WebhookTables.Outcome(account: "e", lane: lane), WebhookTables.Outcome(account: "f", lane: dead),
        ]
        #expect(try await tables.record(outcomes, of: "crm", at: 0, isRecovered: false, epoch: epoch))
        #expect(try await tables.prune(before: start + 1, after: 0, limit: 9, epoch: epoch) == nil)
        #expect(try await stage.events() == ["f account.created", "g account.created"])
    }
}
