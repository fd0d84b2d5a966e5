import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import SyncService
import Synchronization
import TestSupport
import Testing

@Suite("The key-value endpoints")
struct KeyValueServiceTests {
    private let store = MemoryBackend()
    private let service: EntitlementService
    private let key: EntryKey

    init() async throws {
        key = try EntryKey("a/b")
        service = try await .open(store, now: 1_700_000_000_123)
    }

    private func ask(
        _ method: HTTPRequest.Method, _ path: String, _ fields: HTTPFields = [:], _ body: [UInt8] = []
    ) async -> TransportAnswer {
        let reply = await service.ask(method, path, token: .operatorToken, fields, body: body)
        return TransportAnswer(
            HTTPResponse(status: HTTPResponse.Status(code: reply.status), headerFields: reply.fields), body: reply.body)
    }

    @Test("A read returns the value with its version, and no body if the version is unchanged")
    func read() async throws {
        let missing = await ask(.get, "/v1/kv/a/b")
        #expect(missing.response.status == .notFound && Problem(json: missing.body)?.isAbsence == true)
        let written = await ask(.put, "/v1/kv/a/b", [.ifNoneMatch: "*"], [1, 2])
        let tag = try #require(written.response.headerFields[.eTag])
        #expect(written.response.status == .ok)
        let read = await ask(.get, "/v1/kv/a/b")
        #expect(read.response.status == .ok && read.body == [1, 2] && read.response.headerFields[.eTag] == tag)
        #expect(read.response.headerFields[.cacheControl] == "no-store")
        #expect(WireFields.serverTime(of: read.response) == 1_700_000_000_123)
        for known in [tag, "W/" + tag, "\"00\", " + tag, "*"] {
            let answer = await ask(.get, "/v1/kv/a/b", [.ifNoneMatch: known])
            #expect(answer.response.status == .notModified && answer.body.isEmpty, "\(known)")
            #expect(answer.response.headerFields[.eTag] == tag)
        }
        #expect(await ask(.get, "/v1/kv/a/b", [.ifNoneMatch: "\"00\""]).response.status == .ok)
    }

    @Test("A conflicting write returns the present entry; a write without a precondition is rejected")
    func write() async throws {
        #expect(await ask(.put, "/v1/kv/a/b", [:], [1]).response.status.code == 428)
        #expect(await ask(.delete, "/v1/kv/a/b").response.status.code == 428)
        #expect(try await store.read(key).outcome == .absent)
        let none = await ask(.put, "/v1/kv/a/b", [.ifMatch: "*"], [1])
        #expect(none.response.status == .preconditionFailed && Problem(json: none.body)?.isAbsence == true)
        _ = await ask(.put, "/v1/kv/a/b?if=any", [:], [1])
        for fields in [[.ifNoneMatch: "*"], [.ifMatch: "\"00\""], [.ifMatch: "\"00\", \"01\""]] as [HTTPFields] {
            let answer = await ask(.put, "/v1/kv/a/b", fields, [9])
            #expect(answer.response.status == .preconditionFailed && answer.body == [1])
            #expect(answer.response.headerFields[.eTag] != nil)
        }
        let tag = try #require(await ask(.get, "/v1/kv/a/b").response.headerFields[.eTag])
        #expect(await ask(.put, "/v1/kv/a/b", [.ifMatch: "W/" + tag], [9]).response.status == .preconditionFailed)
        #expect(await ask(.put, "/v1/kv/a/b", [.ifMatch: "\"00\", " + tag], [2]).response.status == .ok)
        #expect(await ask(.put, "/v1/kv/a/b", [.ifMatch: "*"], [3]).response.status == .ok)
        #expect(await ask(.get, "/v1/kv/a/b").body == [3])
        #expect(await ask(.delete, "/v1/kv/a/b", [.ifMatch: "*"]).response.status == .noContent)
        #expect(try await store.read(key).outcome == .absent)
    }

    @Test("Listings and changes are paged, and malformed page parameters are rejected")
    func pages() async throws {
        for name in ["a", "b", "c"] { _ = await ask(.put, "/v1/kv/\(name)?if=any", [:], [1]) }
        let page = try KeyPageBody.page(json: await ask(.get, "/v1/kv?limit=2&prefix=").body)
        #expect(page.items.map(\.key.text) == ["a", "b"] && page.next?.text == "b")
        let rest = try KeyPageBody.page(json: await ask(.get, "/v1/kv?after=b").body)
        #expect(rest.items.map(\.key.text) == ["c"] && rest.next == nil)
        // A limit that overflows an integer is clamped to the server's maximum.
        let all = await ask(.get, "/v1/kv?limit=99999999999999999999999")
        #expect(try KeyPageBody.page(json: all.body).items.count == 3)
        let changes = try ChangePageBody.page(json: await ask(.get, "/v1/changes").body)
        let cursor = try #require(changes.cursor)
        #expect(changes.changes.count == 3)
        let none = try ChangePageBody.page(
            json: await ask(.get, "/v1/changes?after=\(CursorText.text(of: cursor))").body)
        #expect(none.changes.isEmpty)
        let old = await ask(.get, "/v1/changes?after=1-0000000000000000")
        #expect(old.response.status == .gone && Problem(json: old.body)?.kind == "cursorExpired")
        for path in [
            "/v1/kv?limit=0", "/v1/kv?limit=x", "/v1/kv?limit=%zz", "/v1/kv?limit=-1", "/v1/kv?limit=%2B1",
            "/v1/kv?limit=", "/v1/changes?after=1", "/v1/kv?after=",
        ] {
            #expect(await ask(.get, path).response.status == .badRequest, "\(path)")
        }
    }

