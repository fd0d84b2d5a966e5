import HummingbirdCore
package import Logging
import NIOCore
import NIOPosix
import NIOSSL
import ServiceLifecycle
import Synchronization

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

    private static func context(
        _ configuration: ListenerConfiguration, _ responder: Responder
    ) throws(ListenerError) -> ListenerContext {
        ListenerContext(responder, tls: try configuration.certificate.map(tls))
    }

    private static func tls(_ certificate: ListenerConfiguration.Certificate) throws(ListenerError) -> NIOSSLContext {
        let (chain, key) = (try chain(in: certificate.chainFile), try privateKey(in: certificate.keyFile))
        do {
            var configuration = TLSConfiguration.makeServerConfiguration(
                certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key))
            configuration.minimumTLSVersion = .tlsv12
            configuration.applicationProtocols = ["h2", "http/1.1"]
            // A client that does not answer close_notify must not delay the shutdown.
            configuration.shutdownTimeout = .seconds(1)
            return try NIOSSLContext(configuration: configuration)
        } catch NIOSSLError.failedToLoadPrivateKey {
            throw ListenerError(
                "the TLS key \(certificate.keyFile) does not belong to the certificate \(certificate.chainFile)")
        } catch {
            throw ListenerError("the TLS certificate \(certificate.chainFile) cannot be used: \(error)")
        }
    }

    static func chain(in path: String) throws(ListenerError) -> [NIOSSLCertificate] {
        let bytes = try contents(of: path, "certificate")
        if let chain = try? NIOSSLCertificate.fromPEMBytes(bytes), !chain.isEmpty { return chain }
        throw ListenerError("the TLS certificate \(path) holds no certificate in PEM form")
    }

    private static func privateKey(in path: String) throws(ListenerError) -> NIOSSLPrivateKey {
        let bytes = try contents(of: path, "key")
        if let key = try? NIOSSLPrivateKey(bytes: bytes, format: .pem) { return key }
        throw ListenerError("the TLS key \(path) holds no unencrypted private key in PEM form")
    }

    /// Reads at most 1 MiB, many times the size of a certificate chain.
    private static func contents(of path: String, _ name: String) throws(ListenerError) -> [UInt8] {
        guard let file = fopen(path, "re") else { throw unreadable(path, name) }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 1 << 20)
        let count = fread(&bytes, 1, bytes.count, file)
        guard ferror(file) == 0 else { throw unreadable(path, name) }
        return Array(bytes.prefix(count))
    }

    private static func unreadable(_ path: String, _ name: String) -> ListenerError {
        ListenerError("the TLS \(name) \(path) cannot be read: \(String(cString: strerror(errno)))")
    }
}

/// The error of a configuration that cannot be used, or of an address that the server cannot listen at.
package struct ListenerError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The reason, in one line.
    package let description: String

    init(_ reason: String) {
        description = reason.split(whereSeparator: \.isNewline).joined(separator: " ")
    }
}
