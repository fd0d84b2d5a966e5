import LoadTesting
import Synchronization
import TestSupport
import Testing

@Suite("A run against a server")
struct LoadSmokeTests {
    @Test(
        "In a closed loop all requests that the server received are counted, also with several loops",
        arguments: [1, 3])
    func closedLoop(loops: Int) async throws {
        let seen = Mutex(0)
        let server = try await ScriptedServer.start { _, _ in
            seen.withLock { $0 += 1 }
            return .answer(200)
        }
        let report = try await run(reads(server, connections: 6, loops: loops), at: server)
        #expect(report.isSound)
        #expect(report.sent >= 6)
        #expect(report.sent == seen.withLock { $0 })
        #expect(report.kinds[0].latencies.count == UInt64(report.sent))
        #expect(report.statuses == [200: report.sent])
    }
}

@Suite("Driving a server", .timeLimit(.minutes(15)), .longForm)
struct LoadRunTests {
    @Test("In an open loop latency counts from the time at which the request was due, even if no connection was free")
    func latencyCountsFromDue() async throws {
        // One connection, answers after 50 ms, a request due every 10 ms: the last of 40 requests waits longest.
        let server = try await ScriptedServer.start { _, _ in .delayed(.milliseconds(50), 200) }
        var plan = reads(server, connections: 1, rate: 100)
        plan.patience = Double(Patience.seconds)
        let report = try await run(plan, at: server)
        let latencies = report.kinds[0].latencies
        #expect(report.isSound)
        #expect((report.sent, report.unsent) == (40, 0))
        #expect(latencies.count == 40)
        // It is sent after 39 × 50 ms, takes 50 ms and was due at 390 ms.
        #expect(latencies.maximum >= 1_600_000_000)
        #expect((latencies.percentile(0.5) ?? 0) >= 700_000_000)
        #expect(report.late >= 38)
    }

    @Test("Requests that were due but not sent are counted, with their waiting time")
    func unsentIsCounted() async throws {
        let server = try await ScriptedServer.start { _, number in number < 3 ? .answer(200) : .silence }
        var plan = reads(server, connections: 1, rate: 50)
        plan.patience = 0.5
        let report = try await run(plan, at: server)
        #expect(report.sent + report.unsent == 20)
        #expect(report.unsent == 16)
        #expect(report.troubles == [.unanswered: 1])
        #expect(report.kinds[0].latencies.count == UInt64(20 - 1))
        #expect(!report.isSound)
    }

    @Test("Unexpected answers and unanswered requests are reported")
    func troublesAreTold() async throws {
        let server = try await ScriptedServer.start { _, number in
            switch number % 10 {
            case 3: .answer(429)
            case 6: .hangUp
            default: .answer(200)
            }
        }
        let report = try await run(reads(server, connections: 2, rate: 250), at: server)
        #expect(report.sent == 100)
        #expect(report.unexpected == [429: 10])
        #expect(report.troubles == [.closed: 10])
        #expect(report.statuses == [200: 80, 429: 10])
        #expect(!report.isSound)
    }

