import ArgumentParser
import EntitlementSync
import Entitlements
import Foundation
import Logging
import StoreEvidence
import SyncAgent
import SyncCore

/// The stores of `syncd run`.
struct RunStoreOptions: ParsableArguments {
    @Option(help: .setting("local", of: .run))
    var local: String?

    @Option(name: .customLong("remote"), help: .setting("remote", of: .run))
    var remoteTexts: [String] = []

    @Option(help: .setting("account", of: .run))
    var account: String?

    @Flag(help: .setting("all-accounts", of: .run))
    var allAccounts = false

    func localURL() throws -> StoreURL {
        guard let text = local else { throw StoreOptions.localIsMissing }
        return try StoreURL(text, option: "--local")
    }

    func remotes(of local: StoreURL, _ options: ServerOptions) throws -> [RunRemote] {
        guard Set(remoteTexts).count == remoteTexts.count else {
            throw Failure(.usage, "--remote: a store is named twice")
        }
        return try remoteTexts.map { text in
            if StoreURL.isServer(text) {
                return .server(try options.remoteServer(text, local: local, account: account))
            }
            let url = try StoreURL(text, option: "--remote") { try options.webDAVStore($0, option: "--remote") }
            guard let location = url.location, let own = local.location else { return .store(url) }
            guard !own.isSame(as: location) else {
                throw Failure(.usage, "--remote: \(text.singleLine) is the local store")
            }
            return .store(url)
        }
    }

    /// Throws if the options about accounts contradict each other.
    func checkAccount(_ remotes: [RunRemote]) throws(Failure) {
        if let account {
            do { _ = try Account(account) } catch { throw Failure(.usage, "--account: \(error)") }
            guard !allAccounts else { throw Failure(.usage, "--account and --all-accounts exclude each other") }
        }
        guard !allAccounts || !remotes.contains(where: \.isServer) else {
            throw Failure(
                .usage, "--all-accounts does not apply to a server, whose session belongs to one account")
        }
    }

    /// The accounts to keep in step; `nil` for the one that is logged in.
    func accounts(in local: any KeyValueBackend) async throws -> [Account?] {
        if let account { return [try await EntitlementStore.account(account, in: local)] }
        guard allAccounts else { return [nil] }
        let loggedIn = try await EntitlementStore.accountLoggedIn(in: local)
        let others = try await EntitlementStore.accounts(in: local).filter { !$0.isAnonymous && $0 != loggedIn }
        return [nil] + others.map(Optional.some)
    }
}

/// A remote of `syncd run`.
enum RunRemote: Sendable {
    case server(RemoteServer)
    case store(StoreURL)

    var isServer: Bool { if case .server = self { true } else { false } }

    func open(_ options: ServerOptions) throws -> any KeyValueBackend {
        switch self {
        case .server(let server):
            try options.store(at: server.origin, transport: server.transport, host: .system, token: server.token)
        case .store(let url): url.open(host: .system)
        }
    }
}

/// The socket and the program of `syncd run`.
struct LocalProgramOptions: ParsableArguments {
    @Option(help: .setting("socket", of: .run))
    var socket: String?

    @Option(help: .setting("socket-group", of: .run))
    var socketGroup: String?

    @Flag(help: .setting("group-may-act", of: .run))
    var groupMayAct = false

    @Option(help: .setting("on-event", of: .run))
    var onEvent: String?

    @Option(help: .setting("on-event-seconds", of: .run))
    var onEventSeconds: String?

    @Option(help: .setting("expiring-within", of: .run))
    var expiringWithin: String?

    func place() throws -> SocketPlace? {
        guard let path = socket else {
            guard socketGroup == nil, !groupMayAct else {
                throw Failure(.usage, "--socket-group and --group-may-act need --socket")
            }
            return nil
        }
        let group = try groupID()
        do throws(AgentError) { return try SocketPlace(path: path, group: group) } catch {
            throw Failure(.usage, "--socket: \(error)")
        }
    }

    func users() throws -> LocalUsers {
        let group = try groupID()
        guard group != nil || !groupMayAct else { throw Failure(.usage, "--group-may-act needs --socket-group") }
        return LocalUsers(group: group, groupMayAct: groupMayAct)
    }

    private func groupID() throws(Failure) -> UInt32? {
        guard let name = socketGroup else { return nil }
        guard let id = LocalUsers.group(named: name) else {
            throw Failure(.usage, "--socket-group: this machine has no group \"\(name.singleLine)\"")
        }
        return id
    }

    func program(logger: Logger) throws -> EventProgram? {
        let text = onEventSeconds ?? "30"
        guard let seconds = Int(text), (1...3_600).contains(seconds) else {
            throw Failure(
                .usage, "--on-event-seconds must be a number of seconds from 1 to 3600, not \"\(text.singleLine)\"")
        }
        guard let path = onEvent else { return nil }
        do throws(AgentError) {
            return try EventProgram(path: path, timeLimit: .seconds(seconds), logger: logger)
        } catch {
            throw Failure(.usage, "--on-event: \(error)")
        }
    }

    func notice() throws(Failure) -> Duration {
        let text = expiringWithin ?? "P3D"
        guard let duration = try? CalendarDuration(text), duration.months == 0, duration.isWithinBounds else {
            throw Failure(
                .usage,
                "--expiring-within must be a duration of days or hours, such as P7D or PT12H, not "
                    + "\"\(text.singleLine)\"")
        }
        return .seconds(duration.days * 86_400 + duration.seconds)
    }
}

/// The stores whose evidence local programs may record.
struct RunEvidenceOptions: ParsableArguments {
    @Option(name: .customLong("app-store-bundle"), help: .setting("app-store-bundle", of: .run))
    var appStoreBundles: [String] = []

    @Option(help: .setting("evidence-root", of: .run))
    var evidenceRoot: String?

    @Option(help: .setting("play-package", of: .run))
    var playPackage: String?

    @Option(help: .setting("play-key", of: .run))
    var playKey: String?

    func verifiers(of environment: EnvironmentID) throws -> AgentService.Verifiers {
        var verifiers = AgentService.Verifiers()
        if !appStoreBundles.isEmpty {
            verifiers.appStore = try AppStoreApps(appStoreBundles).verifier(
                of: [environment], roots: evidenceRoots(evidenceRoot))
        }
        switch (playPackage, playKey) {
        case (nil, nil): break
        case (let package?, let path?): verifiers.googlePlay = try playVerifier(package, keyFile: path)
        default: throw Failure(.usage, "--play-package and --play-key must be passed together")
        }
        return verifiers
    }
}
