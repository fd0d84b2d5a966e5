import ArgumentParser
import EntitlementSync
import Entitlements
import Foundation
import HTTPStorage
import SyncAgent
import SyncCore
import SyncService

/// The examination of a device: the configuration of `syncd run`, its store, and its remotes.
struct DeviceCheckup {
    private let review: ConfigurationReview<Run>

    init(_ review: ConfigurationReview<Run>) { self.review = review }

    func examine() async -> Examination {
        var examination = Examination(.run)
        let run = review.usable.options
        await examination.check(.configuration) { review.verdict }
        await examination.check(.catalog) { try review.catalog(run.catalog) }
        await examination.check(.secrets) { review.secrets }
        guard let url = try? run.stores.localURL(), let store = StoreChecks(url, of: .run) else {
            examination.skip(.store, because: "no store is configured: see configuration")
            return examination
        }
        let isWhole = await store.examine(into: &examination)
        let foreignness = store.isOfOtherUser ? "root cannot check it for another user: see store-access" : nil
        await examination.check(.socket) { try foreignness.map(Verdict.skipped) ?? socket(run, url) }
        let remotes = (try? run.stores.remotes(of: url, run.server)) ?? []
        let server = remotes.lazy.compactMap { if case .server(let server) = $0 { server } else { nil } }.first
        let local = isWhole ? url.existing() : nil
        let account = await accounts(into: &examination, run, local: local, server: foreignness == nil ? server : nil)
        for remote in remotes {
            switch remote {
            case .server(let server):
                let session = try? await server.credentials.load()
                await RemoteServerChecks(server)?.examine(into: &examination, session: session)
            case .store(let url):
                await RemoteStoreChecks(url: url, options: run.server).examine(
                    into: &examination, local: local, account: account)
            }
        }
        if remotes.isEmpty {
            let isWrong = review.mistakes(.configuration) != nil
            examination.skip(.remote, because: isWrong ? "see configuration" : "no remote is configured")
        }
        return examination
    }

    // MARK: Socket

    private func socket(_ run: Run, _ url: StoreURL) throws -> Verdict {
        if let verdict = review.mistakes(.socket) { return verdict }
        guard let place = try run.programs.place() else { return .skipped("no socket is configured") }
        let isRunning = url.location.map { StoreLock.holder(ofStore: $0.path) != nil } ?? false
        if access(place.folder, F_OK) != 0, errno == ENOENT {
            let parent = URL(filePath: place.folder).deletingLastPathComponent().path
            if let reason = obstacle(to: parent, W_OK | X_OK) {
                return .failed("\(place.folder) cannot be created: \(parent): \(reason)", remedy: "choose another path")
            }
            return .ok("\(place.path) is free; its folder is created at the start")
        }
        do throws(AgentError) {
            try place.checkFolder()
            switch try place.occupant() {
            case .listener where isRunning: return .ok("syncd run listens on \(place.path)")
            case .listener:
                return .failed(
                    "another program listens on \(place.path)",
                    remedy: "end it, or choose another path: fuser \(quoted(place.path)) shows its id")
            case .stale:
                return .failed(
                    "\(place.path) is a stale socket: its process ended without removing it, so programs get no answer",
                    remedy: "start syncd run, which replaces it, or: rm \(quoted(place.path))")
            case .none where isRunning:
                return .warning(
                    "syncd run keeps the store but does not listen on \(place.path)",
                    remedy: "restart it with this configuration")
            case .none: return .ok("\(place.path) is free")
            }
        } catch {
            return .failed(error, remedy: "choose another path, or give the folder to user \(userName(geteuid()))")
        }
    }

    // MARK: Accounts

