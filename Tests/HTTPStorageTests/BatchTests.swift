import HTTPStorage
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncCoreTesting
import SyncProtocol
import SyncService
import TestSupport
import Testing

/// An in-process server with its own store that also supports batches.
private struct BatchingTransport: HTTPTransport {
    private let store = MemoryBackend()
    private let direct: DirectTransport

    init() async throws(BackendError) { direct = DirectTransport(try await .open(store)) }

    func send(
        _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int
    ) async throws(TransportError) -> TransportAnswer {
        guard request.path == BatchBody.path else {
            return try await direct.send(
                request, body: body, timeout: timeout, maximumByteCount: maximumByteCount)
        }
        do {
            var results: [BatchResult] = []
            for operation in try BatchBody.operations(body) { results.append(await result(of: operation)) }
            return TransportAnswer(HTTPResponse(status: .ok), body: BatchBody.bytes(ofAnswer: results))
        } catch {
            return TransportAnswer(400)
        }
    }

    private func result(of operation: BatchOperation) async -> BatchResult {
        do throws(BackendError) {
            switch operation {
            case .read(let request):
                return .read(try await store.read(request.key, unless: request.knownVersion).outcome)
            case .write(let request):
                guard let value = request.value else {
                    return .write(try await store.delete(request.key, if: request.precondition).outcome)
                }
                return .write(try await store.write(value, to: request.key, if: request.precondition).outcome)
            }
        } catch {
            return .problem(Problem(error))
        }
    }
}

@Suite("Batches over HTTP")
struct BatchTests {
    private func backend(_ transport: any HTTPTransport, maximum: Int = 4 << 20) throws -> HTTPBackend {
        try HTTPBackend(server: "http://127.0.0.1:1", transport: transport, maximumValueByteCount: maximum)
    }

    private func keys(_ count: Int) throws -> [EntryKey] { try (0..<count).map { try EntryKey("k\($0)") } }

    private func answer(_ results: [BatchResult], _ fields: HTTPFields = [:]) -> Result<TransportAnswer, TransportError>
    {
        .success(
            TransportAnswer(
                HTTPResponse(status: .ok, headerFields: fields), body: BatchBody.bytes(ofAnswer: results)))
    }

    @Test("pass the conformance checks")
    func conformance() async throws {
        await expectConformance(of: "HTTP backend with batches", seed: printedSeed("BatchTests")) {
            try HTTPBackend(server: "http://127.0.0.1:1", transport: try await BatchingTransport()) {
                _ throws(BackendError) in .operatorToken
            }
        }
    }

    @Test("are split into requests of at most 256 operations or about 4 MiB")
    func requests() async throws {
        let version = EntryVersion(bytes: [1])
        let read = BatchResult.read(.absent)
        let transport = ScriptedTransport([
            answer(Array(repeating: read, count: 256)), answer(Array(repeating: read, count: 44)),
            answer(Array(repeating: .write(.written(version)), count: 4)),
            answer(Array(repeating: .write(.written(version)), count: 2)),
        ])
        let backend = try backend(transport, maximum: 2 << 20)
        let reads = try await backend.read(try keys(300).map { ReadRequest($0) })
        #expect(reads.outcome.count == 300)
        let value = [UInt8](repeating: 1, count: 1 << 20)
        var writes = try keys(6).map { WriteRequest($0, value: value, if: .any) }
        // Too large: rejected without being sent, and reported at its position.
        writes.insert(WriteRequest(try EntryKey("long"), value: Array(repeating: 1, count: 3 << 20), if: .any), at: 4)
        let written = try await backend.write(writes)
        #expect(written.outcome.count == 7)
        for (index, result) in written.outcome.enumerated() {
            switch result {
            case .success(let outcome): #expect(outcome == .written(version) && index != 4)
            case .failure(let error): #expect(error.kind == .tooLarge && index == 4 && error.key?.text == "long")
            }
        }
        #expect(transport.requests.map(\.path) == Array(repeating: BatchBody.path, count: 4))
        #expect(transport.requests[0].headerFields[.contentType] == BatchBody.mediaType)
    }

