#if TLS
import NIOCore
import NIOHTTP2
import NIOHTTPTypesHTTP2
import NIOSSL

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

typealias TLSContext = NIOSSLContext

extension ConnectionSetup {
    func setUpTLS(_ channel: any Channel, _ tls: NIOSSLContext, _ peer: Peer) throws {
        let operations = channel.pipeline.syncOperations
        try operations.addHandler(NIOSSLServerHandler(context: tls))
        let handler = SecureConnectionHandler(door)
        try operations.addHandler(handler)
        let bound = NIOLoopBound(handler, eventLoop: channel.eventLoop)
        let upgrade = channel.configureHTTP2SecureUpgrade { channel in
            channel.eventLoop.makeCompletedFuture { try setUpHTTP2(channel, bound.value, peer) }
        } http1ChannelConfigurator: { channel in
            bound.value.becomeHTTP1()
            return channel.eventLoop.makeCompletedFuture { try setUpHTTP1(channel, peer) }
        }
        upgrade.whenFailure { _ in channel.close(promise: nil) }
    }

    private func setUpHTTP2(_ channel: any Channel, _ connection: SecureConnectionHandler, _ peer: Peer) throws {
        let operations = channel.pipeline.syncOperations
        let manager = NIOHTTP2ServerConnectionManagementHandler(
            eventLoop: channel.eventLoop,
            configuration: .init(maxIdleTime: nil, maxAge: nil, maxGraceTime: nil, keepalive: nil))
        var streams = NIOHTTP2Handler.StreamConfiguration()
        // A reset stream keeps its admission slot until its work is done, so resets cannot start more work
        // (CVE-2023-44487).
        streams.streamResetFrameRateLimit.maximumCount = 100_000
        let bound = NIOLoopBound(connection, eventLoop: channel.eventLoop)
        let door = door
        _ = try operations.configureHTTP2Pipeline(
            mode: .server, connectionConfiguration: .init(), streamConfiguration: streams,
            streamDelegate: manager.http2StreamDelegate
        ) { stream in
            stream.eventLoop.makeCompletedFuture {
                let handler = ConnectionHandler(door, peer: peer, isStream: true)
                try stream.pipeline.syncOperations.addHandler(HTTP2FramePayloadToHTTPServerCodec())
                try stream.pipeline.syncOperations.addHandler(handler)
                bound.value.add(handler, on: stream)
            }
        }
        try operations.addHandler(manager)
        connection.becomeHTTP2()
    }
}

/// Reads certificates and keys.
enum CertificateFiles {
    static func context(_ certificate: ListenerConfiguration.Certificate) throws(ListenerError) -> NIOSSLContext {
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
        throw ListenerError("the TLS key \(path) holds no unencrypted private key in PEM form", isOfKey: true)
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
        ListenerError(
            "the TLS \(name) \(path) cannot be read: \(String(cString: strerror(errno)))", isOfKey: name == "key")
    }
}
#else
import NIOCore

/// Without the trait TLS there is no context.
typealias TLSContext = Never

extension ConnectionSetup {
    func setUpTLS(_ channel: any Channel, _ tls: TLSContext, _ peer: Peer) throws {}
}

enum CertificateFiles {
    static func context(_ certificate: ListenerConfiguration.Certificate) throws(ListenerError) -> TLSContext {
        throw .withoutTLS
    }
}

extension ListenerError {
    static let withoutTLS = ListenerError(
        "this syncd was built without TLS: build it with the package's default traits, or put a proxy in front of it")
}
#endif
