import ArgumentParser
import EntitlementSync
import Entitlements
import Foundation
import HTTPStorage
import HTTPTypes
import Logging
import SQLiteStorage
import SyncAgent
import SyncCore
import SyncServer
import SyncService
import Synchronization

struct Run: ConfiguredCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Keep this device's store in step with its remotes, in the background.",
        usage: "syncd run --local <store> --catalog <file> [<options>]",
        discussion: """
            Syncs at once after local changes, when a remote signals one, when the network comes back and after a \
            suspension; otherwise at intervals. After failures it waits up to 5 s in the first minute, then up to the \
            interval.

            With --socket, local programs of the same user can ask it over HTTP, in any language:
              curl --unix-socket SOCKET http://localhost/v1/entitlements
              curl --unix-socket SOCKET http://localhost/v1/access/premium
              curl --unix-socket SOCKET -X POST -H "Idempotency-Key: KEY" http://localhost/v1/use/premium
              curl --unix-socket SOCKET -N http://localhost/v1/events
              curl --unix-socket SOCKET http://localhost/v1/status

            When ready, it prints "listening on SOCKET" or "running" to standard output. The log goes to standard \
            error. On SIGHUP it reads its files again. On SIGTERM or SIGINT it finishes what \
            it has accepted, closes an SQLite store so that it is a single file, and exits with 0.

            Examples:
              syncd run --local sqlite:owls.sqlite --remote https://purchases.example.com --catalog catalog.json
              syncd run --local file:owls --remote file:/mnt/nas/owls --catalog catalog.json \\
                --socket /run/user/1000/syncd/socket --on-event /usr/local/bin/owl-event
            """)

    @OptionGroup var configurationFile: ConfigOptions
    @OptionGroup(title: "Store options") var stores: RunStoreOptions
    @OptionGroup(title: "Local programs") var programs: LocalProgramOptions
    @OptionGroup(title: CatalogOptions.title) var catalog: CatalogOptions
    @OptionGroup(title: ServerOptions.title) var server: ServerOptions
    @OptionGroup(title: "Evidence options") var evidence: RunEvidenceOptions

    @Option(help: .setting("poll", of: .run)) var poll: String?
    @Option(help: .setting("log-level", of: .run)) var logLevel: String?

    func run() async throws {
        // Everything that this process creates is private to its user.
        umask(0o077)
        let plan = try loadPlan()
        let notifier = ServiceNotifier.current
        let lock = try StoreLock(ofStore: plan.path)
        defer { lock.remove() }
        let signals = await ProcessSignals()
        try await withThrowingTaskGroup(of: Void.self) { group in
            let wakes = WakeSignals()
            group.addTask { await signals.run() }
            group.addTask { await wakes.run(.system) }
            defer { group.cancelAll() }
            try await run(plan, notifier, wakes, signals)
        }
    }

    /// Runs processes until one ends for another reason than a reload.
    private func run(
        _ plan: Plan, _ notifier: ServiceNotifier, _ wakes: WakeSignals, _ signals: ProcessSignals
    ) async throws {
        var current = plan
        /// The plan to return to if that of a reload does not start.
        var former: Plan?
        while !signals.isEnding {
            let next = Mutex<Plan?>(nil)
            let isServing = Mutex(false)
            let (plan, backend) = (current, current.local.open(host: .system))
            let outcome: Result<AgentProcess.Outcome, any Error>
            do {
                let process = try await makeProcess(plan, backend, notifier) { isServing.withLock { $0 = true } }
                outcome = .success(
                    try await process.run(wakingOn: wakes, signals: signals) {
                        let reloaded = try loadPlan()
                        guard reloaded.path == plan.path else {
                            throw Failure(.usage, "--local has changed: restart syncd run for another store")
                        }
                        next.withLock { $0 = reloaded }
                    })
            } catch {
                outcome = .failure(error)
            }
            await close(backend, plan.logger)
            switch outcome {
            case .success(.ended): return
            case .success(.reload):
                (former, current) = (plan, next.withLock { $0 } ?? plan)
                current.logger.info("the configuration was read again")
            case .failure(let error):
                guard let last = former, !isServing.withLock({ $0 }) else { throw error }
                plan.logger.error("the new configuration does not start, so the former one stays: \(Failure(error))")
                (former, current) = (nil, last)
            }
        }
    }

    /// The options as the process needs them. Reading them opens no store.
    private struct Plan: Sendable {
        var local: StoreURL
        /// The path of the local store.
        var path: String { local.location?.path ?? "" }
        var remotes: [RunRemote]
        var catalog: Catalog
        var place: SocketLocation?
        var users: LocalUsers
        var program: EventProgram?
        var notice: Duration
        var verifiers: AgentService.Verifiers
        var pollSeconds: Int64
        var logger: Logger
        var options: Run
    }

    func checkValues() throws { _ = try plan() }

    /// Reads the flags, the environment and the configuration file.
    private func loadPlan() throws -> Plan {
        let file = try ConfigurationFile.findValid(configurationFile.config)
        return try EffectiveSettings(self, file: file).locatingFailures { try $0.plan() }
    }

    private func plan() throws -> Plan {
        let logger = try makeLogger(logLevel)
        let local = try stores.localURL()
        let remotes = try stores.remotes(of: local, server)
        try stores.checkAccount(remotes)
        return Plan(
            local: local, remotes: remotes, catalog: try reading("catalog") { try catalog.load() },
            place: try programs.place(), users: try programs.users(), program: try programs.program(logger: logger),
            notice: try programs.notice(), verifiers: try evidence.verifiers(of: catalog.environmentID),
            pollSeconds: try Setting.number(poll, of: "poll") ?? 300, logger: logger, options: self)
    }

    private func makeProcess(
        _ plan: Plan, _ backend: any KeyValueBackend, _ notifier: ServiceNotifier,
        didStart: @escaping @Sendable () -> Void
    ) async throws -> AgentProcess {
        let logger = plan.logger
        var opened: [EntitlementStore] = []
        for account in try await plan.options.stores.accounts(in: backend) {
            for remote in plan.remotes.isEmpty ? [nil] : plan.remotes.map(Optional.some) {
                let (store, server) = try remote?.open() ?? (nil, nil)
                opened.append(
                    try await EntitlementStore(
                        catalog: plan.catalog, local: backend, remote: store, server: server, account: account,
                        environment: plan.options.catalog.environmentID, host: .system))
            }
        }
        let events = try await EventFeed(
            backend, noticeBeforeExpiry: plan.notice, hasProgram: plan.program != nil
        ) { logger.error("\($0)") }
        let agent = Agent(
            opened, events: events, program: plan.program, pollingEvery: .seconds(plan.pollSeconds),
            noticeBeforeExpiry: plan.notice, host: .system, logger: logger
        ) { progress in
            notifier.status(progress.failure.map { "waiting: \($0.error.message)" } ?? "in step")
        }
        let service = AgentService(
            agent, users: plan.users, verifiers: plan.verifiers,
            actions: Self.actions(opened[0], plan.remotes.first, isForOneAccount: plan.options.stores.account != nil),
            version: Version.number, host: .system)
        return AgentProcess(agent, service: service, location: plan.place, notifier: notifier, logger: logger) {
            didStart()
            do throws(Failure) {
                try writeOutput((plan.place.map { "listening on \($0.path)\n" } ?? "running\n").utf8)
            } catch {
                logger.warning("\(error.message)")
            }
        }
    }

    private static func actions(
        _ store: EntitlementStore, _ remote: RunRemote?, isForOneAccount: Bool
    ) -> AgentService.Actions {
        let isChanging = Mutex(false)
        @Sendable func alone<Result>(_ change: () async throws -> Result) async throws -> Result {
            guard !isForOneAccount else { throw Self.accountIsFixed }
            let isFirst = isChanging.withLock { isChanging in
                defer { isChanging = true }
                return !isChanging
            }
            guard isFirst else {
                throw RequestError(.conflict, "another log-in or log-out is under way; try again")
            }
            defer { isChanging.withLock { $0 = false } }
            return try await change()
        }
        return AgentService.Actions(
            logIn: { name, password, adopts in
                _ = try Account(name)
                guard case .server(let server)? = remote else {
                    return try await alone { try await store.logIn(name, adoptAnonymous: adopts) }
                }
                guard let password else {
                    throw RequestError(.badRequest, "the member \"password\" must be present, and a text")
                }
                return try await alone {
                    // The account's own name may differ from that of the log-in.
                    let session = try await server.client.logIn(name, password: password)
                    return try await server.begin(session) {
                        try await store.logIn(session.account, adoptAnonymous: adopts)
                    }
                }
            },
            logOut: {
                try await alone {
                    let report = try await store.logOut()
                    guard case .server(let server)? = remote else { return report }
                    // The session has already ended here. Without a connection it expires on the server.
                    try? await server.client.logOut(token: server.token)
                    try await server.tokens.forget()
                    return report
                }
            })
    }

    private static let accountIsFixed = RequestError(
        .conflict, "this syncd run keeps one account, which --account names")

    static let section = Setting.Command.run

    static var properties: [String: SettingProperty<Run>] {
        [
            "log-level": .text(\.logLevel), "allow-open-secrets": .flag(\.server.secrets.allowOpenSecrets),
            "catalog": .text(\.catalog.file), "environment": .text(\.catalog.environment),
            "expiry": .text(\.catalog.expiry), "flags": .text(\.catalog.flags),
            "duration": .list(\.catalog.supplement.durations), "group-of": .list(\.catalog.supplement.groups),
            "units": .list(\.catalog.supplement.units), "app-store-bundle": .list(\.evidence.appStoreBundles),
            "evidence-root": .text(\.evidence.evidenceRoot), "play-package": .text(\.evidence.playPackage),
            "play-key": .text(\.evidence.playKey), "local": .text(\.stores.local),
            "remote": .list(\.stores.remoteTexts), "account": .text(\.stores.account),
            "all-accounts": .flag(\.stores.allAccounts), "credentials": .text(\.server.credentials),
            "token-file": .text(\.server.tokenFile), "ca-file": .text(\.server.caFile),
            "insecure-http": .flag(\.server.insecureHTTP), "poll": .text(\.poll),
            "socket": .text(\.programs.socket), "socket-group": .text(\.programs.socketGroup),
            "group-may-act": .flag(\.programs.groupMayAct), "on-event": .text(\.programs.onEvent),
            "on-event-seconds": .text(\.programs.onEventSeconds),
            "expiring-within": .text(\.programs.expiringWithin),
        ]
    }
}

/// Closes an SQLite store so that it is a single file. On an error nothing is lost: the log stays beside it.
func close(_ store: any KeyValueBackend, _ logger: Logger) async {
    guard let database = store as? SQLiteBackend else { return }
    do throws(BackendError) { try await database.close() } catch {
        logger.warning("the write-ahead log could not be merged into the store: \(error)")
    }
}

extension ServiceNotifier {
    /// The service manager of this process.
    static var current: ServiceNotifier {
        ServiceNotifier(
            environment: ProcessInfo.processInfo.environment, processID: ProcessInfo.processInfo.processIdentifier)
    }
}

/// The logger of a process that runs unattended, which writes to standard error.
///
/// - Parameter level: the value of `--log-level`.
func makeLogger(_ level: String?) throws(Failure) -> Logger {
    let level: Logger.Level = try Setting.choice(level, of: "log-level") ?? .info
    var logger = Logger(label: "syncd") { StreamLogHandler.standardError(label: $0) }
    logger.logLevel = level
    return logger
}
