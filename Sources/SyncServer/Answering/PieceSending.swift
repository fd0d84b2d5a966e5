import HTTPTypes
import HummingbirdCore
import NIOCore
import ServiceLifecycle
import Synchronization

/// An answer that comes in pieces.
enum PieceSending {
    /// How long a reader may take for what is left when the pieces are ended from outside.
    static let grace = TimeAmount.seconds(2)

    /// Sends `head` and all of `pieces`, each at once. Stops when the client goes away or the server is to end; the
    /// connection (of HTTP/2: the stream) is closed then, after ``grace`` at the latest.
    ///
    /// - Parameters:
    ///   - pieces: what is sent.
    ///   - end: ends them.
    /// - Returns: how many bytes were sent.
    static func run(
        _ pieces: AsyncStream<[UInt8]>, end: @escaping @Sendable () -> Void, _ head: HTTPResponse,
        over channel: any Channel, _ writer: consuming ResponseWriter
    ) async throws -> Int {
        let ending = Ending(channel, end)
        // Whoever makes the pieces hears that nobody takes them any more.
        defer { end() }
        var body = try await writer.writeHead(head)
        try await WholeRequests.whenClientLeaves(channel) { ending.begin() }
        let sent = try await withGracefulShutdownHandler {
            var count = 0
            for await piece in pieces {
                // It may have taken long to make.
                if ending.hasBegun { break }
                try await body.write(ByteBuffer(bytes: piece))
                count += piece.count
                if ending.hasBegun { break }
            }
            return count
        } onGracefulShutdown: {
            ending.begin()
        }
        try await body.finish(nil)
        return sent
    }

    /// The end of the pieces that comes from outside: no task of its own waits for it.
    private final class Ending: Sendable {
        private let channel: any Channel
        private let end: @Sendable () -> Void
        private let flag = Atomic(false)

        init(_ channel: any Channel, _ end: @escaping @Sendable () -> Void) {
            (self.channel, self.end) = (channel, end)
        }

        var hasBegun: Bool { flag.load(ordering: .acquiring) }

        func begin() {
            guard !flag.exchange(true, ordering: .acquiringAndReleasing) else { return }
            end()
            channel.eventLoop.execute { [channel] in
                // A reader who takes nothing would keep the piece that is under way, and all else with it.
                guard channel.isActive, channel.isWritable else { return UnsentAnswers.closeAtOnce(channel) }
                // Or he stops with the last piece, or with the end itself.
                let late = channel.eventLoop.scheduleTask(in: grace) { UnsentAnswers.closeAtOnce(channel) }
                channel.closeFuture.whenComplete { _ in late.cancel() }
            }
        }
    }
}
