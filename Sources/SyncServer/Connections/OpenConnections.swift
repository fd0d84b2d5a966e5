import NIOCore
import SyncCore
import Synchronization

/// The open connections of a listener.
final class OpenConnections: Sendable {
    private struct State {
        var channels: [ObjectIdentifier: any Channel] = [:]
        var isEnding = false
        var isClosed = false
    }

    private let state = Mutex(State())
    private let waiting = WaitList<Void, Void>()

    /// Registers `channel` until it is closed. Ends it after its first request if ``quiesceAll()`` was called, and
    /// closes it immediately after ``closeAll()``.
    func add(_ channel: any Channel) {
        let (isEnding, isClosed) = state.withLock { state in
            state.channels[ObjectIdentifier(channel)] = channel
            return (state.isEnding, state.isClosed)
        }
        channel.closeFuture.whenComplete { _ in self.remove(channel) }
        if isClosed { return channel.close(promise: nil) }
        // Not before the channel has its handlers.
        if isEnding { channel.eventLoop.execute { Self.quiesce(channel) } }
    }

    /// Ends all connections after their requests in flight, and those that are added later.
    func quiesceAll() {
        let channels = state.withLock { state in
            state.isEnding = true
            return Array(state.channels.values)
        }
        for channel in channels { Self.quiesce(channel) }
    }

    private static func quiesce(_ channel: any Channel) {
        channel.pipeline.fireUserInboundEventTriggered(ChannelShouldQuiesceEvent())
    }

    private func remove(_ channel: any Channel) {
        state.withLock { state in
            state.channels[ObjectIdentifier(channel)] = nil
            if state.channels.isEmpty { waiting.resumeAll(returning: ()) }
        }
    }

    /// Closes all connections immediately, even if requests are in flight, and every connection that is added later.
    func closeAll() {
        let channels = state.withLock { state in
            state.isClosed = true
            return Array(state.channels.values)
        }
        for channel in channels { channel.close(promise: nil) }
    }

    /// Waits until no connection is open.
    func waitForAll() async {
        await state.withLock { $0.channels.isEmpty ? nil : waiting.add() }?.value()
    }
}
