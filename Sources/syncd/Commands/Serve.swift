import ArgumentParser
import Entitlements
import Foundation
import HTTPTypes
import Logging
import ParseFacade
import SQLiteStorage
import ServiceLifecycle
import SyncAgent
import SyncCore
import SyncServer
import SyncService
import UnixSignals

struct Serve: ConfiguredCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve", abstract: "Serve a store to the devices of all accounts over HTTP.",
        usage: "syncd serve --store <store> [<options>]",
        discussion: """
            When ready, the server prints "listening on URL" to standard output. Its log goes to standard error. On \
            SIGHUP it reads its configuration, catalogue, certificate and keys again; if one is wrong, it goes on with \
            what it has. On SIGTERM or SIGINT it accepts no more connections, finishes running requests, closes an \
            SQLite store so that it is a single file, and exits with 0.

            Examples:
              syncd serve --store sqlite:/var/lib/syncd/store.sqlite --catalog catalog.json
              syncd serve --store sqlite:store.sqlite --listen 0.0.0.0:443 \\
                --tls-certificate chain.pem --tls-key key.pem
            """)

    @Option(help: .setting("store"))
    var store: String?

    @Flag(help: .setting("require-replica"))
    var requireReplica = false

    @OptionGroup var configurationFile: ConfigOptions
    @OptionGroup(title: "Network options") var listening: ListenOptions
    @OptionGroup var service: ServiceOptions
    @OptionGroup(title: "Issuer options") var issuer: IssuerOptions
    @OptionGroup(title: "Evidence options") var evidence: EvidenceOptions
    @OptionGroup(title: PlayAPIOptions.title) var playAPI: PlayAPIOptions
    @OptionGroup(title: "Grant and content options") var grants: GrantOptions
    @OptionGroup(title: "Parse options") var parse: ParseOptions
    @OptionGroup(title: "Limit options") var limits: LimitOptions

    @Option(help: .setting("web"))
    var web: String?

    @Option(help: .setting("password-cost"))
    var passwordCost: String?

    @Option(
        help: ArgumentHelp(
            "The initial time of the server's clock, for tests: RFC 3339, or a plain date.", valueName: "time"))
    var at: String?

    @Option(help: .setting("log-level"))
    var logLevel: String?

    func run() async throws {
        let (settings, serve) = try load()
        guard !limits.isShowing else {
            let limits = try settings.locatingFailures { try serve.limits.limits(serve.listening.configuration()) }
            return try writeOutput(Array(LimitOptions.table(limits).utf8))
        }
        try await serve.serve(settings.locatingFailures { try serve.plan() })
    }

    /// Reads the flags, the environment and the configuration file.
    private func load() throws -> (settings: EffectiveSettings, serve: Serve) {
        let settings = try EffectiveSettings.load(
            .serve, flags: EffectiveSettings.flags(after: .serve), config: configurationFile.config)
        return (settings, try Serve.parse(settings.arguments))
    }

    /// The options as the server needs them. Reading them opens no store.
    private struct Plan: Sendable {
        var host: HostServices
        var limits: ServerLimits
        var logger: Logger
        var refusedTokens: RefusedTokenLog
        var configuration: ServiceConfiguration
        var cryptography: ServerCryptography
        var web: WebFolder?
        var parse: ParseConfiguration?
        var store: StoreURL
    }

    func checkValues() throws { _ = try plan() }

    private func plan() throws -> Plan {
        let limits = try limits.limits(try listening.configuration())
        let host = try makeHost()
        let logger = try makeLogger(logLevel)
        var configuration = try service.configuration(
            limits.listener, hasIssuer: issuer.isGiven, secrets: listening.secrets)
        configuration.callerLimits = limits.callers
        try evidence.apply(to: &configuration, secrets: listening.secrets, logger: logger)
        try playAPI.apply(to: &configuration, package: evidence.playPackage, secrets: listening.secrets)
        try grants.apply(to: &configuration, secrets: listening.secrets, logger: logger)
        let parse = try parse.configuration(catalog: configuration.catalog)
        configuration.hasFacade = parse != nil
        let passwords = try PasswordHashing(cost: PasswordHashing.Cost(logarithm: readPasswordCost()))
        let refusedTokens = RefusedTokenLog { logger.notice("\($0)") }
        let cryptography = ServerCryptography(
            server: configuration.name, passwords: passwords, issuers: try issuer.issuers(of: configuration.name),
            onError: { logger.error("\($0)") }, onRefusal: { refusedTokens.add($0) })
        try checkCertificate(limits.listener, logger)
        return Plan(
            host: host, limits: limits, logger: logger, refusedTokens: refusedTokens, configuration: configuration,
            cryptography: cryptography, web: try openWeb(), parse: parse, store: try storeURL())
    }

    /// Throws if the certificate or its key cannot be used.
    private func checkCertificate(_ configuration: ListenerConfiguration, _ logger: Logger) throws(Failure) {
        guard configuration.certificate != nil else { return }
        // A listener reads both when it is created. This one never listens.
        let handlers = Responder.Handlers { _ in
            ServiceAnswer(HTTPResponse(status: .serviceUnavailable), route: "")
        }
        let metrics = ServerMetrics(PrometheusMetrics())
        _ = try makeListener(
            configuration, Responder(handlers, metrics: metrics, limits: configuration, logger: logger), logger)
    }

    private func serve(_ plan: Plan) async throws {
        let hangups = await UnixSignalsSequence(trapping: .sighup)
        let logger = plan.logger
        if let at { logger.warning("the clock started at \(at.singleLine) because of --at, which is for tests") }
        let store = plan.store.open(
            host: plan.host, cachedByteCount: plan.limits.cachedByteCount, logByteCount: plan.limits.logByteCount)
        let metrics = ServerMetrics(PrometheusMetrics())
        let accessLog = logger.logLevel > .info ? nil : makeAccessLog()
        // Some file descriptors are reserved for the store, the log and operational endpoints.
        let connectionCount = min(plan.limits.listener.connectionCount, max(64, OpenFiles.raiseLimit() - 256))
        @Sendable func makeParts(_ plan: Plan) async throws -> Server.Parts {
            var plan = plan
            plan.limits.listener.connectionCount = min(plan.limits.listener.connectionCount, connectionCount)
            return try await Self.makeParts(plan, store, metrics, accessLog)
        }
        let parts = try await makeParts(plan)
        try await parts.service.checkReadiness()
        if case .found = try await store.read(StoreMirror.mark).outcome {
            throw Failure(
                .refused,
                "\(plan.store.text) is the target of an unfinished copy; "
                    + "run: syncd store copy --finish OLD-URL \(plan.store.text)")
        }
        let notifier = ServiceNotifier.current
        let reload = Server.Reload(on: hangups) {
            notifier.reloading()
            var next = try replacement(of: plan)
            // The time that a wrong clock has left was accepted at the start.
            next.configuration.isClockAccepted = false
            return try await makeParts(next)
        } didEnd: { error in
            if let error {
                logger.error("the configuration was not read again: \(Failure(error))")
            } else {
                logger.info("the configuration was read again")
            }
            notifier.ready()
        }
        let outcome: Result<Void, any Error>
        do {
            try await Server.run(
                parts.service, try makeListener(parts.listener, parts.responder, logger), accessLog: accessLog,
                reload: reload, with: [LifeReport(notifier: notifier)],
                shutdownSeconds: parts.listener.shutdownSeconds, logger: logger)
            outcome = .success(())
        } catch let error as ListenerError {
            outcome = .failure(Failure(.failed, "\(address(parts.listener, parts.listener.port)): \(error)"))
        } catch {
            outcome = .failure(error)
        }
        await close(store, logger)
        try outcome.get()
    }

    /// Reads the configuration again.
    ///
    /// - Throws: ``Failure`` if it is wrong, or if it differs from `plan` in a setting that needs a restart.
    private func replacement(of plan: Plan) throws -> Plan {
        let (settings, serve) = try load()
        let next = try settings.locatingFailures { try serve.plan() }
        let (old, new) = (plan.limits, next.limits)
        let changed: [(String, Bool)] = [
            ("--store", next.store.place != plan.store.place),
            ("--listen", new.listener.host != old.listener.host || new.listener.port != old.listener.port),
            ("--limit connections", new.listener.connectionCount > old.listener.connectionCount),
            ("--limit store-cache", new.cachedByteCount != old.cachedByteCount),
            ("--limit store-log", new.logByteCount != old.logByteCount),
        ]
        guard let name = changed.first(where: \.1)?.0 else { return next }
        throw Failure(.usage, "\(name) has changed: restart the server to apply it")
    }

    private static func makeParts(
        _ plan: Plan, _ store: any KeyValueBackend, _ metrics: ServerMetrics, _ accessLog: AccessLog?
    ) async throws -> Server.Parts {
        let logger = plan.logger
        let service = try await EntitlementService(
            store, configuration: plan.configuration, cryptography: plan.cryptography, host: plan.host,
            onError: { logger.error("\($0)") }, onRefusal: { metrics.note($0) },
            onEvidence: { note in
                metrics.note(note)
                if note.isRefusal { logger.notice("\(note)") }
            }, onRefusedToken: { plan.refusedTokens.add($0) })
        let facade = plan.parse.map { configuration in
            let parse = ParseServer(configuration, service) { logger.notice("\($0)") }
            return Responder.Facade(
                answers: { parse.answers($0) }, respond: { await parse.respond(to: $0) },
                refusalOfLongBody: { parse.refusalOfLongBody() })
        }
        let responder = Responder(
            service, facade: facade, operatorToken: plan.configuration.operatorToken, web: plan.web, metrics: metrics,
            limits: plan.limits.listener, host: plan.host, accessLog: accessLog, logger: logger)
        return Server.Parts(service: service, responder: responder, listener: plan.limits.listener)
    }

    /// Closes an SQLite store so that it is a single file. On an error nothing is lost: the log stays beside it.
    private func close(_ store: any KeyValueBackend, _ logger: Logger) async {
        guard let database = store as? SQLiteBackend else { return }
        do throws(BackendError) { try await database.close() } catch {
            logger.warning("the write-ahead log could not be merged into the store: \(error)")
        }
    }

    private func makeListener(
        _ configuration: ListenerConfiguration, _ responder: Responder, _ logger: Logger
    ) throws(Failure) -> Listener {
        // The framework's messages are only useful for debugging.
        var quiet = logger
        if logger.logLevel > .debug { quiet.logLevel = .error }
        do throws(ListenerError) {
            return try Listener(configuration, responder: responder, logger: quiet) { port in
                do throws(Failure) {
                    try writeOutput(Array("listening on \(address(configuration, port))\n".utf8))
                } catch {
                    logger.warning("\(error.message)")
                }
                ServiceNotifier.current.ready()
            }
        } catch {
            throw Failure(.usage, "\(error)")
        }
    }

    /// The services of this machine, with the clock that `--at` starts.
    private func makeHost() throws(Failure) -> HostServices {
        var host = HostServices.system
        guard let at = try date(at, option: "--at") else { return host }
        let start = ContinuousClock.now
        host.now = { at.milliseconds + Int64((ContinuousClock.now - start) / .milliseconds(1)) }
        return host
    }

    private func storeURL() throws -> StoreURL {
        guard let text = store else {
            throw Failure(.usage, "--store is required: sqlite:FILE, file:DIR or memory: (or set SYNCD_STORE)")
        }
        let url = try StoreURL(text, option: "--store")
        if case .folder = url.place {
            throw Failure(
                .usage,
                "--store: \(text.singleLine) does not support compare-and-swap, which a server needs: use sqlite:FILE")
        }
        guard requireReplica else { return url }
        guard let replicated = url.requiringReplica() else {
            throw Failure(.usage, "--require-replica needs a store on several machines: use postgres://HOST/DATABASE")
        }
        return replicated
    }

    private func openWeb() throws(Failure) -> WebFolder? {
        guard let path = web else { return nil }
        do throws(ListenerError) { return try WebFolder(path: path) } catch { throw Failure(.usage, "--web: \(error)") }
    }

    private func readPasswordCost() throws(Failure) -> Int {
        guard let text = passwordCost else { return 17 }
        guard let cost = Int(text), (10...20).contains(cost) else {
            throw Failure(.usage, "--password-cost must be a number from 10 to 20, not \"\(text.singleLine)\"")
        }
        return cost
    }

    /// The access log, which goes to standard error as well.
    private func makeAccessLog() -> AccessLog {
        AccessLog(label: "syncd") { lines in
            // Standard error may be closed to discard the log.
            try? FileHandle.standardError.write(contentsOf: lines)
        }
    }

    private func address(_ configuration: ListenerConfiguration, _ port: Int) -> String {
        let host = configuration.host.contains(":") ? "[\(configuration.host)]" : configuration.host
        return "\(configuration.certificate == nil ? "http" : "https")://\(host):\(port)"
    }
}

/// Reports to the service manager that the server works, and that it ends.
private struct LifeReport: Service {
    let notifier: ServiceNotifier

    func run() async throws {
        await cancelWhenGracefulShutdown { await notifier.reportLife() }
        notifier.stopping()
    }
}