    @Test("report an unknown outcome for the writes of a broken exchange, and all later ones as not sent")
    func broken() async throws {
        let version = EntryVersion(bytes: [1])
        let lost = TransportError(.interrupted, mayHaveArrived: true, message: "the connection ended")
        let requests = try keys(600).map { WriteRequest($0, value: [1], if: .absent) }
        let written = Array(repeating: BatchResult.write(.written(version)), count: 256)
        for failure in [.failure(lost), .success(TransportAnswer(500)), .success(TransportAnswer(200)), answer([])] {
            let results = try await backend(ScriptedTransport([answer(written), failure])).write(requests).outcome
            #expect(results.count == 600)
            for (index, result) in results.enumerated() {
                switch result {
                case .success: #expect(index < 256)
                case .failure(let error):
                    #expect(index >= 256 && error.key == requests[index].key)
                    #expect((error.disposition == .outcomeUnknown) == (index < 512))
                }
            }
        }
        // No write was processed, so the contract requires a thrown error.
        let unsent = TransportError(.unreachable, mayHaveArrived: false, message: "connection refused")
        let thrown = await expectKind(.unavailable) {
            try await backend(ScriptedTransport([.failure(unsent)])).write(requests)
        }
        #expect(thrown?.disposition == .transient)
        await expectKind(.permissionDenied) {
            try await backend(ScriptedTransport([.success(TransportAnswer(403))])).write(requests)
        }
    }

