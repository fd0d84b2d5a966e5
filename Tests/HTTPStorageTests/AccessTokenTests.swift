import HTTPStorage
import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncProtocol
import Synchronization
import TestSupport
import Testing

@Suite("Access tokens", .timeLimit(.minutes(15)))
struct AccessTokenTests {
    /// A server that accepts only the current token and counts the requests with any other.
    private final class TokenCheckingTransport: HTTPTransport {
        private let state = Mutex((current: 2, refusedCount: 0))
        var refusedCount: Int { state.withLock { $0.refusedCount } }

        func send(
            _ request: HTTPRequest, body: [UInt8], timeout: Duration, maximumByteCount: Int
        ) async throws(TransportError) -> TransportAnswer {
            await Task.yield()
            return state.withLock { state in
                guard request.headerFields[.authorization] == "Bearer t\(state.current)" else {
                    state.refusedCount += 1
                    return TransportAnswer(401)
                }
                return TransportAnswer(200, [.eTag: "\"01\""], "v")
            }
        }
    }

    /// A counter of calls.
    private final class Counter: Sendable {
        private let value = Mutex(0)
        var count: Int { value.withLock { $0 } }

        func next() -> Int {
            value.withLock { value in
                value += 1
                return value
            }
        }
    }

    @Test("are refreshed once when 100 concurrent requests are rejected")
    func once() async throws {
        let refreshes = Mutex<[String?]>([])
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        let transport = TokenCheckingTransport()
        let tokens = AccessTokens("t1") { refused in
            refreshes.withLock { $0.append(refused) }
            // Waits until all other requests have been rejected too.
            for await _ in gate where transport.refusedCount == 100 { break }
            return "t2"
        }
        let backend = try HTTPBackend(server: "http://127.0.0.1:1", transport: transport) {
            (refused) async throws(BackendError) in try await tokens.token(refused: refused)
        }
        let key = try EntryKey("k")
        let found = await withTaskGroup(of: Bool?.self) { group in
            for _ in 0..<100 {
                group.addTask {
                    guard case .found? = try? await backend.read(key).outcome else { return false }
                    return true
                }
            }
            group.addTask {
                while transport.refusedCount < 100 { await Task.yield() }
                open.yield()
                return nil
            }
            return await group.reduce(into: 0) { count, isFound in count += isFound == true ? 1 : 0 }
        }
        #expect(found == 100)
        #expect(refreshes.withLock { $0 } == ["t1"])
        // A request that was sent earlier and rejected late uses the token that is already there.
        #expect(try await tokens.token(refused: "t1") == "t2")
        #expect(try await tokens.token() == "t2")
    }

    @Test("A failed refresh fails all waiting callers, and the next caller refreshes again")
    func failures() async throws {
        let calls = Counter()
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        let tokens = AccessTokens { _ throws(BackendError) in
            guard calls.next() == 1 else { return "t" }
            for await _ in gate { break }
            throw BackendError(.unavailable, message: "no server")
        }
        let failed = await withTaskGroup(of: Bool?.self) { group in
            for _ in 0..<20 {
                group.addTask {
                    do { return try await tokens.token() == "t" ? false : nil } catch { return true }
                }
            }
            // Callers that arrive before the gate opens wait for the first refresh; later ones start another.
            for _ in 0..<1_000 { await Task.yield() }
            open.yield()
            return await group.reduce(into: 0) { count, hasFailed in count += hasFailed == true ? 1 : 0 }
        }
        #expect(failed >= 1)
        #expect(calls.count <= 2)
        #expect(try await tokens.token() == "t")
    }

    @Test("are refreshed by another caller when the refreshing task is cancelled")
    func handover() async throws {
        let calls = Counter()
        let (begun, begin) = AsyncStream.makeStream(of: Void.self)
        let tokens = AccessTokens { _ throws(BackendError) in
            guard calls.next() == 1 else { return "t" }
            begin.yield()
            let (never, hold) = AsyncStream.makeStream(of: Void.self)
            for await _ in never {}
            withExtendedLifetime(hold) {}
            throw BackendError(.cancelled, message: "cancelled")
        }
        await withTaskGroup(of: Void.self) { outer in
            outer.addTask {
                await withTaskGroup(of: Void.self) { group in
                    group.addTask { await expectKind(.cancelled) { try await tokens.token() } }
                    var beginning = begun.makeAsyncIterator()
                    await beginning.next()
                    // The other task is waiting by now or arrives later; it must succeed in both cases.
                    for _ in 0..<100 { await Task.yield() }
                    group.cancelAll()
                }
            }
            outer.addTask {
                while calls.count == 0 { await Task.yield() }
                #expect((try? await tokens.token()) == "t")
            }
        }
        // Cancellation also ends a wait.
        await withTaskGroup(of: Void.self) { group in
            group.addTask { _ = try? await AccessTokens { _ in "x" }.token() }
            group.cancelAll()
        }
        #expect(calls.count == 2)
    }
}