    @Test(
        "An unknown path answers 404, but does not report a key as absent",
        arguments: ["", "/", "/v1", "/v1/", "/v1/kvx", "/v2/kv/a", "/v1/changes/x"])
    func elsewhere(path: String) async {
        let answer = await ask(.get, path)
        #expect(answer.response.status == .notFound && Problem(json: answer.body)?.isAbsence == false)
    }

    @Test("An invalid or ambiguous key path is rejected for every method")
    func tricks() async {
        for path in ["/v1/kv/", "/v1/kv//a", "/v1/kv/../a", "/v1/kv/a%00", "/v1/kv/%ff", "/v1/kv/a%2"] {
            for method in [HTTPRequest.Method.get, .put, .delete] {
                #expect(await ask(method, path, [.ifMatch: "*"]).response.status == .badRequest, "\(method) \(path)")
            }
        }
    }

    @Test("An unsupported method is rejected with the list of allowed methods")
    func methods() async {
        let pages = "GET, HEAD, OPTIONS"
        for (path, allowed) in [
            ("/v1/kv", pages), ("/v1/changes", pages), ("/v1/kv/a", "GET, HEAD, PUT, DELETE, OPTIONS"),
        ] {
            for method in [HTTPRequest.Method.post, .patch, .trace] {
                let answer = await ask(method, path)
                #expect(answer.response.status == .methodNotAllowed && answer.response.headerFields[.allow] == allowed)
            }
        }
    }

    @Test("A store error reaches the server's log, but its message is not sent to the client")
    func failures() async throws {
        let errors = Mutex<[BackendError]>([])
        let failing = FailingBackend(
            failing: key,
            error: BackendError(.busy, message: "/srv/secret/store.sqlite: another process holds the database"))
        let service = try await EntitlementService.open(failing, now: 5) { error in
            errors.withLock { $0.append(error) }
        }
        for path in ["/v1/kv?limit=x", "/v1/changes?after=x", "/v1/kv?after=%01", "/v1/accounts?after=%01"] {
            #expect(await service.ask(.get, path, token: .operatorToken).status == 400, "\(path)")
        }
        #expect(errors.withLock { $0.isEmpty }, "client errors must not be logged as store errors")
        let answer = await service.ask(.get, "/v1/kv/a/b", token: .operatorToken)
        #expect(answer.status == 503 && answer.fields[.retryAfter] == "1")
        let problem = try #require(Problem(json: answer.body))
        #expect(!problem.detail.contains("secret") && problem.kind == "busy")
        #expect(errors.withLock { $0.map(\.kind) } == [.busy])
        // Client errors are not passed to the error handler.
        #expect(await service.ask(.get, "/v1/kv?limit=0", token: .operatorToken).status == 400)
        let expired = await service.ask(.get, "/v1/changes?after=AQID", token: .operatorToken)
        #expect(
            [400, 410].contains(expired.status) && Problem(json: expired.body)?.detail.contains("failing:") == false)
        #expect(errors.withLock { $0.count } == 1)
    }

    @Test("The paths and system errors in the message of a store error are never sent to the client")
    func places() async throws {
        for (error, status) in [
            (BackendError(.cursorExpired, message: "/srv/secret/store.sqlite: no change 7"), 410),
            (BackendError(.tooLarge, message: "/srv/secret/a: too large", cause: CancellationError()), 413),
            (BackendError(.permissionDenied, message: "/srv/secret/a: no access"), 503),
        ] {
            let errors = Mutex(0)
            let service = try await EntitlementService.open(FailingBackend(failing: key, error: error), now: 5) { _ in
                errors.withLock { $0 += 1 }
            }
            let answer = await service.ask(.get, "/v1/kv/a/b", token: .operatorToken)
            #expect(answer.status == status)
            #expect(answer.problem.map { !$0.detail.isEmpty && !$0.detail.contains("secret") } == true, "\(error)")
            #expect(errors.withLock { $0 } == (status == 410 ? 0 : 1), "\(error)")
        }
    }
}

/// A backend that throws `error` for every operation on one key.
private struct FailingBackend: ForwardingBackend {
    let failing: EntryKey
    let error: BackendError
    let base: any KeyValueBackend = MemoryBackend()
    let label = "failing:"

    func read(_ key: EntryKey, unless known: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        guard key != failing else { throw error }
        return try await base.read(key, unless: known)
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        guard key != failing else { throw error }
        return try await base.write(value, to: key, if: precondition)
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        guard key != failing else { throw error }
        return try await base.delete(key, if: precondition)
    }
}
