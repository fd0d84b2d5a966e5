import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import SyncService
import Synchronization
import Testing

@Suite("Room for values in answers")
struct ResponseBudgetTests {
    private let store = RecordingStore()
    private let service: EntitlementService
    private let value = [UInt8](repeating: 7, count: 4 << 20)

    init() async throws { service = try await EntitlementService.open(store) }

    /// Forwards to a memory backend and records the number of values that each call has returned.
    private final class RecordingStore: ForwardingBackend {
        let base: any KeyValueBackend = MemoryBackend()
        private let counts = Mutex<[Int]>([])

        /// The number of requests in each call since the last time that this method was called.
        func takeCounts() -> [Int] {
            counts.withLock { counts in
                defer { counts = [] }
                return counts
            }
        }

        private func note(_ count: Int) { counts.withLock { $0.append(count) } }

        func read(_ key: EntryKey, unless known: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
            note(1)
            return try await base.read(key, unless: known)
        }

        func read(_ requests: [ReadRequest]) async throws(BackendError) -> Answer<[Result<ReadOutcome, BackendError>]> {
            note(requests.count)
            return try await base.read(requests)
        }

        func write(
            _ value: [UInt8], to key: EntryKey, if precondition: Precondition
        ) async throws(BackendError) -> Answer<WriteOutcome> {
            note(1)
            return try await base.write(value, to: key, if: precondition)
        }

        func write(
            _ requests: [WriteRequest]
        ) async throws(BackendError) -> Answer<[Result<WriteOutcome, BackendError>]> {
            note(requests.count)
            return try await base.write(requests)
        }

