#if TLS
import NIOCore
import NIOPosix
import NIOSSL
import SyncService

/// The ends of validity of a chain of TLS certificates, for checks by an operator. Nothing is verified.
package struct CertificateChain: Sendable {
    /// The end of each certificate's validity, in seconds since 1970 UTC. The server's own certificate is the first.
    package let ends: [Int64]

    private init(_ certificates: [NIOSSLCertificate]) { ends = certificates.map { Int64($0.notValidAfter) } }

    /// Reads the chain in a PEM file.
    package init(file path: String) throws(ListenerError) {
        self.init(try CertificateFiles.chain(in: path))
    }

    /// Returns the chain that the server at `host` and `port` presents, trusted or not.
    ///
    /// - Parameter limit: the time limit for the connection and the handshake together.
    package static func presented(
        by host: String, port: Int, within limit: Duration
    ) async throws(ListenerError) -> CertificateChain {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let chain = loop.makePromise(of: [NIOSSLCertificate].self)
        let nanoseconds = Int64(limit / .nanoseconds(1))
        let end = loop.scheduleTask(in: .nanoseconds(nanoseconds)) {
            chain.fail(ListenerError("no TLS handshake within \(limit)"))
        }
        defer { end.cancel() }
        do {
            let context = try NIOSSLContext(configuration: .makeClientConfiguration())
            let connection = ClientBootstrap(group: loop)
                .connectTimeout(.nanoseconds(nanoseconds))
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        // TLS does not allow an IP address as a server name.
                        let handler = try NIOSSLClientHandler(
                            context: context, serverHostname: ClientAddress(host) == nil ? host : nil,
                            customVerificationCallback: { certificates, verdict in
                                chain.succeed(certificates)
                                // No request follows, so the connection ends here.
                                verdict.succeed(.failed)
                            })
                        try channel.pipeline.syncOperations.addHandlers(handler, HandshakeEnd(chain))
                    }
                }
                .connect(host: host, port: port)
            connection.whenFailure { chain.fail($0) }
            let certificates = try await chain.futureResult.get()
            connection.whenSuccess { $0.close(promise: nil) }
            return CertificateChain(certificates)
        } catch let error as ListenerError {
            throw error
        } catch {
            throw ListenerError("no TLS handshake with \(host):\(port): \(error)")
        }
    }

    /// Reports a handshake that ended without a certificate.
    private final class HandshakeEnd: ChannelInboundHandler {
        typealias InboundIn = NIOAny

        private let chain: EventLoopPromise<[NIOSSLCertificate]>

        init(_ chain: EventLoopPromise<[NIOSSLCertificate]>) { self.chain = chain }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            chain.fail(ListenerError("the TLS handshake failed: \(error)"))
            context.close(promise: nil)
        }

        func channelInactive(context: ChannelHandlerContext) {
            chain.fail(ListenerError("the server closed the connection before it sent a certificate"))
        }
    }
}
#else
/// The ends of validity of a chain of TLS certificates. Without the trait TLS it cannot be read.
package struct CertificateChain: Sendable {
    package let ends: [Int64]

    package init(file path: String) throws(ListenerError) { throw .withoutTLS }

    package static func presented(
        by host: String, port: Int, within limit: Duration
    ) async throws(ListenerError) -> CertificateChain {
        throw .withoutTLS
    }
}
#endif
