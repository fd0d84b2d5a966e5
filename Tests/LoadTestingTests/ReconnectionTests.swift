import LoadTesting
import Synchronization
import TestSupport
import Testing

/// Streams reconnect after the reconnection time of the server (HTML, section 9.2.3), which spreads them.
@Suite("Reconnecting streams", .timeLimit(.minutes(15)), .longForm)
struct ReconnectionTests {
    /// Runs a writer with three streams against a server that ends all streams with the writes in `losses`.
    ///
    /// - Parameter retry: the reconnection time that the server sends on the stream with this number.
    private func run(
        losses: Set<Int>, seconds: Double, reopening: Double? = nil,
        retry: @escaping @Sendable (_ stream: Int) -> Int?
    ) async throws -> LoadReport {
        let counts = Mutex((streams: 0, writes: 0))
        let server = try await ScriptedServer.start { request, _ in
            counts.withLock { counts in
                if request.path == "/changes" {
                    counts.streams += 1
                    return .stream(retry: retry(counts.streams))
                }
                counts.writes += 1
                return losses.contains(counts.writes) ? .ending(200) : .answer(200, tag: "\"1\"")
            }
        }
        let target = LoadTarget(host: "127.0.0.1", port: server.port)
        let work = ConditionalWrites(RequestBytes("PUT", "/document", at: target), version: "\"0\"", byteCount: 10)
        var plan = LoadPlan(kinds: ["write"], works: [work], seconds: seconds, rate: 10)
        plan.streams = [WatchedStreams(RequestBytes("GET", "/changes", at: target), count: 3)]
        plan.reopening = reopening
        let report = try await LoadRun.run(plan, at: target)
        try await server.stop()
        return report
    }

    @Test("A lost stream waits for the time that the server has sent on it")
    func lostStreams() async throws {
        let report = try await run(losses: [2], seconds: 0.5) { 300 + 100 * $0 }
        #expect(report.troubles == [.streamEnded: 3])
        #expect(report.reopened.count == 3)
        #expect((report.reopened.percentile(0) ?? 0) >= 398_000_000)
        #expect(report.reopened.maximum >= 600_000_000)
    }

    @Test("A lost stream waits for a second when the server has sent no time")
    func defaultTime() async throws {
        let report = try await run(losses: [2], seconds: 0.5) { _ in nil }
        #expect(report.reopened.count == 3)
        #expect((report.reopened.percentile(0) ?? 0) >= 996_000_000)
    }

    @Test("A stream keeps the last time that the server has sent on it across connections")
    func keptTime() async throws {
        let report = try await run(losses: [2, 7], seconds: 1) { $0 <= 3 ? 50 : nil }
        #expect(report.troubles == [.streamEnded: 6])
        #expect(report.reopened.count == 6)
        expectFigure(report.reopened.maximum < 1_000_000_000)
    }

    @Test("Streams that the run itself closes also wait for the reconnection time")
    func closedStreams() async throws {
        let report = try await run(losses: [], seconds: 0.5, reopening: 0.2) { 300 + 100 * $0 }
        #expect(report.isSound)
        #expect(report.reopened.count == 3)
        #expect((report.reopened.percentile(0) ?? 0) >= 398_000_000)
        #expect(report.reopened.maximum >= 600_000_000)
    }
}
