import NIOCore
import NIOPosix

/// Drives a server as a plan says.
package enum LoadRun {
    /// Connects, asks, and waits for the last answers. A run that is cancelled ends at once, with what was seen until
    /// then.
    ///
    /// - Throws: `NIOConnectionError` and others where not all connections can be made.
    package static func run(_ plan: LoadPlan, at target: LoadTarget) async throws -> LoadReport {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: plan.loopCount)
        let result: Result<LoadReport, any Error>
        do {
            result = .success(try await run(plan, at: target, on: group))
        } catch {
            result = .failure(error)
        }
        try await group.shutdownGracefully()
        return try result.get()
    }

    private static func run(
        _ plan: LoadPlan, at target: LoadTarget, on group: MultiThreadedEventLoopGroup
    ) async throws -> LoadReport {
        let loops = try await parts(of: plan).asyncMap(group) { part, eventLoop in
            NIOLoopBound(LoadLoop(part, of: plan, at: target, on: eventLoop), eventLoop: eventLoop)
        }
        do {
            try await each(loops) { loop in
                loop.open()
                return loop.opened
            }
        } catch {
            for loop in loops { loop.eventLoop.execute { loop.value.stop() } }
            throw error
        }
        // All of them begin together.
        let start = NIODeadline.now() + .milliseconds(20)
        let end = start + .nanoseconds(Int64(plan.seconds * 1e9))
        return try await withTaskCancellationHandler {
            try await each(loops) { loop in
                loop.after(start) { $0.start(at: start, until: end) }
                return loop.eventLoop.makeSucceededVoidFuture()
            }
            var report = LoadReport(kinds: plan.kinds, seconds: plan.seconds)
            for loop in loops {
                report.add(try await loop.eventLoop.flatSubmit { loop.value.finished }.get())
            }
            report.seconds = min(plan.seconds, Double((NIODeadline.now() - start).nanoseconds) / 1e9)
            return report
        } onCancel: {
            for loop in loops { loop.eventLoop.execute { loop.value.cancel() } }
        }
    }

    private static func each(
        _ loops: [NIOLoopBound<LoadLoop>], _ body: @escaping @Sendable (LoadLoop) -> EventLoopFuture<Void>
    ) async throws {
        let begun = loops.map { loop in loop.eventLoop.flatSubmit { body(loop.value) } }
        for future in begun { try await future.get() }
    }

    /// Every loop has its share of the connections, and the streams of those.
    private static func parts(of plan: LoadPlan) -> [LoadLoop.Part] {
        (0..<plan.loopCount).map { index in
            let chosen = plan.works.indices.filter { $0 % plan.loopCount == index }
            return LoadLoop.Part(
                works: chosen.map { plan.works[$0] },
                streams: plan.streams.isEmpty ? [] : chosen.map { plan.streams[$0] }, index: index)
        }
    }
}

extension [LoadLoop.Part] {
    fileprivate func asyncMap(
        _ group: MultiThreadedEventLoopGroup,
        _ make: @escaping @Sendable (LoadLoop.Part, any EventLoop) -> NIOLoopBound<LoadLoop>
    ) async throws -> [NIOLoopBound<LoadLoop>] {
        var made: [NIOLoopBound<LoadLoop>] = []
        for part in self {
            let eventLoop = group.next()
            made.append(try await eventLoop.submit { make(part, eventLoop) }.get())
        }
        return made
    }
}
