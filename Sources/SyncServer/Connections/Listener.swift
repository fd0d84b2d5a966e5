import HummingbirdCore
public import Logging
import NIOCore
import NIOPosix
import NIOSSL
public import ServiceLifecycle

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// Accepts connections and answers their requests with a ``Responder``.
///
/// On graceful shutdown of its service group it accepts no more connections, ends event streams, and finishes the
/// requests in flight.
public struct Listener: Service {
    private let server: any Service
    private let door: FrontDoor

    /// - Parameters:
    ///   - configuration: the address and the limits.
    ///   - responder: answers the requests.
    ///   - logger: receives the messages of the HTTP framework.
    ///   - onListening: called once, with the port.
    /// - Throws: ``ListenerError`` if the certificate or its key cannot be used.
    public init(
        _ configuration: ListenerConfiguration, responder: Responder, logger: Logger,
        onListening: @escaping @Sendable (Int) async -> Void
    ) throws(ListenerError) {
        door = FrontDoor(responder)
        let channel = ConnectionChannel(door: door, tls: try configuration.certificate.map(Self.tls))
        server = channel.server(
            configuration: ServerConfiguration(
                address: .hostname(configuration.host, port: configuration.port), backlog: configuration.backlog,
                // More than the limit, because a connection beyond it is accepted and then closed at once.
                availableConnectionsDelegate: .maximum(
                    configuration.connectionCount + Admission.reserve + 128, logger: logger)),
            onServerRunning: { await onListening($0.localAddress?.port ?? configuration.port) },
            eventLoopGroup: .singletonMultiThreadedEventLoopGroup, logger: logger)
    }

    /// Listens until the service group shuts down.
    ///
    /// - Throws: ``ListenerError`` if the server cannot listen at the address.
    public func run() async throws {
        try await withTaskCancellationHandler {
            do { try await server.run() } catch let error as IOError {
                throw ListenerError("cannot listen: \(String(cString: strerror(error.errnoCode)))")
            } catch let error as SocketAddressError {
                throw ListenerError("cannot listen: \(error)")
            } catch let error as SocketAddressError.UnknownHost {
                throw ListenerError("cannot listen: the host \(error.host) is unknown")
            }
            // `server` only accepts connections. Open connections finish by themselves.
            await door.connections.waitForAll()
            await door.tasks.waitForAll()
        } onCancel: {
            door.tasks.cancelAll()
            door.connections.closeAll()
        }
    }

    private static func tls(_ certificate: ListenerConfiguration.Certificate) throws(ListenerError) -> NIOSSLContext {
        do {
            let chain = try NIOSSLCertificate.fromPEMFile(certificate.chainFile)
            let key = try NIOSSLPrivateKey(file: certificate.keyFile, format: .pem)
            var configuration = TLSConfiguration.makeServerConfiguration(
                certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key))
            configuration.minimumTLSVersion = .tlsv12
            configuration.applicationProtocols = ["h2", "http/1.1"]
            // A client that does not answer close_notify must not delay the shutdown.
            configuration.shutdownTimeout = .seconds(1)
            return try NIOSSLContext(configuration: configuration)
        } catch {
            throw ListenerError("the certificate or its key cannot be used: \(error)")
        }
    }
}

/// The error of a configuration that cannot be used, or of an address that the server cannot listen at.
public struct ListenerError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The reason, in one line.
    public let description: String

    init(_ reason: String) {
        description = reason.split(whereSeparator: \.isNewline).joined(separator: " ")
    }
}
