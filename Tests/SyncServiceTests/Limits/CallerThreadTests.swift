import Dispatch
import Entitlements
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import SyncService
import Synchronization
import Testing

/// A server handles short requests on the thread of an event loop, which must not be blocked.
@Suite("Long work runs off the caller's thread")
struct CallerThreadTests {
    /// An executor that runs tasks on its own queue and can tell whether the caller is on it.
    private final class QueueExecutor: TaskExecutor {
        private static let mark = DispatchSpecificKey<Bool>()
        private let queue = DispatchQueue(label: "event loop")

        init() { queue.setSpecific(key: Self.mark, value: true) }

        func enqueue(_ job: consuming ExecutorJob) {
            let job = UnownedJob(job)
            queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
        }

        static var isCurrent: Bool { DispatchQueue.getSpecific(key: mark) == true }
    }

    /// A backend that records its calls, and whether each ran on the executor's queue.
    private final class CallRecorder: ForwardingBackend {
        let base: any KeyValueBackend = MemoryBackend()
        private let calls = Mutex<Set<Call>>([])

        struct Call: Hashable {
            var name: String
            var isOnQueue: Bool
        }

        private func record(_ name: String) {
            calls.withLock { _ = $0.insert(Call(name: name, isOnQueue: QueueExecutor.isCurrent)) }
        }

        /// Returns the calls since the last call of this method.
        func take() -> Set<Call> {
            calls.withLock { calls in
                defer { calls = [] }
                return calls
            }
        }

        func read(
            _ key: EntryKey, unless knownVersion: EntryVersion?
        ) async throws(BackendError) -> Answer<ReadOutcome> {
            record("read")
            return try await base.read(key, unless: knownVersion)
        }

        func read(
            _ requests: [ReadRequest]
        ) async throws(BackendError) -> Answer<[Result<ReadOutcome, BackendError>]> {
            record("read")
            return try await base.read(requests)
        }

        func write(
            _ value: [UInt8], to key: EntryKey, if precondition: Precondition
        ) async throws(BackendError) -> Answer<WriteOutcome> {
            record("write")
            return try await base.write(value, to: key, if: precondition)
        }

        func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
            record("delete")
            return try await base.delete(key, if: precondition)
        }

        func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
            record("list")
            return try await base.list(prefix: prefix, after: cursor, limit: limit)
        }

        func changes(since cursor: ChangeCursor?, prefix: String, limit: Int) async throws(BackendError)
            -> Answer<ChangePage>
        {
            record(limit > 1 ? "changes" : "one change")
            return try await base.changes(since: cursor, prefix: prefix, limit: limit)
        }
    }

    @Test(
        "Account counts, ledger writes and missed changes are handled off the caller's thread, small writes on it")
    func threads() async throws {
        let store = CallRecorder()
        let service = try await EntitlementService.open(store)
        let alice = AccountOwner(service)
        _ = await alice.signUp()
        let session = await alice.logIn()
        let token = session["access_token"]
        let path = "/v1/kv/accounts/alice/\(session["incarnation"] ?? "")/"
        // From now on the token is cached.
        #expect(await service.ask(.get, "/v1/accounts/self", token: token).status == 200)
        let executor = QueueExecutor()
        func put(_ name: String, _ body: [UInt8]) async -> Set<CallRecorder.Call> {
            _ = store.take()
            let status = await withTaskExecutorPreference(executor) {
                await service.ask(.put, path + name + "?if=any", token: token, body: body).status
            }
            #expect(status == 200)
            return store.take()
        }
        // After each write, the account's record is read.
        let read = Call(name: "read", isOnQueue: true)
        #expect(
            await put("a", [1]) == [Call(name: "list", isOnQueue: false), Call(name: "write", isOnQueue: true), read])
        #expect(await put("a", [2]) == [Call(name: "write", isOnQueue: true), read])
        let ledger = await put("ledger", LedgerDocument().encoded())
        #expect(ledger.contains(Call(name: "write", isOnQueue: false)))
        #expect(ledger.allSatisfy { !$0.isOnQueue || $0 == read })
        let start = try #require(try await store.changes(since: nil, limit: 1).outcome.cursor)
        _ = store.take()
        let head = HTTPRequest(
            method: .get, scheme: "http", authority: "x",
            path: "/v1/changes?after=\(CursorText.text(of: start))",
            headerFields: [.accept: "text/event-stream", .authorization: "Bearer \(token ?? "")"])
        let text = try await withTaskExecutorPreference(executor) {
            let answer = await service.respond(to: ServiceRequest(head, peer: "192.0.2.1"))
            guard case .stream(let pieces, let end) = answer.body else { throw NoStream() }
            defer { end() }
            var text = ""
            for await piece in pieces {
                text += String(decoding: piece, as: UTF8.self)
                if text.contains("/ledger") { break }
            }
            return text
        }
        #expect(text.contains("event: change"))
        #expect(
            store.take() == [Call(name: "one change", isOnQueue: true), Call(name: "changes", isOnQueue: false)])
    }

    private typealias Call = CallRecorder.Call
    private struct NoStream: Error {}
}
