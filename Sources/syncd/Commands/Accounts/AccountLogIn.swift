import ArgumentParser
import EntitlementSync
import Entitlements
import Foundation
import HTTPStorage
import SyncCore

struct AccountLogIn: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "login", abstract: "Log in to an account on this device.",
        discussion: """
            With --device, for a device without a keyboard, the command prints a code and waits until it is approved \
            on another device with syncd account device approve CODE, or on the server's web page.
            """)

    @Argument(help: "The account's name; not with --device.")
    var name: String?

    @Flag(help: "Move purchases made without an account on this device into the account, for good.")
    var adopt = false

    @Flag(help: "Log in by approval on another device instead of a password.")
    var device = false

    @OptionGroup var passwords: PasswordOptions
    @OptionGroup var options: StoreOptions

    func run() async throws {
        try options.refuseAccount()
        guard let server = try options.remoteServer(of: device ? nil : name) else {
            guard !device else { throw Failure(.usage, "--device requires a server: pass --remote https://HOST") }
            // The stored session is not used, and may be unreadable.
            return try await logIn(try required(), to: try await options.openDeviceStore(as: .anonymous))
        }
        // Local errors are reported before any request.
        _ = try options.catalog.loadIfNamed()
        if device {
            guard name == nil else { throw Failure(.usage, "--device takes no name: the approving account is used") }
            return try await begin(try await approvedSession(at: server), at: server)
        }
        let name = try required()
        _ = try Account(name)
        guard try await !hasSession(at: server) else { return try await logIn(name, at: server) }
        let password = try passwords.read(.password(of: name))[0]
        try await begin(try await server.client.logIn(name, password: password), at: server)
    }

    private func begin(_ session: ServerSession, at server: RemoteServer) async throws {
        let own = try server.of(session.account)
        try await own.begin(session)
        try await logIn(session.account, at: own)
    }

    private func required() throws(Failure) -> String {
        guard let name else { throw Failure(.usage, "the account's name is missing: syncd account login NAME") }
        return name
    }

    /// Returns `true` if the stored session is still valid and no password was passed.
    private func hasSession(at server: RemoteServer) async throws -> Bool {
        guard !passwords.isGiven, try await server.session() != nil else { return false }
        do throws(AccountError) {
            _ = try await server.client.ownAccount(token: server.token)
            return true
        } catch {
            guard error.kind == .sessionOver else { throw error }
            return false
        }
    }

    private func approvedSession(at server: RemoteServer) async throws -> ServerSession {
        let code = try await server.client.beginDeviceLogIn()
        let page = code.pageWithCode ?? code.page
        let place = page.hasPrefix("/") ? server.origin + page : page
        let minutes = code.lifetime / .seconds(60)
        FileHandle.standardError.write(
            Data("code: \(code.userCode)\napprove it within \(Int(minutes)) minutes: \(place)\n".utf8))
        return try await server.client.waitForApproval(of: code)
    }

    private func logIn(_ account: String, at server: RemoteServer) async throws {
        let local = try options.openLocal()
        try await logIn(
            account, to: try await options.open(local, account: .anonymous, at: server, needsCatalog: false))
    }

    private func logIn(_ account: String, to store: EntitlementStore) async throws {
        let account = try await store.logIn(account, adoptAnonymous: adopt)
        try await options.showLogIn(account, by: name, in: store, adopted: adopt)
    }
}

extension StoreOptions {
    /// - Parameter name: The name that the user has typed; `nil` if there is none.
    func showLogIn(_ account: Account, by name: String?, in store: EntitlementStore, adopted: Bool) async throws {
        let hasUnsent = try await store.hasUnsentFacts(account)
        try output.show(
            .object(
                [
                    ("account", .string("\(account)")), ("adopted", .bool(adopted)), ("unsent", .bool(hasUnsent)),
                ] + account.alias(name)),
            or: "logged in: \(account.described(name))"
                + (hasUnsent ? ", with facts that the remote lacks (syncd sync)" : ""))
    }
}

extension Account {
    /// The account with the name by which the user knows it, if that is another one.
    func described(_ name: String?) -> String {
        guard let name, name != self.name else { return "\(self)" }
        return "\(self) (\(name.singleLine))"
    }

    /// The member of a JSON object for the name by which the user knows the account; empty if it is the account's own.
    func alias(_ name: String?) -> [(String, JSON)] {
        guard let name, name != self.name else { return [] }
        return [("alias", .string(name))]
    }
}

struct AccountLogOut: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "logout",
        abstract: "Log out. Facts that cannot be sent stay on this device until the next log-in.")

    @Flag(help: "End all sessions of the account on the server, on other devices as well.")
    var everywhere = false

    @OptionGroup var options: StoreOptions

    func run() async throws {
        try options.refuseAccount()
        let remote = try options.remoteServer(of: nil)
        guard remote != nil || !everywhere else {
            throw Failure(.usage, "--everywhere requires a server: pass --remote https://HOST")
        }
        let store = try await options.openDeviceStore(needsCatalog: true)
        let hasSession = try await remote?.session() != nil
        guard !store.account.isAnonymous || hasSession else { throw Failure(.refused, "no account is logged in") }
        let report = store.account.isAnonymous ? nil : try await store.logOut()
        guard let server = remote else { return try show(report, note: nil) }
        var note: String?
        do throws(AccountError) {
            try await server.client.logOut(everywhere: everywhere, token: server.token)
        } catch {
            // The session has already ended on the server.
            if error.kind != .sessionOver {
                guard !everywhere else {
                    throw Failure(
                        error.isTransient ? .tryAgain : .failed,
                        "logged out here; the other sessions at \(server.origin) could not be ended"
                            + (error.isTransient ? ": try again" : "") + " (\(error))")
                }
                note = "its session at \(server.origin) will expire: \(error)"
            }
        }
        try await server.tokens.forget()
        try show(report, note: note)
    }

    private func show(_ report: LogOutReport?, note: String?) throws {
        guard let report else {
            return try options.output.show(
                ["account": .null, "unsent": .bool(false), "failure": .null], or: "logged out on the server")
        }
        let rest = report.hasUnsentFacts ? "; facts that the remote lacks stay here until the next log-in" : ""
        let failure = report.failure?.message ?? note
        try options.output.show(
            ["account": "\(report.account)", "unsent": .bool(report.hasUnsentFacts), "failure": JSON(failure)],
            or: "logged out: \(report.account)\(rest)\(failure.map { " (\($0))" } ?? "")")
    }
}
