import ArgumentParser
import Entitlements
import Foundation
import Logging
import SQLiteStorage
import SyncCore
import SyncServer
import SyncService

struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve", abstract: "Serve a store to all devices of all accounts, over HTTP.",
        discussion: """
            When it is ready, standard output gets one line, "listening on URL"; all else goes to standard error. \
            SIGTERM and SIGINT end it: it accepts no more requests, finishes those that are running, leaves an SQLite \
            store as one file, and exits with 0.

            Examples:
              syncd serve --store sqlite:/var/lib/syncd/store.sqlite --catalog catalog.json
              syncd serve --store sqlite:store.sqlite --listen 0.0.0.0:443 --name https://sync.example.com \
            --tls-certificate chain.pem --tls-key key.pem
            """)

    @Option(help: ArgumentHelp("The store: sqlite:FILE, file:DIR or memory: (SYNCD_STORE).", valueName: "url"))
    var store: String?

    @OptionGroup(title: "Network options") var listening: ListenOptions
    @OptionGroup var service: ServiceOptions
    @OptionGroup(title: "Issuer options") var issuer: IssuerOptions
    @OptionGroup(title: "Limit options") var limits: LimitOptions

    @Option(help: ArgumentHelp("A folder with a web page to serve at / (SYNCD_WEB).", valueName: "dir"))
    var web: String?

    @Option(
        help: ArgumentHelp(
            "What hashing a password costs: 2^N rounds of scrypt with 128 MiB for 17 (SYNCD_PASSWORD_COST).",
            valueName: "N"))
    var passwordCost: String?

    @Option(help: "Begin with this as the current time, and go on from there: for tests (RFC 3339, or a plain date).")
    var at: String?

    @Option(help: "What is logged: debug, info (a line a request), warning or error (SYNCD_LOG_LEVEL).")
    var logLevel: String?

    func run() async throws {
        var limits = try limits.limits(try listening.configuration())
        guard !self.limits.isShowing else {
            try writeOutput(Array(LimitOptions.table(limits).utf8))
            return
        }
        let host = try makeHost()
        let store = try openStore(host, limits)
        let logger = try makeLogger()
        if let at { logger.warning("the clock began at \(at.singleLine), for tests") }
        var configuration = try service.configuration(
            limits.listener, hasIssuer: issuer.isGiven, secrets: listening.secrets)
        configuration.callerLimits = limits.callers
        let passwords = try PasswordHashing(cost: PasswordHashing.Cost(logarithm: readPasswordCost()))
        let cryptography = ServerCryptography(
            server: configuration.name, passwords: passwords, issuers: try issuer.issuers(of: configuration.name),
            onError: { logger.error("\($0)") })
        let folder = try openWeb()
        // Some descriptors are for the store, the log and operational endpoints.
        limits.listener.connectionCount = min(limits.listener.connectionCount, max(64, OpenFiles.raiseLimit() - 256))
        let listening = limits.listener
        let metrics = ServerMetrics(PrometheusMetrics())
        let service = try await EntitlementService(
            store, configuration: configuration, cryptography: cryptography, host: host,
            onError: { logger.error("\($0)") }, onRefusal: { metrics.note($0) })
        try await service.checkReadiness()
        let accessLog = logger.logLevel > .info ? nil : makeAccessLog()
        let responder = Responder(
            service, operatorToken: configuration.operatorToken, web: folder,
            metrics: metrics, limits: listening, host: host, accessLog: accessLog, logger: logger)
        let listener: Listener
        do {
            listener = try makeListener(listening, responder, logger)
        } catch {
            throw Failure(.usage, "--tls-certificate, --tls-key: \(error)")
        }
        let outcome: Result<Void, any Error>
        do {
            try await Server.run(
                service, listener, accessLog: accessLog, shutdownSeconds: listening.shutdownSeconds, logger: logger)
            outcome = .success(())
        } catch let error as ListenerError {
            outcome = .failure(Failure(.failed, "\(address(listening, listening.port)): \(error)"))
        } catch {
            outcome = .failure(error)
        }
        await close(store, logger)
        try outcome.get()
    }

    /// Leaves an SQLite store as one file. Where that fails nothing is lost: its log is beside it.
    private func close(_ store: any KeyValueBackend, _ logger: Logger) async {
        guard let database = store as? SQLiteBackend else { return }
        do throws(BackendError) { try await database.close() } catch {
            logger.warning("the log of the store was not taken into its file: \(error)")
        }
    }

    private func makeListener(
        _ configuration: ListenerConfiguration, _ responder: Responder, _ logger: Logger
    ) throws(ListenerError) -> Listener {
        // Messages of the framework matter only in debugging.
        var quiet = logger
        if logger.logLevel > .debug { quiet.logLevel = .error }
        return try Listener(configuration, responder: responder, logger: quiet) { port in
            do throws(Failure) {
                try writeOutput(Array("listening on \(address(configuration, port))\n".utf8))
            } catch {
                logger.warning("\(error.message)")
            }
        }
    }

    /// This machine; with a clock of its own where one was asked for.
    private func makeHost() throws(Failure) -> HostServices {
        var host = HostServices.system
        guard let at = try date(at, option: "--at") else { return host }
        let start = ContinuousClock.now
        host.now = { at.milliseconds + Int64((ContinuousClock.now - start) / .milliseconds(1)) }
        return host
    }

    private func openStore(_ host: HostServices, _ limits: ServerLimits) throws -> any KeyValueBackend {
        guard let text = store ?? environmentVariable("SYNCD_STORE") else {
            throw Failure(.usage, "--store is needed: sqlite:FILE, file:DIR or memory: (or set SYNCD_STORE)")
        }
        let url = try StoreURL(text, option: "--store")
        if case .folder = url.place {
            throw Failure(
                .usage, "--store: \(text.singleLine) cannot compare and swap, which a server needs: sqlite:FILE can")
        }
        return url.open(
            host: host, cachedByteCount: limits.cachedByteCount, logByteCount: limits.logByteCount)
    }

    private func openWeb() throws(Failure) -> WebFolder? {
        guard let path = web ?? environmentVariable("SYNCD_WEB") else { return nil }
        do throws(ListenerError) { return try WebFolder(path: path) } catch { throw Failure(.usage, "--web: \(error)") }
    }

    private func readPasswordCost() throws(Failure) -> Int {
        guard let text = passwordCost ?? environmentVariable("SYNCD_PASSWORD_COST") else { return 17 }
        guard let cost = Int(text), (10...20).contains(cost) else {
            throw Failure(.usage, "--password-cost: \"\(text.singleLine)\" is no number from 10 to 20")
        }
        return cost
    }

    private func makeLogger() throws(Failure) -> Logger {
        let text = logLevel ?? environmentVariable("SYNCD_LOG_LEVEL") ?? "info"
        guard let level = Logger.Level(rawValue: text) else {
            let names = Logger.Level.allCases.map(\.rawValue).joined(separator: ", ")
            throw Failure(.usage, "--log-level: \"\(text.singleLine)\" is none of \(names)")
        }
        var logger = Logger(label: "syncd") { StreamLogHandler.standardError(label: $0) }
        logger.logLevel = level
        return logger
    }

    /// The log of requests, in the same place as everything else that is logged.
    private func makeAccessLog() -> AccessLog {
        AccessLog(label: "syncd") { lines in
            // A closed standard error means that no log is wanted.
            try? FileHandle.standardError.write(contentsOf: lines)
        }
    }

    private func address(_ configuration: ListenerConfiguration, _ port: Int) -> String {
        let host = configuration.host.contains(":") ? "[\(configuration.host)]" : configuration.host
        return "\(configuration.certificate == nil ? "http" : "https")://\(host):\(port)"
    }
}
