package import Logging
import ServiceLifecycle
import SyncCore
import SyncServer
import Synchronization

/// Runs an agent with its socket until the process receives a signal.
package struct AgentProcess: Sendable {
    /// The reason why a process ended.
    package enum Outcome: Sendable {
        /// SIGTERM or SIGINT.
        case ended
        /// SIGHUP: the files must be read again.
        case reload
    }

    private let agent: Agent
    private let service: AgentService
    private let location: SocketLocation?
    private let notifier: ServiceNotifier
    private let logger: Logger
    private let onReady: @Sendable () -> Void

    /// - Parameters:
    ///   - location: The socket for local programs; `nil` for none.
    ///   - notifier: Tells the service manager about the state.
    ///   - onReady: Called once local programs can connect.
    package init(
        _ agent: Agent, service: AgentService, location: SocketLocation?, notifier: ServiceNotifier, logger: Logger,
        onReady: @escaping @Sendable () -> Void
    ) {
        (self.agent, self.service, self.location, self.notifier, self.logger) = (
            agent, service, location, notifier, logger
        )
        self.onReady = onReady
    }

    /// Works until a signal arrives.
    ///
    /// - Parameters:
    ///   - wakes: Yields when the remotes may be reachable again.
    ///   - signals: The signals of the process.
    ///   - prepare: Checks the files that a reload would read. If it throws, the process goes on with what it has.
    /// - Throws: ``AgentError`` or `ListenerError` if the socket cannot be used.
    package func run(
        wakingOn wakes: WakeSignals, signals: ProcessSignals, prepare: @escaping @Sendable () async throws -> Void
    ) async throws -> Outcome {
        let outcome = Mutex(Outcome.ended)
        let end = Work { [notifier, logger] in
            let news = signals.subscribe()
            while !signals.isEnding {
                if signals.takeReload() {
                    notifier.reloading()
                    do {
                        try await prepare()
                        return outcome.withLock { $0 = .reload }
                    } catch {
                        logger.error("the files were not read again: \(error)")
                        notifier.ready()
                    }
                }
                var iterator = news.makeAsyncIterator()
                guard !signals.isEnding, await iterator.next() != nil else { break }
            }
            notifier.stopping()
        }
        var services: [ServiceGroupConfiguration.ServiceConfiguration] = [
            .init(service: Work { [agent] in await agent.run(wakingOn: wakes) }),
            .init(service: Work { [notifier] in await notifier.reportLife() }),
            .init(service: end, successTerminationBehavior: .gracefullyShutdownGroup),
        ]
        if let location {
            try location.prepare()
            services.append(.init(service: try listener(at: location)))
        } else {
            notifier.ready()
            onReady()
        }
        var quiet = logger
        quiet.logLevel = max(logger.logLevel, .error)
        var configuration = ServiceGroupConfiguration(services: services, logger: quiet)
        configuration.maximumGracefulShutdownDuration = .seconds(20)
        configuration.maximumCancellationDuration = .seconds(5)
        defer { location?.remove() }
        try await ServiceGroup(configuration: configuration).run()
        return signals.isEnding ? .ended : outcome.withLock { $0 }
    }

    private func listener(at location: SocketLocation) throws -> Listener {
        var limits = ListenerConfiguration()
        limits.socketPath = location.path
        // Far more than the programs of one machine need, and little memory.
        (limits.connectionCount, limits.addressConnectionCount, limits.backlog) = (256, 192, 128)
        (limits.streamCount, limits.addressStreamCount) = (128, 96)
        (limits.requestCount, limits.addressRequestCount) = (64, 48)
        (limits.bodyByteCount, limits.totalBodyByteCount) = (2 << 20, 16 << 20)
        limits.totalAnswerByteCount = 16 << 20
        limits.shutdownSeconds = 10
        let responder = Responder(
            service, metrics: ServerMetrics(), limits: limits, logger: logger)
        var quiet = logger
        if logger.logLevel > .debug { quiet.logLevel = .error }
        return try Listener(limits, responder: responder, logger: quiet) { [notifier, logger, onReady] _ in
            do throws(AgentError) { try location.open() } catch { logger.error("\(error)") }
            notifier.ready()
            onReady()
        }
    }

    /// A part of the process that is cancelled when the process shuts down.
    private struct Work: Service {
        let body: @Sendable () async -> Void

        func run() async throws {
            await cancelWhenGracefulShutdown { await body() }
        }
    }
}
