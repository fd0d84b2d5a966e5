import NIOCore
import Synchronization

/// The open connections of a listener.
final class OpenConnections: Sendable {
    private struct State {
        var channels: [ObjectIdentifier: any Channel] = [:]
        var waiting: [CheckedContinuation<Void, Never>] = []
        var isClosed = false
    }

    private let state = Mutex(State())

    /// Registers `channel` until it is closed.
    func add(_ channel: any Channel) {
        let isClosed = state.withLock { state in
            state.channels[ObjectIdentifier(channel)] = channel
            return state.isClosed
        }
        channel.closeFuture.whenComplete { _ in self.remove(channel) }
        if isClosed { channel.close(promise: nil) }
    }

    private func remove(_ channel: any Channel) {
        let waiting = state.withLock { state -> [CheckedContinuation<Void, Never>] in
            state.channels[ObjectIdentifier(channel)] = nil
            guard state.channels.isEmpty else { return [] }
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Closes all connections at once, and every later one, even with requests in flight.
    func closeAll() {
        let channels = state.withLock { state in
            state.isClosed = true
            return Array(state.channels.values)
        }
        for channel in channels { channel.close(promise: nil) }
    }

    /// Waits until no connection is open.
    func waitForAll() async {
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                if !state.channels.isEmpty { state.waiting.append(continuation) }
                return state.channels.isEmpty
            }
            if isOver { continuation.resume() }
        }
    }
}