    /// Checks the account and its session. Returns the account that is synced.
    private func accounts(
        into examination: inout Examination, _ run: Run, local: (any KeyValueBackend)?, server: RemoteServer?
    ) async -> Account? {
        var loggedIn: Account?
        guard let local else {
            examination.skip(.account, because: "the store cannot be read: see store")
            await examination.check(.credentials) { try await credentials(server, of: nil) }
            return nil
        }
        await examination.check(.account) {
            guard try await !local.isOfServer() else {
                return .failed(
                    "the store is that of a server, not of a device", remedy: "choose another path for --local")
            }
            loggedIn = try await EntitlementStore.accountLoggedIn(in: local).flatMap { $0.isAnonymous ? nil : $0 }
            return try await self.account(run.stores, loggedIn: loggedIn, local: local)
        }
        let account = loggedIn
        await examination.check(.credentials) { try await credentials(server, of: account) }
        guard let name = run.stores.account else { return account }
        return try? await EntitlementStore.account(name, in: local)
    }

    private func account(
        _ stores: RunStoreOptions, loggedIn: Account?, local: any KeyValueBackend
    ) async throws -> Verdict {
        let others = try await EntitlementStore.accounts(in: local).filter { !$0.isAnonymous }.map { "\($0)" }
        guard let name = stores.account else {
            return .ok(loggedIn.map { "\"\($0)\" is logged in" } ?? "no account is logged in")
        }
        if let loggedIn, loggedIn.name.map({ $0.utf8.elementsEqual(name.utf8) }) != true {
            return .failed(
                "the store belongs to account \"\(loggedIn)\", which is logged in, and --account names \"\(name)\"",
                remedy: "remove --account, or use another --local for \"\(name)\"")
        }
        if loggedIn == nil, !others.isEmpty, !others.contains(name) {
            let names = others.map { "\"\($0)\"" }.joined(separator: ", ")
            return .warning(
                "the store holds \(names), and --account names \"\(name)\"",
                remedy: "check --account; with a first sync the store holds both")
        }
        return .ok("account \"\(name)\"")
    }

    /// The remedy for a file of a session that cannot be used.
    private static func remedy(for error: BackendError, _ path: String, _ logIn: String) -> String {
        var status = stat()
        guard lstat(path, &status) == 0 else { return "correct --credentials" }
        if status.st_uid != geteuid() { return "sudo chown \(userName(geteuid())): \(quoted(path))" }
        if status.st_mode & 0o077 != 0 { return "chmod 600 \(quoted(path))" }
        if error.kind == .damaged { return "rm \(quoted(path)), then \(logIn)" }
        if error.cause is AccountError { return logIn }
        return "name another file with --credentials, or remove this one and log in: \(logIn)"
    }

    private func credentials(_ server: RemoteServer?, of account: Account?) async throws -> Verdict {
        if let verdict = review.mistakes(.credentials) { return verdict }
        guard let server else { return .skipped("no remote is a server whose session this user has") }
        let logIn =
            "syncd account login \(quoted(account.map { "\($0)" } ?? "NAME")), with the same --local and --remote"
        let path = (server.credentials as? SessionFile)?.path ?? ""
        let kept: KeptSession?
        do throws(BackendError) { kept = try await server.credentials.load() } catch {
            return .failed("\(error.message)", remedy: Self.remedy(for: error, path, logIn))
        }
        guard let kept else {
            guard let account else { return .skipped("no account is logged in at \(server.origin): \(logIn)") }
            return .failed(
                "\"\(account)\" is logged in on this device, but has no session at \(server.origin)", remedy: logIn)
        }
        let owner = kept.session.account
        if let account, account.name.map({ $0.utf8.elementsEqual(owner.utf8) }) != true {
            return .failed(
                "\(path): the session is that of \"\(owner)\", and \"\(account)\" is logged in on this device",
                remedy: logIn)
        }
        let folder = URL(filePath: path).deletingLastPathComponent().path
        if let reason = obstacle(to: folder, W_OK | X_OK) {
            return .failed("\(folder): \(reason), so the session cannot be renewed", remedy: "let this user write it")
        }
        return .ok("\(path): session of \"\(owner)\", closed to other users")
    }
}
