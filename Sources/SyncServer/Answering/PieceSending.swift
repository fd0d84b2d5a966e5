import HTTPTypes
import HummingbirdCore
import NIOCore
import ServiceLifecycle

/// An answer that comes in pieces.
enum PieceSending {
    /// Sends `head` and all of `pieces`, each at once. Stops when the client goes away or the server is to end.
    ///
    /// - Returns: how many bytes were sent.
    static func run(
        _ pieces: AsyncStream<[UInt8]>, _ head: HTTPResponse, over channel: any Channel,
        _ writer: consuming ResponseWriter
    ) async throws -> Int {
        // Used by one task at a time: by the one that sends, and by this one when that has ended.
        nonisolated(unsafe) var body = try await writer.writeHead(head)
        let (ending, end) = AsyncStream.makeStream(of: Void.self)
        try await WholeRequests.whenClientLeaves(channel) { end.finish() }
        let sent = try await withGracefulShutdownHandler {
            try await withThrowingTaskGroup(of: Int?.self) { group in
                group.addTask {
                    var count = 0
                    do {
                        for await piece in pieces {
                            try await body.write(ByteBuffer(bytes: piece))
                            count += piece.count
                        }
                    } catch {
                        // Whoever makes the pieces hears that nobody takes them any more.
                        withUnsafeCurrentTask { $0?.cancel() }
                        for await _ in pieces {}
                        throw error
                    }
                    return count
                }
                group.addTask {
                    for await _ in ending {}
                    return nil
                }
                var count = 0
                while let result = try await group.next() {
                    count += result ?? 0
                    group.cancelAll()
                }
                return count
            }
        } onGracefulShutdown: {
            end.finish()
        }
        try await body.finish(nil)
        return sent
    }
}
