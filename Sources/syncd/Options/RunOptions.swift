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
    @Option(help: ArgumentHelp("The store on this device: file:DIR or sqlite:FILE (SYNCD_LOCAL).", valueName: "store"))
    var local: String?

    @Option(
        name: .customLong("remote"),
        help: ArgumentHelp(
            "A shared store: https://HOST, file:DIR, sqlite:FILE, webdavs://USER@HOST/FOLDER, or folder:DIR for a "
                + "folder of a file-sync tool; repeat for others (SYNCD_REMOTE). Programs log in to the first.",
            valueName: "store"))
    var remoteTexts: [String] = []

    @Option(
        help: ArgumentHelp(
            "The account (SYNCD_ACCOUNT; default: the one that is logged in, also when it changes).",
            valueName: "name"))
    var account: String?

    @Flag(
        help: ArgumentHelp(
            "Keep all accounts of the local store in step that are there at the start. Not with a server, whose "
                + "session belongs to one account."))
    var allAccounts = false

    var accountText: String? { account ?? environmentVariable("SYNCD_ACCOUNT") }

    func localURL() throws -> StoreURL {
        guard let text = local ?? environmentVariable("SYNCD_LOCAL") else { throw StoreOptions.localIsMissing }
        return try StoreURL(text, option: "--local")
    }

    func remotes(of local: StoreURL, _ options: ServerOptions) throws -> [RunRemote] {
        let fallback = environmentVariable("SYNCD_REMOTE").map { [$0] } ?? []
        let texts = remoteTexts.isEmpty ? fallback : remoteTexts
        guard Set(texts).count == texts.count else { throw Failure(.usage, "--remote: a store is named twice") }
        return try texts.map { text in
            if StoreURL.isServer(text) {
                return .server(try options.remoteServer(text, local: local, account: accountText))
            }
            let url = try StoreURL(text, option: "--remote") { try options.webDAVStore($0, option: "--remote") }
            guard let location = url.location, let own = local.location else { return .store(url) }
            guard !own.isSame(as: location) else {
                throw Failure(.usage, "--remote: \(text.singleLine) is the local store")
            }
            return .store(url)
        }
    }

    /// The accounts to keep in step; `nil` for the one that is logged in.
    func accounts(in local: any KeyValueBackend, _ remotes: [RunRemote]) async throws -> [Account?] {
        guard allAccounts else {
            guard let name = accountText else { return [nil] }
            do { _ = try Account(name) } catch { throw Failure(.usage, "--account: \(error)") }
            return [try await EntitlementStore.account(name, in: local)]
        }
        guard accountText == nil else { throw Failure(.usage, "--account and --all-accounts exclude each other") }
        guard !remotes.contains(where: \.isServer) else {
            throw Failure(.usage, "--all-accounts does not apply to a server, whose session belongs to one account")
        }
        return [nil] + (try await EntitlementStore.accounts(in: local)).filter { !$0.isAnonymous }.map(Optional.some)
    }
}

/// A remote of `syncd run`.
enum RunRemote {
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
    @Option(
        help: ArgumentHelp(
            "The Unix socket for local programs, an absolute path; its folder is created for this user only "
                + "(SYNCD_SOCKET; default: none).", valueName: "path"))
    var socket: String?

    @Option(
        help: ArgumentHelp("A group whose members may read from the socket (SYNCD_SOCKET_GROUP).", valueName: "name"))
    var socketGroup: String?

    @Flag(help: "Let the group spend units, record evidence, and log in and out (SYNCD_GROUP_MAY_ACT=1).")
    var groupMayAct = false

    @Option(
        help: ArgumentHelp(
            "A program that gets each event as one line of JSON on standard input, an absolute path (SYNCD_ON_EVENT).",
            valueName: "program"))
    var onEvent: String?

    @Option(
        help: ArgumentHelp(
            "The time limit of the program in seconds, 1 to 3600 (SYNCD_ON_EVENT_SECONDS; default: 30).",
            valueName: "seconds"))
    var onEventSeconds: String?

