package import Logging
import ServiceLifecycle
package import SyncService
import UnixSignals

/// Runs a service and its listener until the process receives a termination signal.
package enum Server {
    /// Runs `listener`, the background work of `service`, and the access log.
    ///
    /// Returns after SIGTERM or SIGINT, when all requests in flight have finished or were cancelled after
    /// `shutdownSeconds`.
    ///
    /// - Throws: ``ListenerError`` if the server cannot listen at the address.
    package static func run(
        _ service: EntitlementService, _ listener: Listener, accessLog: AccessLog?, shutdownSeconds: Int64,
        logger: Logger
    ) async throws {
        var quiet = logger
        quiet.logLevel = max(logger.logLevel, .error)
        // Services shut down in reverse order: the listener before the services that it uses.
        var services: [ServiceGroupConfiguration.ServiceConfiguration] = [
            .init(service: BackgroundWork(service: service)), .init(service: listener),
        ]
        if let accessLog { services.insert(.init(service: AccessLogWriter(log: accessLog)), at: 0) }
        var configuration = ServiceGroupConfiguration(
            services: services, gracefulShutdownSignals: [.sigterm, .sigint], logger: quiet)
        // The connections enforce `shutdownSeconds` themselves; one second more lets them finish.
        configuration.maximumGracefulShutdownDuration = .seconds(shutdownSeconds + 1)
        configuration.maximumCancellationDuration = .seconds(5)
        try await ServiceGroup(configuration: configuration).run()
    }
}

/// Runs the background work of the service.
private struct BackgroundWork: ServiceLifecycle.Service {
    let service: EntitlementService

    func run() async throws {
        await cancelWhenGracefulShutdown {
            await service.run()
            // A return ends the service group, so this waits even if the service has no background work.
            try? await gracefulShutdown()
        }
    }
}

/// Writes the access log until shutdown, including its last lines.
private struct AccessLogWriter: ServiceLifecycle.Service {
    let log: AccessLog

    func run() async throws {
        await cancelWhenGracefulShutdown { await log.run() }
    }
}
