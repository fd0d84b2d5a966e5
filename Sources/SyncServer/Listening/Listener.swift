import HTTPTypes
import HummingbirdCore
import HummingbirdHTTP2
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

/// Listens, and hands every request to a ``Responder``. Ends gracefully with the group of services that it is in: takes
/// no more connections, ends the streams of events, and finishes what is under way.
public struct Listener: Service {
    private let server: any Service
    private let tasks = ConnectionTasks()
    private let turnstile: Turnstile
    private let writes: WriteTasks

    /// - Parameters:
    ///   - configuration: where, and within which limits.
    ///   - responder: answers the requests.
    ///   - logger: for the server's own affairs.
    ///   - onListening: is called once with the port.
    /// - Throws: ``ListenerError`` for a certificate that cannot be used.
    public init(
        _ configuration: ListenerConfiguration, responder: Responder, logger: Logger,
        onListening: @escaping @Sendable (Int) async -> Void
    ) throws(ListenerError) {
        let serverConfiguration = ServerConfiguration(
            address: .hostname(configuration.host, port: configuration.port), backlog: configuration.backlog,
            // Those of them that are too many are closed at once, and are not yet for a moment.
            availableConnectionsDelegate: .maximum(
                configuration.connectionCount + WorkGate.reserve + 128, logger: logger))
        let answer: HTTPChannelHandler.Responder = { request, writer, channel in
            try await responder.respond(to: request, by: writer, over: channel)
        }
        let onServerRunning: @Sendable (any Channel) async -> Void = { channel in
            await onListening(channel.localAddress?.port ?? configuration.port)
        }
        let gate = responder.gate
        (turnstile, writes) = (responder.turnstile, responder.writes)
        let http1 = Self.http1(configuration, responder)
        let watched = ConnectionWatch.Limits(configuration, gate: gate)
        if let certificate = configuration.certificate {
            let base = try Self.secureChannel(certificate, configuration, http1, answer)
            let channel = WatchedChannel(base, limits: watched, tasks: tasks)
            server = channel.server(
                configuration: serverConfiguration, onServerRunning: onServerRunning,
                eventLoopGroup: .singletonMultiThreadedEventLoopGroup, logger: logger)
        } else {
            let channel = WatchedChannel(
                HTTP1Channel(responder: answer, configuration: http1), limits: watched, tasks: tasks)
            server = channel.server(
                configuration: serverConfiguration, onServerRunning: onServerRunning,
                eventLoopGroup: .singletonMultiThreadedEventLoopGroup, logger: logger)
        }
    }

    /// Listens until the group of services ends.
    ///
    /// - Throws: ``ListenerError`` where nobody can listen.
    public func run() async throws {
        try await withTaskCancellationHandler {
            try await listen()
        } onCancel: {
            writes.cancelAll()
        }
    }

    private func listen() async throws {
        // The server only lets connections in, and ends when nobody is let in any more; those that are there have
        // tasks of their own, which are waited for.
        async let served: Void = tasks.run()
        do {
            defer { turnstile.finish() }
            try await withGracefulShutdownHandler {
                try await server.run()
            } onGracefulShutdown: {
                turnstile.finish()
            }
            tasks.finish()
            await served
            // Those whose connections have ended meanwhile.
            await writes.allEnded()
        } catch let error as IOError {
            throw ListenerError("it cannot listen there: \(String(cString: strerror(error.errnoCode)))")
        } catch let error as SocketAddressError {
            throw ListenerError("it cannot listen there: \(error)")
        } catch let error as SocketAddressError.UnknownHost {
            throw ListenerError("it cannot listen there: no such host is known (\(error.host))")
        }
    }

    private static func http1(
        _ configuration: ListenerConfiguration, _ responder: Responder
    ) -> HTTP1Channel.Configuration {
        // How long a connection is idle its watch knows.
        HTTP1Channel.Configuration(
            additionalChannelHandlers: handlers(configuration, responder),
            httpDecoderConfiguration: HTTP1Channel.Configuration.DecoderConfiguration(
                maxHeaderFieldSize: configuration.headerByteCount, maxHeaderListSize: configuration.headerByteCount,
                maxHeaderFieldCount: configuration.headerFieldCount))
    }

    private static func handlers(
        _ configuration: ListenerConfiguration, _ responder: Responder
    ) -> [any RemovableChannelHandler] {
        let answers = PromptAnswers(responder)
        return [
            WholeRequests(configuration, gate: responder.gate, turnstile: responder.turnstile), answers,
            UnsentAnswers(answers, patience: .seconds(min(configuration.writeSeconds, configuration.shutdownSeconds))),
        ]
    }

    private static func secureChannel(
        _ certificate: ListenerConfiguration.Certificate, _ configuration: ListenerConfiguration,
        _ http1: HTTP1Channel.Configuration, _ answer: @escaping HTTPChannelHandler.Responder
    ) throws(ListenerError) -> HTTP2UpgradeChannel {
        do {
            let chain = try NIOSSLCertificate.fromPEMFile(certificate.chainFile)
            let key = try NIOSSLPrivateKey(file: certificate.keyFile, format: .pem)
            var tls = TLSConfiguration.makeServerConfiguration(
                certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key))
            tls.minimumTLSVersion = .tlsv12
            return try HTTP2UpgradeChannel(
                tlsConfiguration: tls,
                configuration: HTTP2ChannelConfiguration(
                    idleTimeout: .seconds(configuration.idleSeconds),
                    gracefulCloseTimeout: .seconds(configuration.shutdownSeconds), streamConfiguration: http1),
                responder: answer)
        } catch {
            throw ListenerError("the certificate or its key cannot be used: \(error)")
        }
    }
}

/// Nobody can listen as it was asked for.
public struct ListenerError: Error, Hashable, Sendable, CustomStringConvertible {
    /// One line that says what is wrong.
    public let description: String

    init(_ reason: String) {
        description = reason.split(whereSeparator: \.isNewline).joined(separator: " ")
    }
}
