public import Logging
import ServiceLifecycle
public import SyncService
import UnixSignals

/// Runs a service and its listener until the process is told to end.
public enum Server {
    /// Runs `listener`, what the service does beside it, and the log of requests. Returns after SIGTERM or SIGINT, when
    /// everything that was under way is finished, or gave up after `shutdownSeconds`.
    ///
    /// - Throws: the listener's error.
    public static func run(
        _ service: SyncService.Service, _ listener: Listener, accessLog: AccessLog?, shutdownSeconds: Int64,
        logger: Logger
    ) async throws {
        var quiet = logger
        quiet.logLevel = max(logger.logLevel, .error)
        // They end in the opposite order: first nobody is let in any more, then what serves them ends.
        var services: [ServiceGroupConfiguration.ServiceConfiguration] = [
            .init(service: Following(service: service)), .init(service: listener),
        ]
        if let accessLog { services.insert(.init(service: AccessLogging(log: accessLog)), at: 0) }
        var configuration = ServiceGroupConfiguration(
            services: services, gracefulShutdownSignals: [.sigterm, .sigint], logger: quiet)
        configuration.maximumGracefulShutdownDuration = .seconds(shutdownSeconds)
        configuration.maximumCancellationDuration = .seconds(5)
        try await ServiceGroup(configuration: configuration).run()
    }
}

/// What the service does beside its answers.
private struct Following: ServiceLifecycle.Service {
    let service: SyncService.Service

    func run() async throws {
        await cancelWhenGracefulShutdown {
            await service.run()
            // One that has nothing to follow is no reason to end.
            try? await gracefulShutdown()
        }
    }
}

/// The log of requests, until the last of them.
private struct AccessLogging: ServiceLifecycle.Service {
    let log: AccessLog

    func run() async throws {
        await cancelWhenGracefulShutdown { await log.run() }
    }
}
