import Foundation
import HummingbirdCore
package import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle
import Synchronization

/// Accepts connections and answers their requests with a ``Responder``.
///
/// On graceful shutdown of its service group it accepts no more connections, ends event streams, and finishes the
/// requests in flight.
package struct Listener: Service {
    private let server: any Service
    private let contexts: ListenerContexts

    /// - Parameters:
    ///   - configuration: the address and the limits.
    ///   - responder: answers the requests.
    ///   - logger: receives the messages of the HTTP framework.
    ///   - onListening: called once, with the port.
    /// - Throws: ``ListenerError`` if the certificate or its key cannot be used.
    package init(
        _ configuration: ListenerConfiguration, responder: Responder, logger: Logger,
        onListening: @escaping @Sendable (Int) async -> Void
    ) throws(ListenerError) {
        contexts = ListenerContexts(try Self.context(configuration, responder))
        server = ConnectionChannel(contexts: contexts).server(
            configuration: ServerConfiguration(
                address: configuration.socketPath.map { .unixDomainSocket(path: $0) }
                    ?? .hostname(configuration.host, port: configuration.port), backlog: configuration.backlog,
                // More than the limit, because a connection beyond it is accepted and then closed at once.
                availableConnectionsDelegate: .maximum(
                    configuration.connectionCount + Admission.reserve + 128, logger: logger)),
            onServerRunning: { await onListening($0.localAddress?.port ?? configuration.port) },
            eventLoopGroup: .singletonMultiThreadedEventLoopGroup, logger: logger)
    }

    /// Listens until the service group shuts down.
    ///
    /// - Throws: ``ListenerError`` if the server cannot listen at the address.
    package func run() async throws {
        try await withTaskCancellationHandler {
            do { try await server.run() } catch let error as IOError {
                throw ListenerError("cannot listen: \(String(cString: strerror(error.errnoCode)))")
            } catch let error as SocketAddressError {
                throw ListenerError("cannot listen: \(error)")
            } catch let error as SocketAddressError.UnknownHost {
                throw ListenerError("cannot listen: the host \(error.host) is unknown")
            }
            // `server` only accepts connections. Open connections finish by themselves.
            for context in contexts.all { await context.waitForAll() }
        } onCancel: {
            for context in contexts.all { context.endAll() }
        }
    }

    /// Serves new connections with another responder. The open connections finish their requests and end; event streams
    /// and TLS handshakes end at once, and clients connect again.
    ///
    /// The address stays the same. The number of connections has at most the limit with which the listener started.
    ///
    /// - Returns: A function that returns once all former connections are closed, which takes at most
    ///   ``ListenerConfiguration/shutdownSeconds`` of the former configuration.
    /// - Throws: ``ListenerError`` if the certificate or its key cannot be used. Then nothing has changed.
    func replace(
        _ configuration: ListenerConfiguration, responder: Responder
    ) throws(ListenerError) -> @Sendable () async -> Void {
        let former = contexts.replace(by: try Self.context(configuration, responder))
        former.connections.quiesceAll()
        return { [contexts] in
            await former.waitForAll()
            contexts.remove(former)
        }
    }

    /// Checks that a certificate and its key can be used.
    package static func check(_ certificate: ListenerConfiguration.Certificate) throws(ListenerError) {
        _ = try CertificateFiles.context(certificate)
    }

    private static func context(
        _ configuration: ListenerConfiguration, _ responder: Responder
    ) throws(ListenerError) -> ListenerContext {
        ListenerContext(responder, tls: try configuration.certificate.map(CertificateFiles.context))
    }
}

/// The error of a configuration that cannot be used, or of an address that the server cannot listen at.
package struct ListenerError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The reason, in one line.
    package let description: String
    /// `true` if the file of a certificate's key causes the error.
    package let isOfKey: Bool

    init(_ reason: String, isOfKey: Bool = false) {
        description = reason.split(whereSeparator: \.isNewline).joined(separator: " ")
        self.isOfKey = isOfKey
    }
}
