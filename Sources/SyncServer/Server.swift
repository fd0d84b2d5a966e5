package import Logging
package import ServiceLifecycle
package import SyncService
package import UnixSignals

/// Runs a service and its listener until the process receives a termination signal.
package enum Server {
    /// A configured service and the answers to its requests.
    package struct Parts: Sendable {
        package var service: EntitlementService
        package var responder: Responder
        package var listener: ListenerConfiguration

        package init(service: EntitlementService, responder: Responder, listener: ListenerConfiguration) {
            (self.service, self.responder, self.listener) = (service, responder, listener)
        }
    }

    /// The reaction to SIGHUP.
    package struct Reload: Sendable {
        /// Yields for each SIGHUP.
        let signals: UnixSignalsSequence
        /// Reads the configuration again.
        let prepare: @Sendable () async throws -> Parts
        /// Called with the error after which everything stays as it was; `nil` if the new parts serve.
        let didEnd: @Sendable ((any Error)?) -> Void

        package init(
            on signals: UnixSignalsSequence, prepare: @escaping @Sendable () async throws -> Parts,
            didEnd: @escaping @Sendable ((any Error)?) -> Void
        ) {
            (self.signals, self.prepare, self.didEnd) = (signals, prepare, didEnd)
        }
    }

    /// Runs `listener`, the background work of `service`, the access log and further services.
    ///
    /// Returns after SIGTERM or SIGINT, when all requests in flight have finished or were cancelled after
    /// `shutdownSeconds`.
    ///
    /// - Throws: ``ListenerError`` if the server cannot listen at the address.
    package static func run(
        _ service: EntitlementService, _ listener: Listener, accessLog: AccessLog?, reload: Reload,
        with others: [any ServiceLifecycle.Service], shutdownSeconds: Int64, logger: Logger
    ) async throws {
        var quiet = logger
        quiet.logLevel = max(logger.logLevel, .error)
        // Services shut down in reverse order: the listener before the services that it uses.
        let work = BackgroundWork(service: service, listener: listener, reload: reload)
        var services: [ServiceGroupConfiguration.ServiceConfiguration] = [
            .init(service: work), .init(service: listener),
        ]
        if let accessLog { services.insert(.init(service: AccessLogWriter(log: accessLog)), at: 0) }
        services += others.map { .init(service: $0) }
        var configuration = ServiceGroupConfiguration(
            services: services, gracefulShutdownSignals: [.sigterm, .sigint], logger: quiet)
        // The connections enforce `shutdownSeconds` themselves; one second more lets them finish.
        configuration.maximumGracefulShutdownDuration = .seconds(shutdownSeconds + 1)
        configuration.maximumCancellationDuration = .seconds(5)
        try await ServiceGroup(configuration: configuration).run()
    }
}

/// Runs the background work of the service and, after SIGHUP, of the service that replaces it.
private struct BackgroundWork: ServiceLifecycle.Service {
    let service: EntitlementService
    let listener: Listener
    let reload: Server.Reload

    func run() async throws {
        await cancelWhenGracefulShutdown {
            await withDiscardingTaskGroup { group in
                var end = start(service, in: &group)
                for await _ in reload.signals {
                    do {
                        let parts = try await reload.prepare()
                        let waitForFormer = try listener.replace(parts.listener, responder: parts.responder)
                        let former = end
                        end = start(parts.service, in: &group)
                        reload.didEnd(nil)
                        // The former service follows the store until its last request is answered.
                        await waitForFormer()
                        former.finish()
                    } catch {
                        reload.didEnd(error)
                    }
                }
                group.cancelAll()
            }
        }
    }

    /// Starts the background work of `service`. Finishing the returned stream ends it.
    private func start(
        _ service: EntitlementService, in group: inout DiscardingTaskGroup
    ) -> AsyncStream<Void>.Continuation {
        let (stream, end) = AsyncStream<Void>.makeStream()
        group.addTask {
            await withDiscardingTaskGroup { work in
                work.addTask { await service.run() }
                for await _ in stream {}
                work.cancelAll()
            }
        }
        return end
    }
}

/// Writes the access log until shutdown, including its last lines.
private struct AccessLogWriter: ServiceLifecycle.Service {
    let log: AccessLog

    func run() async throws {
        await cancelWhenGracefulShutdown { await log.run() }
    }
}
