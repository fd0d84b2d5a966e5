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

/// Listens, and answers every request by a ``Responder``.
///
/// It ends gracefully with its group of services: it accepts no more connections, ends streams of events, and finishes
/// the requests that are under way.
public struct Listener: Service {
    private let server: any Service
    private let door: FrontDoor

    /// - Parameters:
    ///   - configuration: the address and the limits.
    ///   - responder: answers the requests.
    ///   - logger: gets the framework's messages.
    ///   - onListening: is called once with the port.
    /// - Throws: ``ListenerError`` for a certificate or key that cannot be used.
    public init(
        _ configuration: ListenerConfiguration, responder: Responder, logger: Logger,
        onListening: @escaping @Sendable (Int) async -> Void
    ) throws(ListenerError) {
        door = FrontDoor(responder)
        let channel = ConnectionChannel(door: door, tls: try configuration.certificate.map(Self.tls))
        server = channel.server(
            configuration: ServerConfiguration(
                address: .hostname(configuration.host, port: configuration.port), backlog: configuration.backlog,
                // A connection beyond the limit is accepted for a moment, to be closed at once.
                availableConnectionsDelegate: .maximum(
                    configuration.connectionCount + Admission.reserve + 128, logger: logger)),
            onServerRunning: { await onListening($0.localAddress?.port ?? configuration.port) },
            eventLoopGroup: .singletonMultiThreadedEventLoopGroup, logger: logger)
    }

    /// Listens until the group of services ends.
    ///
    /// - Throws: ``ListenerError`` when the address cannot be listened at.
    public func run() async throws {
        try await withTaskCancellationHandler {
            do { try await server.run() } catch let error as IOError {
                throw ListenerError("cannot listen: \(String(cString: strerror(error.errnoCode)))")
            } catch let error as SocketAddressError {
                throw ListenerError("cannot listen: \(error)")
            } catch let error as SocketAddressError.UnknownHost {
                throw ListenerError("cannot listen: the host \(error.host) is unknown")
            }
            // The server only accepts connections. Those that are open end by themselves.
            await door.connections.waitForAll()
            await door.tasks.waitForAll()
        } onCancel: {
            door.tasks.cancelAll()
            door.connections.closeAll()
        }
    }

    private static func tls(_ certificate: ListenerConfiguration.Certificate) throws(ListenerError) -> NIOSSLContext {
        let (chain, key) = (try chain(in: certificate.chainFile), try privateKey(in: certificate.keyFile))
        do {
            var configuration = TLSConfiguration.makeServerConfiguration(
                certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key))
            configuration.minimumTLSVersion = .tlsv12
            configuration.applicationProtocols = ["h2", "http/1.1"]
            // A client that does not answer a close must not keep a server from ending.
            configuration.shutdownTimeout = .seconds(1)
            return try NIOSSLContext(configuration: configuration)
        } catch NIOSSLError.failedToLoadPrivateKey {
            throw ListenerError(
                "the TLS key \(certificate.keyFile) does not belong to the certificate \(certificate.chainFile)")
        } catch {
            throw ListenerError("the TLS certificate \(certificate.chainFile) cannot be used: \(error)")
        }
    }

    private static func chain(in path: String) throws(ListenerError) -> [NIOSSLCertificate] {
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

/// A listener that cannot do what it was configured for.
public struct ListenerError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The reason, in one line.
    public let description: String

    init(_ reason: String) {
        description = reason.split(whereSeparator: \.isNewline).joined(separator: " ")
    }
}