    @Option(
        help: ArgumentHelp(
            "The time before the end of a subscription at which it counts as expiring, such as P7D or PT12H "
                + "(SYNCD_EXPIRING_WITHIN; default: P3D).", valueName: "duration"))
    var expiringWithin: String?

    func place() throws -> SocketPlace? {
        guard let path = socket ?? environmentVariable("SYNCD_SOCKET") else {
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
        let isAllowed = try isSet("SYNCD_GROUP_MAY_ACT")
        let group = try groupID()
        guard group != nil || !(groupMayAct || isAllowed) else {
            throw Failure(.usage, "--group-may-act needs --socket-group")
        }
        return LocalUsers(group: group, groupMayAct: groupMayAct || isAllowed)
    }

    private func groupID() throws(Failure) -> UInt32? {
        guard let name = socketGroup ?? environmentVariable("SYNCD_SOCKET_GROUP") else { return nil }
        guard let id = LocalUsers.group(named: name) else {
            throw Failure(.usage, "--socket-group: this machine has no group \"\(name.singleLine)\"")
        }
        return id
    }

    func program(logger: Logger) throws -> EventProgram? {
        let text = onEventSeconds ?? environmentVariable("SYNCD_ON_EVENT_SECONDS") ?? "30"
        guard let seconds = Int(text), (1...3_600).contains(seconds) else {
            throw Failure(
                .usage, "--on-event-seconds must be a number of seconds from 1 to 3600, not \"\(text.singleLine)\"")
        }
        guard let path = onEvent ?? environmentVariable("SYNCD_ON_EVENT") else { return nil }
        do throws(AgentError) {
            return try EventProgram(path: path, timeLimit: .seconds(seconds), logger: logger)
        } catch {
            throw Failure(.usage, "--on-event: \(error)")
        }
    }

    func notice() throws(Failure) -> Duration {
        let text = expiringWithin ?? environmentVariable("SYNCD_EXPIRING_WITHIN") ?? "P3D"
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
    @Option(
        name: .customLong("app-store-bundle"),
        help: ArgumentHelp(
            "Verify the App Store's evidence for this bundle identifier; repeat for others (SYNCD_APP_STORE_BUNDLES, "
                + "separated by spaces).", valueName: "id"))
    var appStoreBundles: [String] = []

    @Option(
        help: ArgumentHelp(
            "Root certificates (PEM) instead of Apple's (SYNCD_EVIDENCE_ROOT).", valueName: "file"))
    var evidenceRoot: String?

    @Option(help: ArgumentHelp("The package name of the app on Google Play (SYNCD_PLAY_PACKAGE).", valueName: "name"))
    var playPackage: String?

    @Option(
        help: ArgumentHelp(
            "A file with the app's licensing key of Google Play, base64 (SYNCD_PLAY_KEY).", valueName: "file"))
    var playKey: String?

    func verifiers(of environment: EnvironmentID) throws -> AgentService.Verifiers {
        let fallback = environmentVariable("SYNCD_APP_STORE_BUNDLES")?.split(separator: " ").map(String.init) ?? []
        let bundles = appStoreBundles.isEmpty ? fallback : appStoreBundles
        var verifiers = AgentService.Verifiers()
        if !bundles.isEmpty {
            verifiers.appStore = AppStoreVerifier(
                bundleIDs: Set(bundles), environments: [environment],
                roots: try evidenceRoots(evidenceRoot ?? environmentVariable("SYNCD_EVIDENCE_ROOT")))
        }
        switch (
            playPackage ?? environmentVariable("SYNCD_PLAY_PACKAGE"), playKey ?? environmentVariable("SYNCD_PLAY_KEY")
        ) {
        case (nil, nil): break
        case (let package?, let path?): verifiers.googlePlay = try playVerifier(package, keyFile: path)
        default: throw Failure(.usage, "--play-package and --play-key must be passed together")
        }
        return verifiers
    }
}
