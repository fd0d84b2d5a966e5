import NIOCore
import Synchronization

/// Runs the tasks of connections, spread over many groups.
///
/// A task group finds the task that has ended by walking along its others. Where all connections are in one group, the
/// end of each costs more the more there are, and when thousands end at once nobody else gets on.
final class ConnectionTasks: Sendable {
    private struct Connection: Sendable {
        var executor: LoopExecutor
        var body: @Sendable () async -> Void
    }

    /// With 10,000 connections each group has 40.
    private static let groupCount = 256

    private let lines: [(stream: AsyncStream<Connection>, continuation: AsyncStream<Connection>.Continuation)]
    private let latest = Atomic<Int>(0)

    init() { lines = (0..<Self.groupCount).map { _ in AsyncStream.makeStream() } }

    /// Begins `body` on `loop`. Returns at once, unless nothing is begun any more: then when `body` has ended.
    func begin(on loop: any EventLoop, _ body: @escaping @Sendable () async -> Void) async {
        let place = latest.wrappingAdd(1, ordering: .relaxed).newValue & (Self.groupCount - 1)
        switch lines[place].continuation.yield(Connection(executor: LoopExecutor(loop), body: body)) {
        case .enqueued: return
        default: await body()
        }
    }

    /// Begins nothing more.
    func finish() { for line in lines { line.continuation.finish() } }

    /// Runs them until ``finish()`` is called and all have ended. Cancelling its task cancels theirs.
    func run() async {
        await withDiscardingTaskGroup { group in
            for (connections, _) in lines {
                group.addTask {
                    await withDiscardingTaskGroup { group in
                        for await connection in connections {
                            group.addTask(executorPreference: connection.executor, operation: connection.body)
                        }
                    }
                }
            }
        }
    }
}
