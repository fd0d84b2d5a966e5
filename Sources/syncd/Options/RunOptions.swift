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
    @Option(help: .setting("local", of: .run)) var local: String?
    @Option(name: .customLong("remote"), help: .setting("remote", of: .run)) var remoteTexts: [String] = []
    @Option(help: .setting("account", of: .run)) var account: String?
    @Flag(help: .setting("all-accounts", of: .run)) var allAccounts = false

    func localURL() throws(Failure) -> StoreURL {
        try reading("local") {
            guard let text = local else { throw StoreOptions.localIsMissing }
            let url = try StoreURL(text, option: "--local")
            guard url.location != nil else {
                throw Failure(.usage, "--local must be a store that lasts: file:DIR or sqlite:FILE")
            }
            return url
        }
    }

    func remotes(of local: StoreURL, _ options: ServerOptions) throws(Failure) -> [RunRemote] {
        guard Set(remoteTexts).count == remoteTexts.count else {
            throw Failure(.usage, "--remote: a store is named twice", of: ["remote"])
        }
        return try reading("remote", each: remoteTexts) { text in
            if StoreURL.isServer(text) {
                return .server(try options.remoteServer(text, local: local, account: account))
            }
            let url = try StoreURL(text, option: "--remote") { try options.webDAVStore($0, option: "--remote") }
            guard let location = url.location, let own = local.location, own.isSame(as: location) else {
                return .store(url)
            }
            throw Failure(.usage, "--remote: \(text.singleLine) is the local store")
        }
    }

    /// Throws if the options about accounts contradict each other.
    func checkAccount(_ remotes: [RunRemote]) throws(Failure) {
        if let account {
            _ = try reading("account") { try Account(account) }
            guard !allAccounts else { throw Failure.exclude("account", "all-accounts") }
        }
        guard !allAccounts || !remotes.contains(where: \.isServer) else {
            throw Failure(
                .usage, "--all-accounts does not apply to a server, whose session belongs to one account",
                of: ["all-accounts", "remote"])
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

    func open() throws(BackendError) -> (store: any KeyValueBackend, server: (any EntitlementServer)?) {
        switch self {
        case .server(let server):
            let http = try server.store()
            return (http.retrying(ServerOptions.retries), http)
        case .store(let url): return (url.open(host: .system), nil)
        }
    }
}

/// The socket and the program of `syncd run`.
struct LocalProgramOptions: ParsableArguments {
    @Option(help: .setting("socket", of: .run)) var socket: String?
    @Option(help: .setting("socket-group", of: .run)) var socketGroup: String?
    @Flag(help: .setting("group-may-act", of: .run)) var groupMayAct = false
    @Option(help: .setting("on-event", of: .run)) var onEvent: String?
    @Option(help: .setting("on-event-seconds", of: .run)) var onEventSeconds: String?
    @Option(help: .setting("expiring-within", of: .run)) var expiringWithin: String?

    func place() throws(Failure) -> SocketLocation? {
        guard let path = socket else {
            guard socketGroup != nil || groupMayAct else { return nil }
            throw Failure(
                .usage, "--socket-group and --group-may-act need --socket",
                of: ["socket-group", "group-may-act", "socket"])
        }
        let group = try groupID()
        return try reading("socket") { try SocketLocation(path: path, group: group) }
    }

    func users() throws(Failure) -> LocalUsers {
        let group = try groupID()
        guard group != nil || !groupMayAct else { throw Failure.needs("group-may-act", "socket-group") }
        return LocalUsers(group: group, groupMayAct: groupMayAct)
    }

    private func groupID() throws(Failure) -> UInt32? {
        guard let name = socketGroup else { return nil }
        guard let id = LocalUsers.group(named: name) else {
            throw Failure(
                .usage, "--socket-group: this machine has no group \"\(name.singleLine)\"", of: ["socket-group"])
        }
        return id
    }

    func program(logger: Logger) throws(Failure) -> EventProgram? {
        let seconds = try Setting.number(onEventSeconds, of: "on-event-seconds") ?? 30
        guard let path = onEvent else { return nil }
        return try reading("on-event") { try EventProgram(path: path, timeLimit: .seconds(seconds), logger: logger) }
    }

    func notice() throws(Failure) -> Duration {
        let text = expiringWithin ?? "P3D"
        guard let duration = try? CalendarDuration(text), duration.months == 0, duration.isWithinBounds else {
            throw Failure(
                .usage,
                "--expiring-within must be a duration of days or hours, such as P7D or PT12H, not "
                    + "\"\(text.singleLine)\"", of: ["expiring-within"])
        }
        return .seconds(duration.days * 86_400 + duration.seconds)
    }
}

/// The stores whose evidence local programs may record.
struct RunEvidenceOptions: ParsableArguments {
    @Option(name: .customLong("app-store-bundle"), help: .setting("app-store-bundle", of: .run))
    var appStoreBundles: [String] = []

    @Option(help: .setting("evidence-root", of: .run)) var evidenceRoot: String?
    @Option(help: .setting("play-package", of: .run)) var playPackage: String?
    @Option(help: .setting("play-key", of: .run)) var playKey: String?

    func verifiers(of environment: EnvironmentID) throws -> AgentService.Verifiers {
        var verifiers = AgentService.Verifiers()
        if !appStoreBundles.isEmpty {
            verifiers.appStore = try AppStoreApps(appStoreBundles).verifier(
                of: [environment], roots: evidenceRoots(evidenceRoot))
        }
        verifiers.googlePlay = try googlePlayVerifier(playPackage, keyFile: playKey)
        return verifiers
    }
}
