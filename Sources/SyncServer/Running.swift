public import Logging
import ServiceLifecycle
public import SyncService
import UnixSignals

/// Runs a service and its listener until the process is told to end.
public enum Server {
    /// Runs `listener`, the background work of `service`, and the log of requests. Returns after SIGTERM or SIGINT,
    /// when everything that was under way has finished, or has been cancelled after `shutdownSeconds`.
    ///
    /// - Throws: ``ListenerError`` when the address cannot be listened at.
    public static func run(
        _ service: EntitlementService, _ listener: Listener, accessLog: AccessLog?, shutdownSeconds: Int64,
        logger: Logger
    ) async throws {
        var quiet = logger
        quiet.logLevel = max(logger.logLevel, .error)
        // Services end in the opposite order: the listener before what it uses.
        var services: [ServiceGroupConfiguration.ServiceConfiguration] = [
            .init(service: Following(service: service)), .init(service: listener),
        ]
        if let accessLog { services.insert(.init(service: AccessLogging(log: accessLog)), at: 0) }
        var configuration = ServiceGroupConfiguration(
            services: services, gracefulShutdownSignals: [.sigterm, .sigint], logger: quiet)
        // Connections end by themselves in that time.
        configuration.maximumGracefulShutdownDuration = .seconds(shutdownSeconds + 1)
        configuration.maximumCancellationDuration = .seconds(5)
        try await ServiceGroup(configuration: configuration).run()
    }
}

/// The background work of the service.
private struct Following: ServiceLifecycle.Service {
    let service: EntitlementService

    func run() async throws {
        await cancelWhenGracefulShutdown {
            await service.run()
            // A service with nothing to follow is no reason to end.
            try? await gracefulShutdown()
        }
    }
}

/// The log of requests, until the last of them is written.
private struct AccessLogging: ServiceLifecycle.Service {
    let log: AccessLog

    func run() async throws {
        await cancelWhenGracefulShutdown { await log.run() }
    }
}
