import ArgumentParser
import EntitlementSync
import Entitlements
import Foundation
import HTTPStorage
import Logging
import SQLiteStorage
import SyncAgent
import SyncCore
import SyncServer

struct Run: AsyncParsableCommand {
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

            The log goes to standard error. On SIGHUP it reads its files again. On SIGTERM or SIGINT it finishes what \
            it has accepted, closes an SQLite store so that it is a single file, and exits with 0.

            Examples:
              syncd run --local sqlite:owls.sqlite --remote https://purchases.example.com --catalog catalog.json
              syncd run --local file:owls --remote file:/mnt/nas/owls --catalog catalog.json \\
                --socket /run/user/1000/syncd/socket --on-event /usr/local/bin/owl-event
            """)

    @OptionGroup(title: "Store options") var stores: RunStoreOptions
    @OptionGroup(title: "Local programs") var programs: LocalProgramOptions
    @OptionGroup(title: CatalogOptions.title) var catalog: CatalogOptions
    @OptionGroup(title: ServerOptions.title) var server: ServerOptions
    @OptionGroup(title: "Evidence options") var evidence: RunEvidenceOptions

    @Option(
        help: ArgumentHelp(
            "The longest time between two syncs, in seconds, 1 to 86400 (SYNCD_POLL; default: 300).",
            valueName: "seconds"))
    var poll: String?

    @Option(
        help: ArgumentHelp(
            "The log level: debug, info, warning or error (SYNCD_LOG_LEVEL; default: info).", valueName: "level"))
    var logLevel: String?

    func run() async throws {
        // Everything that this process creates is private to its user.
        umask(0o077)
        let logger = try makeLogger(logLevel)
        let notifier = ServiceNotifier(
            environment: ProcessInfo.processInfo.environment, processID: ProcessInfo.processInfo.processIdentifier)
        let place = try programs.place()
        let local = try stores.localURL()
        guard let path = local.location?.path else {
            throw Failure(.usage, "--local must be a store that lasts: file:DIR or sqlite:FILE")
        }
        // Mistakes are reported before the store is locked.
        _ = try catalog.load()
        let lock: StoreLock
        do throws(AgentError) { lock = try StoreLock(ofStore: path) } catch { throw Failure(error) }
        defer { lock.remove() }
        let wakes = WakeSignals()
        while true {
            let backend = local.open(host: .system)
            let outcome: Result<AgentProcess.Outcome, any Error>
            do {
                let process = try await makeProcess(backend, local, place, notifier, logger)
                outcome = .success(try await process.run(wakingOn: wakes) { try await prepare(local, logger) })
            } catch {
                outcome = .failure(error)
            }
            await close(backend, logger)
            guard try outcome.get() == .reload else { break }
            logger.info("the configuration was read again")
        }
        notifier.stopping()
    }

    /// Checks the files that a reload would read.
    ///
    /// - Throws: the first mistake, after which the process goes on with what it has.
    private func prepare(_ local: StoreURL, _ logger: Logger) async throws {
        _ = try catalog.load()
        _ = try evidence.verifiers(of: catalog.environmentID)
        _ = try programs.program(logger: logger)
        _ = try stores.remotes(of: local, server)
    }

    private func makeProcess(
        _ backend: any KeyValueBackend, _ local: StoreURL, _ place: SocketPlace?, _ notifier: ServiceNotifier,
        _ logger: Logger
    ) async throws -> AgentProcess {
        let remotes = try stores.remotes(of: local, server)
        let catalog = try catalog.load()
        let accounts = try await stores.accounts(in: backend, remotes)
        var opened: [EntitlementStore] = []
        for account in accounts {
            for remote in remotes.isEmpty ? [nil] : remotes.map(Optional.some) {
                opened.append(
                    try await EntitlementStore(
                        catalog: catalog, local: backend, remote: try remote?.open(server), account: account,
                        environment: self.catalog.environmentID, host: .system))
            }
        }
        let events = try await EventFeed(backend, noticeBeforeExpiry: try programs.notice()) { logger.error("\($0)") }
        let agent = Agent(
            opened, events: events, program: try programs.program(logger: logger),
            pollingEvery: .seconds(try readPoll()), host: .system, logger: logger
        ) { progress in
            notifier.status(progress.failure.map { "waiting: \($0.error.message)" } ?? "in step")
        }
        let service = AgentService(
            agent, users: try programs.users(), verifiers: try evidence.verifiers(of: self.catalog.environmentID),
            actions: actions(opened[0], remotes.first), version: SyncD.configuration.version, host: .system)
        return AgentProcess(agent, service: service, place: place, notifier: notifier, logger: logger)
    }

    private func actions(_ store: EntitlementStore, _ remote: RunRemote?) -> AgentService.Actions {
        let isFixed = stores.accountText != nil
        return AgentService.Actions(
            logIn: { name, password, adopts in
                guard !isFixed else { throw Self.isForOneAccount }
                if case .server(let server)? = remote {
                    guard let password else {
                        throw AgentService.Refusal.invalid("the member \"password\" must be present, and a text")
                    }
                    try await server.begin(try await server.client.logIn(name, password: password))
                }
                return try await store.logIn(name, adoptAnonymous: adopts)
            },
            logOut: {
                guard !isFixed else { throw Self.isForOneAccount }
                let report = try await store.logOut()
                guard case .server(let server)? = remote else { return report }
                // The session has already ended here. Without a connection it expires on the server.
                try? await server.client.logOut(token: server.token)
                try await server.tokens.forget()
                return report
            })
    }

    private static let isForOneAccount = AgentService.Refusal.conflict(
        "this syncd run keeps one account, which --account names")

    private func readPoll() throws(Failure) -> Int {
        guard let text = poll ?? environmentVariable("SYNCD_POLL") else { return 300 }
        guard let seconds = Int(text), (1...86_400).contains(seconds) else {
            throw Failure(.usage, "--poll must be a number of seconds from 1 to 86400, not \"\(text.singleLine)\"")
        }
        return seconds
    }

    /// Closes an SQLite store so that it is a single file. On an error nothing is lost: the log stays beside it.
    private func close(_ store: any KeyValueBackend, _ logger: Logger) async {
        guard let database = store as? SQLiteBackend else { return }
        do throws(BackendError) { try await database.close() } catch {
            logger.warning("the write-ahead log could not be merged into the store: \(error)")
        }
    }
}

/// The logger of a process that runs unattended, which writes to standard error.
///
/// - Parameter level: the value of `--log-level`.
func makeLogger(_ level: String?) throws(Failure) -> Logger {
    let text = level ?? environmentVariable("SYNCD_LOG_LEVEL") ?? "info"
    guard let level = Logger.Level(rawValue: text) else {
        let names = Logger.Level.allCases.map(\.rawValue).joined(separator: ", ")
        throw Failure(.usage, "--log-level must be one of \(names), not \"\(text.singleLine)\"")
    }
    var logger = Logger(label: "syncd") { StreamLogHandler.standardError(label: $0) }
    logger.logLevel = level
    return logger
}

extension Failure {
    init(_ error: AgentError) {
        let code: Code =
            switch error.kind {
            case .alreadyRunning: .tryAgain
            case .unsafe: .usage
            case .failed: .failed
            }
        self.init(code, error.description)
    }
}
