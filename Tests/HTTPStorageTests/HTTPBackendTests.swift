import HTTPStorage
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncCoreTesting
import SyncProtocol
import SyncService
import TestSupport
import Testing

@Suite("The HTTP backend")
struct HTTPBackendTests {
    private let key: EntryKey
    private let version = EntryVersion(bytes: [7])
    private let tag: HTTPFields = [.eTag: "\"07\""]

    init() throws { key = try EntryKey("a/b") }

    private func backend(_ script: Result<TransportAnswer, TransportError>...) throws -> HTTPBackend {
        try HTTPBackend(server: "http://127.0.0.1:1/base/", transport: ScriptedTransport(script))
    }

    @Test("passes the conformance checks over the wire format and the service")
    func conformance() async throws {
        await expectConformance(of: "HTTP backend", seed: printedSeed("HTTPBackendTests")) {
            try HTTPBackend(server: "http://127.0.0.1:1", transport: DirectTransport(try await .open(MemoryBackend())))
            {
                _ throws(BackendError) in .operatorToken
            }
        }
    }

    @Test(
        "throws for answers that do not come from a store, instead of reporting absence",
        arguments: [
            TransportAnswer(404), TransportAnswer(404, [:], "<html>not found</html>"),
            TransportAnswer(404, [.contentType: "application/problem+json"], #"{"status":404}"#),
            TransportAnswer(
                404, [.contentType: "application/problem+json"],
                #"{"detail":"","status":404,"title":"Not Found","type":"about:blank"}"#),
            TransportAnswer(200, [.contentType: "text/html"], "<html>Welcome to our hotel</html>"),
            TransportAnswer(200, [.eTag: "W/\"07\""], "x"), TransportAnswer(200, [.eTag: "\"of-another\""], "x"),
            TransportAnswer(200, [.eTag: "\"07\", \"08\""], "x"), TransportAnswer(204), TransportAnswer(302),
            TransportAnswer(304, [.eTag: "\"07\""]), TransportAnswer(500), TransportAnswer(502, [:], "Bad Gateway"),
        ])
    func foreignAnswers(answer: TransportAnswer) async throws {
        let backend = try backend(.success(answer))
        do throws(BackendError) {
            Issue.record("\(try await backend.read(key))")
        } catch {
            #expect(error.key == key && error.operation == .read)
        }
    }

    @Test("accepts 304 only for the version that it sent")
    func unchanged() async throws {
        #expect(try await backend(.success(TransportAnswer(304, tag))).read(key, unless: version).outcome == .unchanged)
        for fields in [[:], [.eTag: "\"08\""]] as [HTTPFields] {
            await expectKind(.notAStore) {
                try await backend(.success(TransportAnswer(304, fields))).read(key, unless: version)
            }
        }
    }

    @Test("reports an unknown outcome of a write exactly if the write may have happened")
    func outcomes() async throws {
        let lost = TransportError(.interrupted, mayHaveArrived: true, message: "the connection ended")
        let unsent = TransportError(.unreachable, mayHaveArrived: false, message: "connection refused")
        let uncertain: [Result<TransportAnswer, TransportError>] = [
            .failure(lost), .failure(TransportError(.timedOut, mayHaveArrived: true, message: "the request timed out")),
            .failure(TransportError(.cancelled, mayHaveArrived: true, message: "cancelled")),
            .success(TransportAnswer(200)), .success(TransportAnswer(204)), .success(TransportAnswer(500)),
            .success(TransportAnswer(504)), .success(TransportAnswer(412)),
            .success(TransportAnswer(412, [:], "<html>")),
        ]
        for answer in uncertain {
            let error = await error(of: try backend(answer))
            #expect(error?.disposition == .outcomeUnknown, "\(answer)")
        }
        let certain: [Result<TransportAnswer, TransportError>] = [
            .failure(unsent), .success(TransportAnswer(401)), .success(TransportAnswer(403)),
            .success(TransportAnswer(404)), .success(TransportAnswer(413)), .success(TransportAnswer(429)),
            .success(
                TransportAnswer(
                    503, [:],
                    #"{"detail":"d","disposition":"transient","kind":"busy","status":503,"title":"t","type":"x"}"#)),
        ]
        for answer in certain {
            let error = await error(of: try backend(answer))
            #expect(error != nil && error?.disposition != .outcomeUnknown, "\(answer)")
        }
        // A read changes nothing, so its outcome is never unknown.
        let error = await expectKind(.unavailable) { try await backend(.failure(lost)).read(key) }
        #expect(error?.disposition == .transient)
    }

    private func error(of backend: HTTPBackend) async -> BackendError? {
        do throws(BackendError) {
            Issue.record("\(try await backend.write([1], to: key, if: .matches(version)))")
            return nil
        } catch {
            return error
        }
    }

    @Test("requests a new token once after a 401, and gives up after a second 401")
    func credentials() async throws {
        let transport = ScriptedTransport([
            .success(TransportAnswer(401)), .success(TransportAnswer(200, tag, "v")), .success(TransportAnswer(401)),
            .success(TransportAnswer(401)), .success(TransportAnswer(200, tag, "v")),
        ])
        let backend = try HTTPBackend(server: "https://example.com", transport: transport) { refused in
            refused.map { $0 + "+" } ?? "t"
        }
        guard case .found(let entry) = try await backend.read(key).outcome else {
            Issue.record("the entry was not found")
            return
        }
        #expect(entry.value == Array("v".utf8))
        await expectKind(.permissionDenied) { try await backend.read(key) }
        let sent = transport.requests.map { $0.headerFields[.authorization] }
        #expect(sent == ["Bearer t", "Bearer t+", "Bearer t", "Bearer t+"])
    }

    @Test("sends a unique ID with each request, which the service repeats, and rejects answers with another ID")
    func requestIDs() async throws {
        let name = try #require(HTTPField.Name(WireFields.requestID))
        let service = try await EntitlementService.open(MemoryBackend())
        for (id, repeated) in [("a1", "a1"), ("", nil), ("a b", nil), (String(repeating: "x", count: 65), nil)] {
            let reply = await service.ask(.get, "/v1/kv/a", token: .operatorToken, [name: id])
            #expect(reply.fields[name] == repeated, "\(id)")
        }
        let transport = ScriptedTransport(
            [.success(TransportAnswer(200, [.eTag: "\"01\""], "v"))]
                + Array(repeating: .success(TransportAnswer(200, [.eTag: "\"01\"", name: "another"], "v")), count: 2))
        let backend = try HTTPBackend(server: "http://127.0.0.1:1", transport: transport)
        _ = try await backend.read(EntryKey("a"))
        await expectKind(.unavailable) { try await backend.read(try EntryKey("a")) }
        let error = await expectKind(.unavailable) { try await backend.write([1], to: try EntryKey("a"), if: .absent) }
        #expect(error?.disposition == .outcomeUnknown)
        let ids = transport.requests.compactMap { $0.headerFields[name] }
        #expect(ids.count == 3 && Set(ids).count == 3)
    }

    @Test("reports the time of the server, except from a cached answer")
    func time() async throws {
        let clock = try #require(HTTPField.Name(WireFields.serverTime))
        for (fields, time) in [
            ([clock: "1700000000123"], 1_700_000_000_123), ([clock: "1700000000123", .age: "3"], nil),
            ([clock: "-1"], nil),
            ([clock: "soon"], nil), ([clock: "253402300800000"], nil), ([:], nil),
        ] as [(HTTPFields, Int64?)] {
            var all = tag
            for field in fields { all.append(field) }
            #expect(try await backend(.success(TransportAnswer(200, all))).read(key).serverTime == time)
        }
    }

    @Test(
        "rejects an address that is not a plain http or https URL, or that contains a password",
        arguments: [
            "", "example.com", "ftp://example.com", "https://", "https:///x", "https://u:p@example.com",
            "https://example.com?x", "https://example.com#x", "https://exa mple.com", "https://exämple.com", "HTTPS:",
        ])
    func addresses(server: String) {
        let error = #expect(throws: BackendError.self) {
            try HTTPBackend(server: server, transport: ScriptedTransport([]))
        }
        #expect(error?.kind == .notAStore)
    }

    @Test("appends its path to the server's address, and rejects a too large value without sending it")
    func requests() async throws {
        let transport = ScriptedTransport([.success(TransportAnswer(200, tag))])
        let backend = try HTTPBackend(
            server: "https://example.com:8443/sync/", transport: transport, maximumValueByteCount: 3)
        await expectKind(.tooLarge) { try await backend.write([1, 2, 3, 4], to: key, if: .absent) }
        _ = try await backend.write([1, 2, 3], to: key, if: .any)
        #expect(transport.requests.count == 1)
        #expect(transport.requests[0].path == "/sync/v1/kv/a/b?if=any")
        #expect(transport.requests[0].authority == "example.com:8443" && transport.requests[0].scheme == "https")
    }
}
