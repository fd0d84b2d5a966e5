import Foundation
import HTTPTypes
import Logging
import ServiceLifecycle
import SyncCore
import SyncServer
import SyncService

/// A listener in this process with any limits and handler.
enum LocalListener {
    /// Runs `body` with the port of a running listener, then shuts the listener down gracefully. `body` runs on a
    /// thread of its own and may block. The shutdown starts earlier if `ending` yields.
    static func run<Result: Sendable>(
        _ configuration: ListenerConfiguration, respond: @escaping @Sendable (ServiceRequest) async -> ServiceResponse,
        fastRead: @escaping @Sendable (HTTPRequest, _ longest: Int) -> ServiceResponse? = { _, _ in nil },
        metrics: ServerMetrics = ServerMetrics(), ending: AsyncStream<Void>? = nil,
        _ body: @escaping @Sendable (_ port: Int) throws -> Result
    ) async throws -> Result {
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let responder = Responder(
            ScriptedHandler(response: respond, fast: fastRead), metrics: metrics, limits: configuration, logger: logger)
        let (ports, portContinuation) = AsyncStream.makeStream(of: Int.self)
        let listener = try Listener(configuration, responder: responder, logger: logger) {
            portContinuation.yield($0)
        }
        var groupConfiguration = ServiceGroupConfiguration(services: [listener], logger: logger)
        groupConfiguration.maximumGracefulShutdownDuration = .seconds(configuration.shutdownSeconds)
        // As in the real server, which terminates the process after that.
        groupConfiguration.maximumCancellationDuration = .seconds(60)
        let group = ServiceGroup(configuration: groupConfiguration)
        async let ended: Void = group.run()
        var iterator = ports.makeAsyncIterator()
        guard let port = await iterator.next() else { throw CancellationError() }
        async let result = blocking { try body(port) }
        if let ending {
            for await _ in ending { await group.triggerGracefulShutdown() }
        }
        let outcome: Swift.Result<Result, any Error>
        do { outcome = .success(try await result) } catch { outcome = .failure(error) }
        await group.triggerGracefulShutdown()
        try await ended
        return try outcome.get()
    }

    /// Runs `body` on a thread of its own, so that it may block.
    static func blocking<Result: Sendable>(_ body: @escaping @Sendable () throws -> Result) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread { continuation.resume(with: Swift.Result { try body() }) }
        }
    }
}

/// A handler of requests in a test.
struct ScriptedHandler: RequestHandler {
    var response: @Sendable (ServiceRequest) async -> ServiceResponse
    var fast: @Sendable (HTTPRequest, _ longest: Int) -> ServiceResponse? = { _, _ in nil }

    func respond(to request: ServiceRequest) async -> ServiceResponse { await response(request) }

    func fastRead(_ request: HTTPRequest, peer: String, longest: Int) -> ServiceResponse? { fast(request, longest) }
}
