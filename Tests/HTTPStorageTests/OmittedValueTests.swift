import HTTPStorage
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import SyncService
import Synchronization
import TestSupport
import Testing

@Suite("Conflicts whose value the server omitted")
struct OmittedValueTests {
    private let key: EntryKey
    private let version = EntryVersion(bytes: [1])

    init() throws { key = try EntryKey("a") }

    /// A transport to a service that fails to reserve memory for its answers a given number of times.
    private final class LimitedTransport: HTTPTransport {
        private let service: EntitlementService
        private let refusalCount = Mutex(0)
        private let paths = Mutex<[String]>([])

        init(_ service: EntitlementService) { self.service = service }

        /// Makes the next `count` reservations fail.
        func refuse(_ count: Int) { refusalCount.withLock { $0 = count } }

        func takeRequests() -> [String] {
            paths.withLock { paths in
                defer { paths = [] }
                return paths
            }
        }

        func send(
            _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int
        ) async throws(TransportError) -> TransportAnswer {
            paths.withLock { $0.append("\(request.method) \(request.path ?? "")") }
            var asked = ServiceRequest(request, body: body, peer: "192.0.2.1")
            asked.reserveAnswer = { [self] _, _ in
                refusalCount.withLock { count in
                    count -= 1
                    return count < 0
                }
            }
            let answer = await service.respond(to: asked)
            guard case .bytes(let bytes) = answer.body else { return TransportAnswer(answer.head) }
            return TransportAnswer(answer.head, body: bytes)
        }
    }

    private func remote(_ transport: any HTTPTransport) throws -> HTTPBackend {
        try HTTPBackend(server: "http://127.0.0.1:1", transport: transport) { _ throws(BackendError) in .operatorToken }
    }

    @Test("are completed by one GET after a single write, and by one batch of reads after a batch")
    func reread() async throws {
        let store = MemoryBackend()
        let transport = LimitedTransport(try await EntitlementService.open(store))
        let remote = try remote(transport)
        let keys = try (0..<40).map { try EntryKey("k\($0)") }
        for key in keys { _ = try await store.write([5], to: key, if: .any) }
        transport.refuse(1)
        let single = try await remote.write([1], to: keys[0], if: .absent).outcome
        #expect(single == .conflict(try await entry(keys[0], in: store)))
        #expect(transport.takeRequests() == ["PUT /v1/kv/k0", "GET /v1/kv/k0"])
        transport.refuse(30)
        // The last key occurs twice, but is read once.
        let requests = (keys + [keys[39]]).map { WriteRequest($0, value: [1], if: .absent) }
        let results = try await remote.write(requests).outcome
        for (request, result) in zip(requests, results) {
            #expect(try await result.get() == .conflict(entry(request.key, in: store)))
        }
        #expect(results.count == 41 && transport.takeRequests() == ["POST /v1/batch", "POST /v1/batch"])
    }

    private func entry(_ key: EntryKey, in store: MemoryBackend) async throws -> Entry? {
        guard case .found(let entry) = try await store.read(key).outcome else { return nil }
        return entry
    }

    @Test("become a retryable error if the key had to be absent and was deleted in the meantime")
    func deletedMeanwhile() async throws {
        let absence = Result<TransportAnswer, TransportError>.success(
            TransportAnswer(
                HTTPResponse(status: .notFound, headerFields: [.contentType: Problem.mediaType]),
                body: Problem.absent(key, status: .notFound).json))
        let conflict = Result<TransportAnswer, TransportError>.success(
            TransportAnswer(
                HTTPResponse(
                    status: .preconditionFailed, headerFields: [.contentType: "Application/Problem+JSON; charset=utf-8"]
                ), body: Problem.valueLeftOut(key, version).json))
        let script = ScriptedTransport([conflict, absence, conflict, absence])
        let error = await expectKind(.busy) { try await remote(script).write([1], to: key, if: .absent) }
        #expect(error?.disposition == .transient)
        #expect(
            try await remote(script).write([1], to: key, if: .matches(EntryVersion(bytes: [9]))).outcome
                == .conflict(nil))
    }

    @Test("fail with the error of the read, which does not make the outcome unknown")
    func failingRead() async throws {
        let fields: HTTPFields = [.contentType: BatchBody.mediaType]
        func answer(_ results: [BatchResult]) -> Result<TransportAnswer, TransportError> {
            .success(
                TransportAnswer(
                    HTTPResponse(status: .ok, headerFields: fields), body: BatchBody.bytes(ofAnswer: results)))
        }
        let lost = TransportError(.interrupted, mayHaveArrived: true, message: "the connection ended")
        let script = ScriptedTransport([
            answer([.conflictWithoutValue(version), .write(.written(version))]), .failure(lost),
        ])
        let results = try await remote(script).write([
            WriteRequest(key, value: [1], if: .absent), WriteRequest(try EntryKey("b"), value: [1], if: .absent),
        ]).outcome
        let error = #expect(throws: BackendError.self) { try results[0].get() }
        #expect(error?.disposition == .transient && error?.key == key)
        #expect(try results[1].get() == .written(version))
    }

    @Test("Only the media type decides whether a body is a value, not its content")
    func lookalike() async throws {
        let body = Problem.valueLeftOut(key, version).json
        func outcome(_ mediaType: String?) async throws -> WriteOutcome {
            var fields: HTTPFields = [.eTag: "\"01\""]
            fields[.contentType] = mediaType
            let script = ScriptedTransport([
                .success(TransportAnswer(HTTPResponse(status: .preconditionFailed, headerFields: fields), body: body)),
                .success(
                    TransportAnswer(HTTPResponse(status: .ok, headerFields: [.eTag: "\"02\""]), body: [9])),
            ])
            return try await remote(script).write([1], to: key, if: .absent).outcome
        }
        for mediaType in ["application/octet-stream", "application/octet-stream; charset=binary"] {
            #expect(try await outcome(mediaType) == .conflict(Entry(value: body, version: version)))
        }
        for mediaType in [Problem.mediaType, "application/problem+json;charset=utf-8", nil] {
            let read = Entry(value: [9], version: EntryVersion(bytes: [2]))
            #expect(try await outcome(mediaType) == .conflict(read), "\(mediaType ?? "")")
        }
        let page = ScriptedTransport([
            .success(
                TransportAnswer(
                    HTTPResponse(
                        status: .preconditionFailed, headerFields: [.contentType: "text/html", .eTag: "\"01\""]),
                    body: Array("<html>".utf8)))
        ])
        await expectKind(.notAStore) { try await remote(page).write([1], to: key, if: .absent) }
    }
}
