import NIOCore
import NIOPosix

/// Runs plans.
package enum LoadRun {
    /// Opens all connections, sends requests for the length of the run and waits for the last answers.
    ///
    /// A cancelled run ends at once and returns its results until then.
    ///
    /// - Throws: `NIOConnectionError` and others if not all connections can be opened.
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
        let loops = try await makeLoops(plan, at: target, on: group)
        do {
            try await each(loops) { loop in
                loop.open()
                return loop.opened
            }
        } catch {
            for loop in loops { loop.eventLoop.execute { loop.value.stop() } }
            throw error
        }
        // A common start for all loops.
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

    private static func makeLoops(
        _ plan: LoadPlan, at target: LoadTarget, on group: MultiThreadedEventLoopGroup
    ) async throws -> [NIOLoopBound<LoadLoop>] {
        var loops: [NIOLoopBound<LoadLoop>] = []
        for part in parts(of: plan) {
            let eventLoop = group.next()
            loops.append(
                try await eventLoop.submit {
                    NIOLoopBound(LoadLoop(part, of: plan, at: target, on: eventLoop), eventLoop: eventLoop)
                }.get())
        }
        return loops
    }

    private static func each(
        _ loops: [NIOLoopBound<LoadLoop>], _ body: @escaping @Sendable (LoadLoop) -> EventLoopFuture<Void>
    ) async throws {
        let begun = loops.map { loop in loop.eventLoop.flatSubmit { body(loop.value) } }
        for future in begun { try await future.get() }
    }

    /// Distributes connections, and the streams that belong to them, over the loops.
    private static func parts(of plan: LoadPlan) -> [LoadLoop.Part] {
        (0..<plan.loopCount).map { index in
            let chosen = plan.works.indices.filter { $0 % plan.loopCount == index }
            return LoadLoop.Part(
                works: chosen.map { plan.works[$0] },
                streams: plan.streams.isEmpty ? [] : chosen.map { plan.streams[$0] }, index: index)
        }
    }
}
