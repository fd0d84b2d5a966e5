import EntitlementSync
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import Testing

@testable import SyncService

@Suite("Event streams of a service")
struct EventStreamTests {
    private let store = MemoryBackend()
    private let clock = TestClock(1_800_000_000_000)
    private let service: EntitlementService
    private let alice: Reply
    private let bob: Reply

    init() async throws {
        service = try await .open(store, clock: clock)
        alice = await service.ask(.post, "/v1/accounts", json: ["name": "alice", "password": "correct horse"])
        bob = await service.ask(.post, "/v1/accounts", json: ["name": "bob", "password": "correct horse"])
    }

    /// A client that reads the events of a stream.
    private final class Reader {
        private var pieces: AsyncStream<[UInt8]>.Iterator
        private var parser = ServerSentEvents()
        private var buffered: [ServerSentEvents.Event] = []
        let status: Int
        let fields: HTTPFields

        init(
            _ service: EntitlementService, token: String?, path: String = "/v1/changes", last: String? = nil
        ) async throws {
            var fields: HTTPFields = [.accept: "text/event-stream"]
            if let token { fields[.authorization] = "Bearer \(token)" }
            if let last { fields[try #require(HTTPField.Name("Last-Event-ID"))] = last }
            let head = HTTPRequest(method: .get, scheme: "http", authority: "x", path: path, headerFields: fields)
            let answer = await service.respond(to: ServiceRequest(head, peer: "192.0.2.1"))
            (status, self.fields) = (answer.head.status.code, answer.head.headerFields)
            if case .stream(let stream, _) = answer.body {
                pieces = stream.makeAsyncIterator()
            } else {
                pieces = AsyncStream<[UInt8]> { $0.finish() }.makeAsyncIterator()
            }
        }

        /// The next event; `nil` at the end.
        func next() async throws -> ServerSentEvents.Event? {
            while buffered.isEmpty {
                guard let piece = await pieces.next() else { return nil }
                buffered += try parser.feed(piece)
            }
            return buffered.removeFirst()
        }
    }

    @Test("A stream ends when the record of its account changes, also if its session is still stored")
    func outdatedEpoch() async throws {
        let reader = try await Reader(service, token: alice["access_token"])
        await put("a", as: alice)
        await service.followChanges()
        _ = try await service.accounts.records.update(try AccountRecord.key(of: "alice")) { (known: AccountRecord?) in
            var record = known
            record?.epoch += 1
            return record
        }
        await service.followChanges()
        var count = 0
        while try await reader.next() != nil { count += 1 }
        #expect(count > 0)
    }

    @Test("A device whose stream ends when its account is erased receives the marker after it reconnects")
    func erasure() async throws {
        let stream = try await Reader(service, token: alice["access_token"])
        await put("a", as: alice)
        await service.followChanges()
        let token = alice["access_token"]
        let erased = await service.ask(
            .post, "/v1/accounts/self/erasure", token: token, json: ["password": "correct horse"])
        #expect(erased.status == 204)
        await service.followChanges()
        var last = ""
        while let event = try await stream.next() { if !event.lastEventID.isEmpty { last = event.lastEventID } }
        let again = try await Reader(service, token: token, last: last)
        var changes: [String] = []
        while changes.isEmpty, let event = try await again.next() {
            if event.name == "change" { changes.append(event.data) }
        }
        #expect(changes.count == 1 && changes[0].contains("/ledger\""), "\(changes)")
        let path = "/v1/kv/accounts/alice/\(alice["incarnation"] ?? "")/ledger"
        #expect(await service.ask(.put, path + "?if=any", token: token, body: [1]).status == 403)
        #expect(await service.ask(.delete, path + "?if=any", token: token).status == 403)
    }

    private func put(_ name: String, as session: Reply) async {
        let path = "/v1/kv/accounts/\(session["account"] ?? "")/\(session["incarnation"] ?? "")/\(name)"
        #expect(await service.ask(.put, path + "?if=any", token: session["access_token"], body: [1]).status == 200)
    }

    /// Runs `body` while the service follows the changes of its store.
    private func running(_ body: () async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await service.run() }
            try await body()
            group.cancelAll()
        }
    }

    @Test("A client receives changes of its own account only", .timeLimit(.minutes(15)))
    func scope() async throws {
        try await running {
            let reader = try await Reader(service, token: alice["access_token"])
            #expect(reader.status == 200)
            await put("secret", as: bob)
            await put("note", as: alice)
            var keys: [String] = []
            while keys.isEmpty {
                let event = try #require(try await reader.next())
                if event.name == "change" { keys.append(event.data) }
            }
            #expect(keys[0].contains("accounts/alice/") && keys[0].contains("/note"), "\(keys)")
        }
    }