    @Test("reject results that do not match their operations")
    func mismatches() async throws {
        let key = try EntryKey("k")
        let version = EntryVersion(bytes: [1])
        let results = try await backend(ScriptedTransport([answer([.read(.unchanged), .write(.deleted)])])).read(
            [ReadRequest(key), ReadRequest(key)]
        ).outcome
        for result in results { #expect(throws: BackendError.self) { try result.get() } }
        let writes = try await backend(ScriptedTransport([answer([.write(.deleted), .write(.written(version))])]))
            .write(
                [WriteRequest(key, value: [1], if: .any), WriteRequest(key, value: nil, if: .any)]
            ).outcome
        for result in writes {
            let error = #expect(throws: BackendError.self) { try result.get() }
            #expect(error?.disposition == .outcomeUnknown)
        }
    }

    @Test("fall back to single requests if the server has no batches, and are halved if the answer is too large")
    func fallbacks() async throws {
        let tag: HTTPFields = [.eTag: "\"01\""]
        let single = Result<TransportAnswer, TransportError>.success(TransportAnswer(200, tag, "v"))
        let transport = ScriptedTransport([.success(TransportAnswer(404)), single, single, single, single])
        let old = try backend(transport)
        let two = try keys(2).map { ReadRequest($0) }
        for _ in 0..<2 {
            for result in try await old.read(two).outcome {
                #expect(try result.get() == .found(Entry(value: Array("v".utf8), version: EntryVersion(bytes: [1]))))
            }
        }
        #expect(transport.requests.map(\.method) == [.post, .get, .get, .get, .get])
        let long = TransportError(.tooLarge, mayHaveArrived: true, message: "too large")
        let halves = ScriptedTransport([
            .failure(long), answer([.read(.absent), .read(.absent)]), answer([.read(.absent), .read(.absent)]),
        ])
        let results = try await backend(halves).read(try keys(4).map { ReadRequest($0) }).outcome
        for result in results { #expect(try result.get() == .absent) }
        #expect(results.count == 4 && halves.requests.count == 3)
    }

    @Test("continue in another request when an answer is full, and run each operation once")
    func postponed() async throws {
        let store = MemoryBackend()
        let service = try await EntitlementService.open(store, configure: { $0.limits.batchByteCount = 100_000 })
        let remote = try HTTPBackend(server: "http://127.0.0.1:1", transport: DirectTransport(service)) {
            _ throws(BackendError) in .operatorToken
        }
        let keys = try keys(100)
        let value = [UInt8](repeating: 7, count: 10_000)
        let written = try await remote.write(keys.map { WriteRequest($0, value: value, if: .absent) }).outcome
        for result in written {
            guard case .written = try result.get() else {
                Issue.record("not written: \(result)")
                continue
            }
        }
        // Every write conflicts with an existing entry.
        let again = try await remote.write(keys.map { WriteRequest($0, value: [], if: .absent) }).outcome
        let read = try await remote.read(keys.map { ReadRequest($0) }).outcome
        #expect(again.count == 100 && read.count == 100)
        for (conflict, found) in zip(again, read) {
            guard case .conflict(let entry?) = try conflict.get(), case .found(let same) = try found.get() else {
                Issue.record("\(conflict), \(found)")
                continue
            }
            #expect(entry == same && entry.value == value)
        }
        // In the raw answer, operations that were not started are marked as postponed.
        let operations = keys.map { BatchOperation.read(ReadRequest($0)) }
        let reply = await service.ask(
            .post, BatchBody.path, token: .operatorToken, [.contentType: BatchBody.mediaType],
            body: BatchBody.bytes(of: operations))
        let results = try BatchBody.results(reply.body)
        let answered = results.prefix { if case .read = $0 { true } else { false } }
        #expect(results.count == 100 && answered.count == 10 && reply.body.count < 150_000)
        for result in results.dropFirst(answered.count) {
            guard case .problem(let problem) = result else { continue }
            #expect(problem.isPostponed && problem.disposition == "transient")
        }
    }

    @Test("Retry-After and the version of the server's decisions are passed on")
    func fields() async throws {
        let busy = try backend(ScriptedTransport([.success(TransportAnswer(503, [.retryAfter: "7"]))]))
        let key = try EntryKey("a/ledger")
        let error = await expectKind(.unavailable) { try await busy.read(key) }
        #expect(error?.retryAfter == .seconds(7))
        let name = try #require(HTTPField.Name(WireFields.decisions))
        let version = EntryVersion(bytes: [9])
        for (field, relatedVersion) in [("\"09\"", version), ("09", nil), ("W/\"09\"", nil)]
            as [(String, EntryVersion?)]
        {
            let fields: HTTPFields = [.eTag: "\"01\"", name: field]
            let conflictFields: HTTPFields = [
                .eTag: "\"01\"", name: field, .contentType: "application/octet-stream",
            ]
            let known = EntryVersion(bytes: [1])
            let backend = try backend(
                ScriptedTransport([
                    .success(TransportAnswer(304, fields)), .success(TransportAnswer(200, fields)),
                    .success(TransportAnswer(412, conflictFields)),
                ]))
            #expect(try await backend.read(key, unless: known).relatedVersion == relatedVersion)
            #expect(try await backend.write([1], to: key, if: .absent).relatedVersion == relatedVersion)
            #expect(try await backend.write([1], to: key, if: .absent).relatedVersion == relatedVersion)
        }
    }

    @Test("Retries wait for the time in Retry-After and give up if it is too long")
    func retries() async throws {
        let key = try EntryKey("k")
        let manual = ManualHost(seed: 1)
        let script = ScriptedTransport([
            .success(TransportAnswer(503, [.retryAfter: "7"])), .success(TransportAnswer(200, [.eTag: "\"01\""])),
            .success(TransportAnswer(503, [.retryAfter: "31"])),
        ])
        let backend = try backend(script).retrying(RetryPolicy(), host: manual.host)
        _ = try await backend.read(key)
        #expect(manual.pauses.count == 1 && manual.pauses[0] >= .seconds(7) && manual.pauses[0] <= .milliseconds(7_100))
        let error = await expectKind(.unavailable) { try await backend.read(key) }
        #expect(error?.retryAfter == .seconds(31) && manual.pauses.count == 1)
    }
}