    @Test("A closed port is an error, not a report")
    func nobodyListens() async throws {
        let server = try await ScriptedServer.start { _, _ in .answer(200) }
        try await server.stop()
        await #expect(throws: (any Error).self) {
            try await LoadRun.run(reads(server, connections: 2), at: target(server))
        }
    }

    @Test("A write uses the version of the previous answer; a lost answer is no conflict, another writer's change is")
    func writesAreConditional() async throws {
        let state = Mutex((version: 0, conflicts: 0))
        let server = try await ScriptedServer.start { request, number in
            state.withLock { state in
                guard request.condition == "\"\(state.version)\"", request.authorization == "Bearer secret" else {
                    state.conflicts += 1
                    return .answer(412, tag: "\"\(state.version)\"")
                }
                state.version += 1
                // The fifth request arrives, but its answer does not.
                if number == 4 { return .hangUp }
                // Another client writes after the ninth request.
                defer { if number == 8 { state.version += 1 } }
                return .answer(200, tag: "\"\(state.version)\"")
            }
        }
        let credential = LoadCredential(token: "secret")
        let request = RequestBytes("PUT", "/document", at: target(server), credential: credential)
        let work = ConditionalWrites(request, version: "\"0\"", byteCount: 300)
        let plan = LoadPlan(kinds: ["write"], works: [work], seconds: 0.4, rate: 50)
        let report = try await run(plan, at: server)
        #expect(report.sent == 20)
        #expect(state.withLock { $0.conflicts } == 2)
        #expect(report.statuses == [200: 17, 412: 2])
        #expect(report.unexpected == [412: 1])
        #expect(report.troubles == [.closed: 1])
    }

    @Test("Every watcher of every write is measured", arguments: [false, true])
    func watchersHear(reconnects: Bool) async throws {
        let server = try await ScriptedServer.start { request, _ in
            request.path == "/changes" ? .stream() : .answer(200, tag: "\"1\"")
        }
        var plan = writePlan(server, seconds: 0.8, rate: 25, watchers: 100)
        if reconnects { plan.reopening = 0.4 }
        plan.patience = Double(Patience.seconds)
        let report = try await run(plan, at: server)
        #expect(report.isSound)
        #expect(report.sent == 20)
        #expect(report.reopened.count == (reconnects ? 100 : 0))
        // A write during the reconnection reaches only the connected streams.
        #expect(reconnects ? (1...2_000).contains(report.heard.count) : report.heard.count == 2_000)
        expectFigure(report.heard.count >= 200)
    }

    @Test("A missing event is reported")
    func lostEventIsTold() async throws {
        let server = try await ScriptedServer.start { request, _ in
            request.path == "/changes" ? .stream() : .answer(204, tag: "\"1\"")
        }
        var plan = writePlan(server, seconds: 0.2, rate: 10, watchers: 3)
        plan.patience = 0.5
        let report = try await run(plan, at: server)
        // The second write waits for the events of the first one and is not sent.
        #expect((report.sent, report.unsent) == (1, 1))
        #expect(report.troubles == [.unheard: 3])
    }

    @Test(
        "A stream that ends with its replaced token reopens with the new one; any other end is reported",
        arguments: [false, true])
    func endOfToken(isReplaced: Bool) async throws {
        let credential = LoadCredential(token: "old")
        let writes = Mutex(0)
        let tokens = Mutex<[String?]>([])
        let server = try await ScriptedServer.start { request, _ in
            guard request.path != "/changes" else {
                tokens.withLock { $0.append(request.authorization) }
                return .stream()
            }
            return writes.withLock { count in
                count += 1
                guard count == 5 else { return .answer(200, tag: "\"1\"") }
                if isReplaced { credential.replace(by: "new") }
                return .ending(200)
            }
        }
        var plan = writePlan(server, seconds: 1, rate: 10, watchers: 4, credential: credential)
        plan.patience = Double(Patience.seconds)
        let report = try await run(plan, at: server)
        #expect(report.sent == 10)
        #expect(report.troubles == (isReplaced ? [:] : [.streamEnded: 4]))
        #expect(report.reopened.count == (isReplaced ? 0 : 4))
        let next = isReplaced ? "Bearer new" : "Bearer old"
        #expect(tokens.withLock { $0 } == Array(repeating: "Bearer old", count: 4) + Array(repeating: next, count: 4))
    }

    @Test("A stream that ends after all were open again is timed from its own end")
    func laterEnd() async throws {
        let credential = LoadCredential(token: "one")
        let writes = Mutex(0)
        let server = try await ScriptedServer.start { request, _ in
            guard request.path != "/changes" else { return .stream() }
            return writes.withLock { count in
                count += 1
                return count == 2 || count == 27 ? .ending(200) : .answer(200, tag: "\"1\"")
            }
        }
        var plan = writePlan(server, seconds: 3, rate: 10, watchers: 3, credential: credential)
        plan.patience = Double(Patience.seconds)
        let report = try await run(plan, at: server)
        #expect(report.sent == 30)
        #expect(report.troubles == [.streamEnded: 6])
        #expect(report.reopened.count == 6)
        // The second end is 2.5 s after the first. A stream reconnects after 0.1 s.
        expectFigure(report.reopened.maximum < 2_400_000_000)
        expectFigure(report.meanwhile.count < 24)
    }

    @Test("A stream that does not reopen in time is reported")
    func lostStreamIsTold() async throws {
        let count = Mutex(0)
        let server = try await ScriptedServer.start { request, _ in
            guard request.path == "/changes" else { return .answer(200, tag: "\"1\"") }
            return count.withLock { count in
                count += 1
                return count <= 7 ? .stream() : .silence
            }
        }
        var plan = writePlan(server, seconds: 0.2, rate: 10, watchers: 5)
        plan.reopening = 0.15
        plan.patience = 0.5
        let report = try await run(plan, at: server)
        #expect(report.troubles == [.notReopened: 3])
        #expect(report.reopened.count == 2)
    }

    @Test("A cancelled run ends at once with its results so far")
    func cancelling() async throws {
        let (begun, begin) = AsyncStream.makeStream(of: Void.self)
        let server = try await ScriptedServer.start { _, number in
            if number == 10 { begin.finish() }
            return .answer(200)
        }
        let plan = reads(server, connections: 2, seconds: 3_000)
        let report = try await withThrowingTaskGroup(of: LoadReport?.self) { group in
            group.addTask { try await LoadRun.run(plan, at: target(server)) }
            group.addTask {
                for await _ in begun {}
                return nil
            }
            var report: LoadReport?
            while let next = try await group.next() {
                if let next { report = next }
                group.cancelAll()
            }
            return report
        }
        try await server.stop()
        #expect((report?.sent ?? 0) > 10)
        #expect(report?.isSound == true)
        let seconds = report?.seconds ?? 3_000
        #expect(seconds < 3_000)
        expectFigure(seconds < 60)
    }
}

private func reads(
    _ server: ScriptedServer, connections: Int, seconds: Double = 0.4, rate: Double? = nil, loops: Int = 1
) -> LoadPlan {
    let request = RequestBytes("GET", "/document", at: target(server))
    let works = (0..<connections).map { _ in RepeatedRequests([request], expecting: 200...200) }
    return LoadPlan(kinds: ["read"], works: works, seconds: seconds, rate: rate, loopCount: loops)
}

private func target(_ server: ScriptedServer) -> LoadTarget { LoadTarget(host: "127.0.0.1", port: server.port) }

/// A writer, and streams that watch its writes.
private func writePlan(
    _ server: ScriptedServer, seconds: Double, rate: Double, watchers: Int, credential: LoadCredential? = nil
) -> LoadPlan {
    let work = ConditionalWrites(
        RequestBytes("PUT", "/document", at: target(server)), version: "\"0\"", byteCount: 10)
    var plan = LoadPlan(kinds: ["write"], works: [work], seconds: seconds, rate: rate)
    let stream = RequestBytes("GET", "/changes", at: target(server), credential: credential)
    plan.streams = [WatchedStreams(stream, count: watchers)]
    return plan
}

/// Runs a plan, and stops the server.
private func run(_ plan: LoadPlan, at server: ScriptedServer) async throws -> LoadReport {
    let report = try await LoadRun.run(plan, at: target(server))
    try await server.stop()
    return report
}
