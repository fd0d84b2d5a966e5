import NIOCore
import Synchronization

/// The open connections of a listener.
final class OpenConnections: Sendable {
    private struct State {
        var channels: [ObjectIdentifier: any Channel] = [:]
        var waiters: [CheckedContinuation<Void, Never>] = []
        var isClosed = false
    }

    private let state = Mutex(State())

    /// Registers `channel` until it is closed. Closes it immediately after ``closeAll()``.
    func add(_ channel: any Channel) {
        let isClosed = state.withLock { state in
            state.channels[ObjectIdentifier(channel)] = channel
            return state.isClosed
        }
        channel.closeFuture.whenComplete { _ in self.remove(channel) }
        if isClosed { channel.close(promise: nil) }
    }

    private func remove(_ channel: any Channel) {
        let waiters = state.withLock { state -> [CheckedContinuation<Void, Never>] in
            state.channels[ObjectIdentifier(channel)] = nil
            guard state.channels.isEmpty else { return [] }
            defer { state.waiters = [] }
            return state.waiters
        }
        for continuation in waiters { continuation.resume() }
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
        await withCheckedContinuation { continuation in
            let isEmpty = state.withLock { state in
                if !state.channels.isEmpty { state.waiters.append(continuation) }
                return state.channels.isEmpty
            }
            if isEmpty { continuation.resume() }
        }
    }
}
