import HummingbirdCore
import Logging
import NIOCore
import NIOSSL
import NIOTLS

/// A connection that is closed when it takes too long to be encrypted, or carries nothing for too long.
///
/// Hummingbird does not look after a client that does not get as far as a request, or that reads nothing of what it has
/// asked for.
struct WatchedChannel<Base: ServerChildChannel>: ServerChildChannel {
    private let base: Base
    private let limits: ConnectionWatch.Limits
    private let tasks: ConnectionTasks

    init(_ base: Base, limits: ConnectionWatch.Limits, tasks: ConnectionTasks) {
        (self.base, self.limits, self.tasks) = (base, limits, tasks)
    }

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Base.Value> {
        do {
            guard limits.handshake != nil else {
                try channel.pipeline.syncOperations.addHandler(ConnectionWatch(limits))
                return base.setup(channel: channel, logger: logger)
            }
            let result = base.setup(channel: channel, logger: logger)
            // Behind what encrypts, which tells when it is ready.
            let encryption = try channel.pipeline.syncOperations.handler(type: NIOSSLServerHandler.self)
            try channel.pipeline.syncOperations.addHandler(
                StreamEndings(closingTime: limits.closing), position: .after(encryption))
            try channel.pipeline.syncOperations.addHandler(ConnectionWatch(limits), position: .after(encryption))
            return result
        } catch {
            return channel.eventLoop.makeFailedFuture(error)
        }
    }

    func handle(value: Base.Value, logger: Logger) async {
        await tasks.begin(on: value.channel.eventLoop) { [base] in await base.handle(value: value, logger: logger) }
    }
}