    @Test("A stream tells proxies neither to collect nor to compress its events")
    func proxies() async throws {
        let reader = try await Reader(service, token: alice["access_token"])
        #expect(reader.fields[.contentType] == "text/event-stream")
        #expect(reader.fields[.cacheControl] == "no-store, no-transform")
        #expect(reader.fields[try #require(HTTPField.Name("X-Accel-Buffering"))] == "no")
        let page = await service.ask(.get, "/v1/changes", token: alice["access_token"])
        #expect(page.fields[.cacheControl] == "no-store")
        #expect(page.fields[try #require(HTTPField.Name("X-Accel-Buffering"))] == nil)
    }

    @Test("A stream resumes after the last received event, without gaps", .timeLimit(.minutes(15)))
    func resuming() async throws {
        try await running {
            let first = try await Reader(service, token: alice["access_token"])
            await put("a", as: alice)
            var last = ""
            while let event = try await first.next() {
                if event.name == "cursor", !event.lastEventID.isEmpty { last = event.lastEventID }
                if event.name == "change" {
                    // The event after the changes carries their cursor.
                    let position = try #require(try await first.next())
                    last = position.lastEventID
                    break
                }
            }
            for name in ["b", "c"] {
                await put(name, as: alice)
                await put(name, as: bob)
            }
            let second = try await Reader(service, token: alice["access_token"], last: last)
            var names: [String] = []
            while names.count < 2, let event = try await second.next() {
                if event.name == "change" { names.append(event.data) }
            }
            #expect(names.count == 2 && names[0].contains("/b\"") && names[1].contains("/c\""), "\(names)")
        }
    }

    @Test("Reconnection delays are 1 to 30 seconds, and spread wider with more open streams")
    func spread() {
        var host = HostServices.system
        for (count, most) in [(0, UInt64(1_000)), (10_000, 6_000), (1_000_000, 30_000)] {
            let delays = (0..<64).map { number in
                host.randomBits = { UInt64(number) &* 0x9E37_79B9_7F4A_7C15 }
                return EventStream.retry(streamCount: count, host)
            }
            #expect(delays.allSatisfy { (1_000...most).contains($0) })
            #expect(count == 0 || Set(delays).count > 32)
        }
    }

    @Test("An expired or malformed cursor and an invalid token are rejected at once")
    func rejections() async throws {
        let expired = try await Reader(service, token: alice["access_token"], last: "999999-0000000000000001")
        #expect(expired.status == 410)
        let malformed = try await Reader(service, token: alice["access_token"], path: "/v1/changes?after=soon")
        #expect(malformed.status == 400)
        #expect(try await Reader(service, token: "x").status == 401)
    }

    @Test(
        "A stream ends at log-out, when the store is restored from a backup and when the service stops",
        .timeLimit(.minutes(15)))
    func endings() async throws {
        let backup = store.backup()
        try await running {
            let leaving = try await Reader(service, token: alice["access_token"])
            let staying = try await Reader(service, token: bob["access_token"])
            _ = try await leaving.next()
            _ = try await staying.next()
            #expect(await service.ask(.delete, "/v1/sessions", token: alice["access_token"]).status == 204)
            while try await leaving.next() != nil {}
            await put("note", as: bob)
            while let event = try await staying.next(), event.name != "change" {}
            store.putBack(backup)
            var types: [String] = []
            while let event = try await staying.next() { types.append(event.name) }
            #expect(types.last == "expired", "\(types)")
        }
        let late = try await Reader(service, token: bob["access_token"])
        while try await late.next() != nil {}
    }

    @Test("A stream with another issuer's token ends when all of the account's sessions end", .timeLimit(.minutes(15)))
    func external() async throws {
        let service = try await EntitlementService.open(store, clock: clock, issuer: "https://login.example.com")
        let token: String = .external("carol", clock.now / 1_000 + 600)
        let created = await service.ask(.get, "/v1/accounts/self", token: token)
        let path = "/v1/kv/accounts/carol/\(created["incarnation"] ?? "")/note?if=any"
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await service.run() }
            // The hub may read the account's creation only after the stream starts. That must not end the stream.
            let reader = try await Reader(service, token: token)
            #expect(reader.status == 200)
            #expect(await service.ask(.put, path, token: token, body: [1]).status == 200)
            while let event = try await reader.next(), event.name != "change" {}
            #expect(await service.ask(.delete, "/v1/sessions?everywhere=true", token: token).status == 204)
            while try await reader.next() != nil {}
            #expect(try await Reader(service, token: token).status == 401)
            group.cancelAll()
        }
    }
}
