import Foundation
import HummingbirdCore
import Logging
import NIOCore
import NIOHTTP1
import NIOHTTPTypesHTTP1
import SyncService

/// Sets up accepted connections: plain HTTP/1.1, or over TLS HTTP/2 or HTTP/1.1, as ALPN negotiates.
///
/// Hummingbird accepts connections and shuts down gracefully, but its own channels are not used: they need a task for
/// each connection, have no write or handshake timeout, and have no option for NIO's limit of HTTP/2 resets
/// (`NIOHTTP2Handler.StreamConfiguration.streamResetFrameRateLimit`). libcurl exceeds that limit in normal use, since
/// it resets a stream as soon as it has received the announced length of an answer.
struct ConnectionChannel: ServerChildChannel {
    struct Value: ServerChildChannelValue {
        let channel: any Channel
    }

    let contexts: ListenerContexts

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        ConnectionSetup(door: contexts.current).setUp(channel)
    }

    /// Does nothing: connections need no task.
    func handle(value: Value, logger: Logger) async {}
}

/// Sets up one connection.
struct ConnectionSetup {
    typealias Value = ConnectionChannel.Value

    let door: ListenerContext

    func setUp(_ channel: any Channel) -> EventLoopFuture<Value> {
        guard door.limits.socketPath != nil else { return setUp(channel, Peer(channel, door.limits.trustedProxies)) }
        return Self.localUser(of: channel).flatMap { setUp(channel, Peer(localUser: $0)) }
    }

    /// The user id of the program at the other end of a Unix socket, as the kernel noted it when the program connected
    /// (unix(7), `SO_PEERCRED`).
    private static func localUser(of channel: any Channel) -> EventLoopFuture<UInt32> {
        #if os(Linux)
        guard let options = channel as? any SocketOptionProvider else {
            return channel.eventLoop.makeSucceededFuture(.max)
        }
        // An unknown user has no rights. A failure would end the listener.
        return options.unsafeGetSocketOption(level: .socket, name: .init(rawValue: SO_PEERCRED)).map {
            (credentials: Credentials) in credentials.user
        }.flatMapErrorThrowing { _ in UInt32.max }
        #else
        return channel.eventLoop.makeSucceededFuture(.max)
        #endif
    }

    /// `struct ucred` of Linux.
    private struct Credentials: BitwiseCopyable {
        var process: Int32
        var user: UInt32
        var group: UInt32
    }

    private func setUp(_ channel: any Channel, _ peer: Peer) -> EventLoopFuture<Value> {
        guard let slot = door.admission.connect(peer.connectionAddress) else {
            // The channel is not registered yet, and a failure here would close the server channel. Close it later.
            channel.eventLoop.execute { channel.close(promise: nil) }
            return channel.eventLoop.makeSucceededFuture(Value(channel: channel))
        }
        channel.closeFuture.whenComplete { _ in slot.give() }
        door.connections.add(channel)
        return channel.eventLoop.makeCompletedFuture {
            // At most one read of input is buffered while a request is answered.
            try channel.syncOptions?.setOption(.maxMessagesPerRead, value: 1)
            if let tls = door.tls { try setUpTLS(channel, tls, peer) } else { try setUpHTTP1(channel, peer) }
            return Value(channel: channel)
        }
    }

    func setUpHTTP1(_ channel: any Channel, _ peer: Peer) throws {
        let operations = channel.pipeline.syncOperations
        var limits = NIOHTTPDecoderLimitConfiguration()
        limits.maxHeaderFieldSize = door.limits.headerByteCount
        limits.maxHeaderListSize = door.limits.headerByteCount
        limits.maxHeaderFieldCount = door.limits.headerFieldCount
        try operations.configureHTTPServerPipeline(
            withPipeliningAssistance: false, withErrorHandling: false, withOutboundHeaderValidation: false,
            withEncoderConfiguration: .init(), withDecoderLimitConfiguration: limits)
        try operations.addHandler(RequestRules())
        try operations.addHandler(HTTP1ToHTTPServerCodec(secure: door.tls != nil))
        try operations.addHandler(ConnectionHandler(door, peer: peer, isStream: false))
    }
}
