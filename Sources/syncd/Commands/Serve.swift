import ArgumentParser
import Entitlements
import Foundation
import HTTPTypes
import Logging
import SQLiteStorage
import ServiceLifecycle
import SyncAgent
import SyncCore
import SyncServer
import SyncService
import UnixSignals

#if Parse
import ParseFacade
#endif

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

    @Option(help: .setting("store")) var store: String?
    @Flag(help: .setting("require-replica")) var requireReplica = false

    @OptionGroup var configurationFile: ConfigOptions
    @OptionGroup(title: "Network options") var listening: ListenOptions
    @OptionGroup var service: ServiceOptions
    @OptionGroup(title: "Issuer options") var issuer: IssuerOptions
    @OptionGroup(title: "Evidence options") var evidence: EvidenceOptions
    @OptionGroup(title: PlayAPIOptions.title) var playAPI: PlayAPIOptions
    @OptionGroup(title: "Grant and content options") var grants: GrantOptions
    @OptionGroup(title: "Parse options") var parse: ParseOptions
    @OptionGroup(title: "Limit options") var limits: LimitOptions

    @Option(help: .setting("web")) var web: String?
    @Flag(help: .setting("projection")) var projection = false
    @Flag(help: .setting("console")) var console = false
    @Option(help: .setting("webhooks")) var webhooks: String?
    @Option(help: .setting("password-cost")) var passwordCost: String?

    @Option(
        help: ArgumentHelp(
            "The initial time of the server's clock, for tests: RFC 3339, or a plain date.", valueName: "time"))
    var at: String?

    @Option(help: .setting("log-level")) var logLevel: String?

    func run() async throws {
        guard !limits.isShowing else {
            let limits = try load().locatingFailures { try $0.limits.limits($0.listening.configuration()) }
            return try writeOutput(LimitOptions.table(limits).utf8)
        }
        try await serve(load().locatingFailures { try $0.plan() })
    }

    /// Reads the environment and the configuration file.
    private func load() throws(Failure) -> EffectiveSettings<Serve> {
        try EffectiveSettings(self, file: ConfigurationFile.findValid(configurationFile.config))
    }

    /// The options as the server needs them. Reading them opens no store.
    private struct Plan: Sendable {
        var host: HostServices
        var limits: ServerLimits
        var logger: Logger
        var refusedTokens: RefusedTokenLog
        var configuration: ServiceConfiguration
        var passwords: PasswordHashing
        var issuers: [IssuerVerifier]
        var web: WebFolder?
        var parse: ParseConfiguration?
        var store: StoreURL
        var hasProjection: Bool
        var hasConsole: Bool
        /// `nil` without `--webhooks`.
        var webhooks: [WebhookEndpoint]?
    }

    func checkValues() throws { _ = try plan() }

    static let section = Setting.Command.serve

    static var properties: [String: SettingProperty<Serve>] {
        [
            "store": .text(\.store), "require-replica": .flag(\.requireReplica), "listen": .text(\.listening.listen),
            "tls-certificate": .text(\.listening.tlsCertificate), "tls-key": .text(\.listening.tlsKey),
            "insecure-http": .flag(\.listening.insecureHTTP), "name": .text(\.service.name),
            "origin": .list(\.service.origins), "web": .text(\.web), "projection": .flag(\.projection),
            "console": .flag(\.console), "webhooks": .text(\.webhooks),
            "log-level": .text(\.logLevel),
            "operator-token-file": .text(\.service.operatorTokenFile),
            "allow-open-secrets": .flag(\.listening.secrets.allowOpenSecrets), "no-sign-up": .flag(\.service.noSignUp),
            "sign-up": .flag(\.service.signUp), "ownership": .text(\.service.ownership),
            "password-cost": .text(\.passwordCost), "issuer": .text(\.issuer.issuer),
            "audience": .text(\.issuer.audience), "jwks": .text(\.issuer.jwks),
            "catalog": .text(\.service.catalog.file), "environment": .text(\.service.catalog.environment),
            "expiry": .text(\.service.catalog.expiry), "flags": .text(\.service.catalog.flags),
            "duration": .list(\.service.catalog.supplement.durations),
            "group-of": .list(\.service.catalog.supplement.groups),
            "units": .list(\.service.catalog.supplement.units), "policy": .text(\.evidence.policy),
            "app-store-bundle": .list(\.evidence.appStoreBundles),
            "app-store-app-id": .text(\.evidence.trust.appStoreAppID),
            "evidence-root": .text(\.evidence.trust.evidenceRoot), "play-package": .text(\.evidence.playPackage),
            "play-key": .text(\.evidence.playKey), "play-push-audience": .text(\.evidence.playPushAudience),
            "play-push-account": .text(\.evidence.playPushAccount),
            "play-service-account": .text(\.playAPI.playServiceAccount), "play-api": .text(\.playAPI.playAPI),
            "stripe-secret-file": .text(\.evidence.stripeSecretFile), "stripe-price": .list(\.evidence.stripePrices),
            "root-key": .text(\.grants.rootKey), "grant-days": .text(\.grants.grantDays),
            "content-environment": .text(\.grants.contentEnvironment), "parse": .text(\.parse.applicationID),
            "parse-path": .text(\.parse.path), "parse-field": .list(\.parse.fields),
            "parse-classes": .list(\.parse.classes), "limit": .list(\.limits.settings),
            "trusted-proxy": .list(\.limits.proxies),
        ]
    }

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
        #if Parse
        if parse != nil { configuration.facade = configuration.catalog.map(FacadeRule.derivedPurchases) }
        #endif
        let cost = try Setting.number(passwordCost, of: "password-cost") ?? 17
        let passwords = PasswordHashing(cost: PasswordHashing.Cost(logarithm: Int(cost)))
        let refusedTokens = RefusedTokenLog { logger.notice("\($0)") }
        let issuers = try issuer.issuers(of: configuration.name).map { issuer in
            IssuerVerifier(issuer) { logger.error("\($0)") }
        }
        if let certificate = limits.listener.certificate {
            do throws(ListenerError) { try Listener.check(certificate) } catch {
                throw Failure(.usage, "\(error)", of: [error.isOfKey ? "tls-key" : "tls-certificate"])
            }
        }
        if console, !projection { throw Failure.needs("console", "projection") }
        if webhooks != nil, !projection { throw Failure.needs("webhooks", "projection") }
        return Plan(
            host: host, limits: limits, logger: logger, refusedTokens: refusedTokens, configuration: configuration,
            passwords: passwords, issuers: issuers,
            web: try web.map { path in try reading("web") { try WebFolder(path: path) } }, parse: parse,
            store: try reading("store") { try storeURL() }, hasProjection: projection,
            hasConsole: console,
            webhooks: try webhooks.map { path in
                try listening.secrets.check(path, of: "webhooks")
                return try reading("webhooks") { try readDocument(path, WebhookEndpoint.list) }
            })
    }

    private func serve(_ plan: Plan) async throws {
        let hangups = await UnixSignalsSequence(trapping: .sighup)
        let logger = plan.logger
        if let at { logger.warning("the clock started at \(at.singleLine) because of --at, which is for tests") }
        let store = plan.store.open(
            host: plan.host, cachedByteCount: plan.limits.cachedByteCount, logByteCount: plan.limits.logByteCount)
        let projection = try Self.makeProjection(plan, store)
        let metrics = ServerMetrics()
        // The access log goes to standard error as well, which may be closed to discard it.
        let accessLog =
            logger.logLevel > .info
            ? nil : AccessLog(label: "syncd") { try? FileHandle.standardError.write(contentsOf: $0) }
        // Some file descriptors are reserved for the store, the log and operational endpoints.
        let connectionCount = min(plan.limits.listener.connectionCount, max(64, OpenFiles.raiseLimit() - 256))
        @Sendable func makeParts(_ plan: Plan) async throws -> Server.Parts {
            var plan = plan
            plan.limits.listener.connectionCount = min(plan.limits.listener.connectionCount, connectionCount)
            return try await Self.makeParts(plan, store, projection, metrics, accessLog)
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
                reload: reload,
                with: [LifeReport(notifier: notifier)] + (projection.map { [$0] } ?? []),
                shutdownSeconds: parts.listener.shutdownSeconds, logger: logger)
            outcome = .success(())
        } catch let error as ListenerError {
            outcome = .failure(Failure(.failed, "\(parts.listener.url(port: parts.listener.port)): \(error)"))
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
        let next = try load().locatingFailures { try $0.plan() }
        let (old, new) = (plan.limits, next.limits)
        let changed: [(String, Bool)] = [
            ("--store", next.store.place != plan.store.place),
            ("--listen", new.listener.host != old.listener.host || new.listener.port != old.listener.port),
            ("--projection", next.hasProjection != plan.hasProjection),
            ("--limit connections", new.listener.connectionCount > old.listener.connectionCount),
            ("--limit store-cache", new.cachedByteCount != old.cachedByteCount),
            ("--limit store-log", new.logByteCount != old.logByteCount),
        ]
        guard let name = changed.first(where: \.1)?.0 else { return next }
        throw Failure(.usage, "\(name) has changed: restart the server to apply it")
    }

    private static func makeParts(
        _ plan: Plan, _ store: any KeyValueBackend, _ projection: ProjectionWork?, _ metrics: ServerMetrics,
        _ accessLog: AccessLog?
    ) async throws -> Server.Parts {
        let logger = plan.logger
        let service = try await EntitlementService(
            store, configuration: plan.configuration, passwords: plan.passwords, issuers: plan.issuers,
            host: plan.host, projector: projection?.projector, webhooks: projection?.webhooks,
            onError: { logger.error("\($0)") }, onRefusal: { metrics.count($0) },
            onEvidence: { note in
                metrics.count(note)
                if note.isNotable { logger.notice("\(note)") }
            }, onRefusedToken: { plan.refusedTokens.add($0) })
        if let projection, let catalog = plan.configuration.catalog {
            projection.projector.use(catalog, json: plan.configuration.catalogJSON)
            projection.webhooks.use(plan.webhooks)
        }
        #if Parse
        let facade = plan.parse.map { configuration in
            ParseServer(configuration, service) { logger.notice("\($0)") }
        }
        #else
        let facade: (any RequestHandler)? = nil
        #endif
        let responder = Responder(
            service, facade: facade, operatorToken: plan.configuration.operatorToken, web: plan.web,
            hasConsole: plan.hasConsole, metrics: metrics, limits: plan.limits.listener, host: plan.host,
            accessLog: accessLog, logger: logger)
        return Server.Parts(service: service, responder: responder, listener: plan.limits.listener)
    }

    private static func makeProjection(_ plan: Plan, _ store: any KeyValueBackend) throws -> ProjectionWork? {
        guard plan.hasProjection else { return nil }
        guard let catalog = plan.configuration.catalog else { throw Failure.needs("projection", "catalog") }
        let database = try plan.store.openProjection(option: "--projection")
        let logger = plan.logger
        let projector = Projector(
            store, into: database, catalog: catalog, json: plan.configuration.catalogJSON, host: plan.host,
            onError: { logger.error("the projection: \($0)") })
        let webhooks = WebhookSender(
            projector, database, endpoints: plan.webhooks, host: plan.host, transport: try WebhookClients.make(),
            onError: { logger.error("the webhooks: \($0)") }, onNote: { logger.notice("\($0)") })
        return ProjectionWork(projector: projector, webhooks: webhooks)
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
                    try writeOutput("listening on \(configuration.url(port: port))\n".utf8)
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
        if case .local(.folder, _) = url.place {
            throw Failure(
                .usage,
                "--store: \(text.singleLine) does not support compare-and-swap, which a server needs: use sqlite:FILE")
        }
        guard requireReplica else { return url }
        guard let replicated = url.requiringReplica() else {
            throw Failure(
                .usage, "--require-replica needs a store on several machines: use postgres://HOST/DATABASE",
                of: ["require-replica", "store"])
        }
        return replicated
    }
}

/// Projects and delivers events until shutdown.
private struct ProjectionWork: Service {
    let projector: Projector
    let webhooks: WebhookSender

    func run() async throws {
        await cancelWhenGracefulShutdown {
            async let projecting: Void = projector.run()
            await webhooks.run()
            await projecting
        }
        await projector.release()
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