        func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
            note(1)
            return try await base.delete(key, if: precondition)
        }
    }

    /// A budget in bytes, like the server's budget for all answers.
    private final class Room: Sendable {
        private let left: Mutex<Int>
        init(_ count: Int) { left = Mutex(count) }

        func reserve(_ count: Int) -> Bool {
            left.withLock { left in
                guard count <= left else { return false }
                left -= count
                return true
            }
        }
    }

    private func ask(
        _ method: HTTPRequest.Method, _ path: String, _ fields: HTTPFields = [:], body: [UInt8] = [], room: Int
    ) async -> (head: HTTPResponse, body: [UInt8]) {
        var fields = fields
        fields[.authorization] = "Bearer " + .operatorToken
        let head = HTTPRequest(method: method, scheme: "http", authority: "x", path: path, headerFields: fields)
        var request = ServiceRequest(head, body: body, peer: "192.0.2.1")
        let budget = Room(room)
        request.reserveAnswer = { count, _ in budget.reserve(count) }
        let answer = await service.respond(to: request)
        guard case .bytes(let bytes) = answer.body else { return (answer.head, []) }
        return (answer.head, bytes)
    }

    private func batch(
        _ operations: [BatchOperation], room: Int = .max
    ) async throws -> (results: [BatchResult], byteCount: Int) {
        let answer = await ask(
            .post, BatchBody.path, [.contentType: BatchBody.mediaType], body: BatchBody.bytes(of: operations),
            room: room)
        try #require(answer.head.status == .ok)
        return (try BatchBody.results(answer.body), answer.body.count)
    }

    private func put(_ name: String) async throws -> EntryVersion {
        guard case .written(let version) = try await store.write(value, to: try EntryKey(name), if: .any).outcome else {
            throw BackendError(.other, message: "not written")
        }
        return version
    }

    private func write(_ name: String) throws -> BatchOperation {
        .write(WriteRequest(try EntryKey(name), value: [1], if: .absent))
    }

    @Test("32 conflicts with one long value carry it once, and its version every time")
    func conflictsOnOneKey() async throws {
        let version = try await put("a")
        _ = store.takeCounts()
        let answer = try await batch(Array(repeating: try write("a"), count: 32))
        #expect(answer.byteCount < 5 << 20)
        // Compared outside the expectation, which would print values of 4 MiB.
        let expected =
            [.write(.conflict(Entry(value: value, version: version)))]
            + Array(repeating: BatchResult.conflictWithoutValue(version), count: 31)
        let isExpected = answer.results == expected
        #expect(isExpected)
        #expect(store.takeCounts() == [1])
    }

    @Test("Conflicts with different long values carry as many as fit, and the store is asked for few at a time")
    func conflictsOnManyKeys() async throws {
        var versions: [EntryVersion] = []
        for number in 0..<12 { versions.append(try await put("\(number)")) }
        _ = store.takeCounts()
        let answer = try await batch(try (0..<12).map { try write("\($0)") })
        #expect(answer.byteCount < 17 << 20)
        for (index, result) in answer.results.enumerated() {
            let entry = Entry(value: value, version: versions[index])
            let isExpected = result == (index < 4 ? .write(.conflict(entry)) : .conflictWithoutValue(versions[index]))
            #expect(isExpected, "result \(index)")
        }
        #expect(store.takeCounts() == [4, 1, 1, 1, 1, 1, 1, 1, 1])
        // Short values are requested together.
        _ = try await batch(try (100..<140).map { try write("\($0)") })
        #expect(store.takeCounts() == [4, 8, 16, 12])
    }

    @Test("Long values after short ones are read few at a time")
    func longBehindShort() async throws {
        for number in 0..<4 { _ = try await store.write([1], to: try EntryKey("short/\(number)"), if: .any) }
        for number in 0..<12 { _ = try await put("long/\(number)") }
        _ = store.takeCounts()
        let names = (0..<4).map { "short/\($0)" } + (0..<12).map { "long/\($0)" }
        let results = try await batch(try names.map { .read(ReadRequest(try EntryKey($0))) }).results
        #expect(store.takeCounts() == [4, 8])
        #expect(results.count == 16 && results.last == .problem(.postponed))
    }

    @Test("A value for which there was no room is not kept: a later read of its key asks the store")
    func droppedValue() async throws {
        let version = try await put("a")
        _ = store.takeCounts()
        let read = BatchOperation.read(ReadRequest(try EntryKey("a")))
        let results = try await batch([try write("a"), read], room: 1 << 20).results
        #expect(store.takeCounts() == [1, 1])
        #expect(results == [.conflictWithoutValue(version), .problem(.postponed)])
    }

    @Test("Without a reservation, a batch has only outcomes and versions, and reads are postponed")
    func refusedReservations() async throws {
        let version = try await put("a")
        let read = BatchOperation.read(ReadRequest(try EntryKey("a")))
        let answer = try await batch([try write("a"), try write("b"), read, try write("c")], room: 1 << 20)
        let isLeftOut = answer.results[0] == .conflictWithoutValue(version)
        #expect(isLeftOut)
        guard case .write(.written) = answer.results[1] else {
            Issue.record("\(answer.results[1])")
            return
        }
        #expect(answer.results[2...] == [.problem(.postponed), .problem(.postponed)])
        #expect(try await store.read(try EntryKey("c")).outcome == .absent)
        let first = await ask(
            .post, BatchBody.path, [.contentType: BatchBody.mediaType], body: BatchBody.bytes(of: [read]), room: 0)
        #expect(first.head.status == .serviceUnavailable && first.head.headerFields[.retryAfter] == "1")
    }

    @Test("Without a reservation, a conflict is a problem with the version and no entity tag, and a GET is 503")
    func single() async throws {
        let tag = EntityTag(try await put("a")).description
        for (method, fields) in [
            (.put, [.ifNoneMatch: "*"]), (.put, [.ifMatch: "\"00\", \"01\""]), (.delete, [.ifMatch: "\"00\""]),
        ] as [(HTTPRequest.Method, HTTPFields)] {
            let answer = await ask(method, "/v1/kv/a", fields, room: 100)
            #expect(answer.head.status == .preconditionFailed && answer.head.headerFields[.eTag] == nil)
            #expect(answer.head.headerFields[.contentType] == Problem.mediaType)
            let problem = Problem(json: answer.body)
            #expect(problem?.isValueLeftOut == true && problem?.isAbsence == false && problem?.version == tag)
        }
        let read = await ask(.get, "/v1/kv/a", room: 100)
        #expect(read.head.status == .serviceUnavailable && read.head.headerFields[.retryAfter] == "1")
        #expect(Problem(json: read.body)?.disposition == "transient")
        #expect(await ask(.get, "/v1/kv/a", [.ifNoneMatch: tag], room: 0).head.status == .notModified)
        let isWhole = await ask(.get, "/v1/kv/a", room: 4 << 20).body == value
        #expect(isWhole)
    }

    @Test("A batch reads a key once, unless the key was written in between")
    func repeatedReads() async throws {
        let key = try EntryKey("a")
        let short: [UInt8] = [1, 2, 3]
        _ = try await store.write(short, to: key, if: .any)
        _ = store.takeCounts()
        let read = BatchOperation.read(ReadRequest(key))
        let write = BatchOperation.write(WriteRequest(key, value: [9], if: .any))
        let results = try await batch(Array(repeating: read, count: 100) + [write, read]).results
        #expect(store.takeCounts() == [1, 1, 1])
        guard case .read(.found(let first)) = results[0], case .write(.written(let version)) = results[100] else {
            Issue.record("\(results)")
            return
        }
        #expect(first.value == short && results[..<100].allSatisfy { $0 == results[0] })
        #expect(results[101] == .read(.found(Entry(value: [9], version: version))))
    }
}
