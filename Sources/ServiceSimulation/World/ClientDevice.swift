import EntitlementSync
import Entitlements
import HTTPStorage
import SyncCore
import SyncSimulation

/// A device with its own store, which uses the production clients. Single-threaded.
final class ClientDevice: @unchecked Sendable {
    let index: Int
    let name: String
    unowned let world: ServiceWorld
    let link: ClientLink
    private let local: MemoryBackend
    private var known: (client: AccountClient, tokens: SessionTokens, remote: HTTPBackend)?
    private var opened: EntitlementStore?
    private var entryCount = 0
    /// All content sessions so far, the oldest one first.
    var contentSessions: [String] = []

    init(_ index: Int, name: String, world: ServiceWorld) {
        (self.index, self.name, self.world) = (index, name, world)
        link = ClientLink(lane: index, world: world)
        local = MemoryBackend(host: world.clientHost)
    }

    var notebook: Notebook {
        get { world.notebooks[name] ?? Notebook() }
        set { world.notebooks[name] = newValue }
    }

    /// The production clients.
    func clients() throws -> (client: AccountClient, tokens: SessionTokens, remote: HTTPBackend) {
        if let known { return known }
        let client = try AccountClient(server: ServiceWorld.address, transport: link, host: world.clientHost)
        let tokens = SessionTokens(client, store: MemorySessionStore(), host: world.clientHost)
        let made = (
            client, tokens, try remote { (refused) throws(BackendError) in try await tokens.token(refused: refused) }
        )
        known = made
        return made
    }

    func remote(_ token: @escaping HTTPBackend.Token) throws(BackendError) -> HTTPBackend {
        try HTTPBackend(server: ServiceWorld.address, transport: link, host: world.clientHost, token: token)
    }

    /// Runs an action, and describes its outcome without secrets.
    func perform(_ body: () async throws -> String) async -> String {
        do { return try await body() } catch let error as AccountError {
            return Self.failurePrefix + "\(error.kind)"
        } catch let error as BackendError {
            return Self.failurePrefix + "\(error.kind)"
        } catch let error as EntitlementError {
            return Self.failurePrefix + "\(error.kind)"
        } catch {
            return Self.failurePrefix + "no answer"
        }
    }

    /// The beginning of the outcome of an action that failed.
    static let failurePrefix = "failed: "

    /// A new password, different from all others.
    func newPassword() -> String { "secret-\(world.takeMessage())-secret" }

    func begin(_ session: ServerSession) async throws {
        notebook.tokens.append(session.accessToken)
        notebook.refreshTokens.append(session.refreshToken)
        try await clients().tokens.begin(session)
    }

    func token() throws -> HTTPBackend.Token {
        let tokens = try clients().tokens
        return { (refused) throws(BackendError) in try await tokens.token(refused: refused) }
    }

    /// The account of the session; throws if there is none.
    func account() async throws -> Account {
        guard let session = try await clients().tokens.session() else {
            throw BackendError(.permissionDenied, message: "not logged in")
        }
        return try Account(session.account, incarnation: session.incarnation)
    }
}

// MARK: sessions and passwords

extension ClientDevice {
    func signUp() async -> String {
        await perform {
            let password = notebook.password ?? newPassword()
            notebook.password = password
            let made: AccountClient.SignUp
            let client = try clients().client
            do throws(AccountError) { made = try await client.signUp(name, password: password) } catch {
                if error.kind == .nameTaken, notebook.password == password { notebook.password = nil }
                throw error
            }
            if let codes = made.recoveryCodes { notebook.codes = codes } else { world.reach(.signUpJoined) }
            try await begin(made.session)
            return "signed up"
        }
    }

    func logIn() async -> String {
        await perform {
            let client = try clients().client
            for password in [notebook.password].compactMap({ $0 }) + notebook.candidates.suffix(2).reversed() {
                let session: ServerSession
                do throws(AccountError) { session = try await client.logIn(name, password: password) } catch {
                    guard error.kind == .invalidCredentials else { throw error }
                    continue
                }
                settle(password)
                try await begin(session)
                return "logged in"
            }
            return "no password works"
        }
    }

    /// Notes that `password` is the present one.
    private func settle(_ password: String) {
        guard notebook.password != password else { return }
        if let old = notebook.password { notebook.former.append(old) }
        notebook.password = password
        notebook.candidates.removeAll { $0 == password }
    }

    func guess() async -> String {
        await perform {
            let session = try await clients().client.logIn(name, password: "a wrong guess")
            return "logged in as \(session.account)"
        }
    }

    func refreshTwice() async -> String {
        await perform {
            guard let session = try await clients().tokens.session() else { return "not logged in" }
            let client = try clients().client
            async let first = Self.refresh(client, session.refreshToken)
            async let second = Self.refresh(client, session.refreshToken)
            let results = await (first, second)
            guard let next = results.0 ?? results.1 else { return "not refreshed" }
            if results.0 != nil, results.1 != nil { world.reach(.refreshRepeated) }
            try await begin(next)
            return "refreshed"
        }
    }

    private static func refresh(_ client: AccountClient, _ token: String) async -> ServerSession? {
        try? await client.refresh(token)
    }

    func logOut(everywhere: Bool) async -> String {
        await perform {
            try await clients().client.logOut(everywhere: everywhere, token: token())
            if everywhere { world.reach(.loggedOutEverywhere) }
            return "logged out"
        }
    }

    func changePassword() async -> String {
        await perform {
            guard let old = notebook.password else { return "no account" }
            let (new, client, token) = (newPassword(), try clients().client, try token())
            do throws(AccountError) {
                try await client.changePassword(from: old, to: new, token: token)
            } catch {
                if error.mayHaveHappened { notebook.candidates.append(new) }
                throw error
            }
            notebook.formerCodes += notebook.codes
            notebook.codes = []
            settle(new)
            world.reach(.passwordChanged)
            return "changed the password"
        }
    }

    func renewCodes() async -> String {
        await perform {
            guard let password = notebook.password else { return "no account" }
            let codes = try await clients().client.renewRecoveryCodes(password: password, token: token())
            notebook.formerCodes += notebook.codes
            notebook.codes = codes
            return "has new codes"
        }
    }

    func recover() async -> String {
        await perform {
            guard let code = notebook.codes.first ?? notebook.formerCodes.last else { return "no code" }
            let (new, client) = (newPassword(), try clients().client)
            notebook.formerCodes.append(code)
            notebook.codes.removeAll { $0 == code }
            let session: ServerSession
            do throws(AccountError) {
                session = try await client.recover(name, code: code, newPassword: new)
            } catch {
                if error.mayHaveHappened { notebook.candidates.append(new) }
                if error.kind == .invalidCredentials { world.reach(.oldCodeRefused) }
                throw error
            }
            notebook.codes = []
            settle(new)
            world.reach(.recovered)
            try await begin(session)
            return "recovered"
        }
    }

    func logIn(approvedBy approver: ClientDevice) async -> String {
        await perform {
            let client = try clients().client
            let code = try await client.beginDeviceLogIn()
            let host = world.clientHost
            async let approval: Void = approver.approve(code.userCode)
            do {
                let session = try await client.waitForApproval(of: code, host: host)
                await approval
                world.reach(.deviceApproved)
                try await begin(session)
                return "logged in as \(session.account)"
            } catch let error as AccountError {
                await approval
                if error.kind == .codeExpired { world.reach(.deviceVoid) }
                throw error
            }
        }
    }

    private func approve(_ code: String) async {
        await world.pause(3_000_000)
        let isApproved = notebook.password != nil
        _ = await perform {
            try await clients().client.decide(
                device: code, isApproved: isApproved, password: notebook.password, token: token())
            return ""
        }
    }

    func erase() async -> String {
        await perform {
            guard let password = notebook.password else { return "no account" }
            try await clients().client.erase(password: password, token: token())
            notebook.former.append(password)
            (notebook.password, notebook.candidates, notebook.codes) = (nil, [], [])
            return "erased"
        }
    }

    func askForGrant() async -> String {
        await perform {
            _ = try await clients().remote.grant(device: "device-\(index)", environment: .production)
            world.reach(.grantIssued)
            return "has a grant"
        }
    }
}

// MARK: entries and purchases

extension ClientDevice {
    func entryKey(_ key: Int, of account: Account) throws(BackendError) -> EntryKey {
        try EntryKey(try LedgerKeys(account).prefix + "notes/\(key)")
    }

    func write(_ key: Int) async -> String {
        await perform {
            let account = try await account()
            entryCount += 1
            let value = "\(account.incarnation) \(index) \(entryCount)"
            _ = try await clients().remote.write([UInt8](value.utf8), to: entryKey(key, of: account), if: .any)
            return "written"
        }
    }

    /// Replaces an entry in the version that was read.
    func replace(_ key: Int) async -> String {
        await perform {
            let (account, remote) = (try await account(), try clients().remote)
            let key = try entryKey(key, of: account)
            guard case .found(let entry) = try await remote.read(key, unless: nil).outcome else { return "absent" }
            entryCount += 1
            let value = "\(account.incarnation) \(index) \(entryCount)"
            let outcome = try await remote.write([UInt8](value.utf8), to: key, if: .matches(entry.version)).outcome
            if case .conflict = outcome { return "conflict" }
            return "replaced"
        }
    }

    func delete(_ key: Int) async -> String {
        await perform {
            _ = try await clients().remote.delete(entryKey(key, of: try await account()), if: .any)
            return "deleted"
        }
    }

    func read(_ key: Int) async -> String {
        await perform {
            _ = try await clients().remote.read(entryKey(key, of: try await account()), unless: nil)
            return "read"
        }
    }

    /// The device's store, which is opened at its first use.
    func entitlements() async throws -> EntitlementStore {
        if let opened { return opened }
        let remote = try clients().remote
        let store = try await EntitlementStore(
            catalog: StoreDesk.catalog, local: local as any KeyValueBackend, remote: remote, server: remote,
            clock: .host, host: world.clientHost)
        opened = opened ?? store
        return store
    }

    func sync() async -> String {
        await perform {
            let account = try await account()
            let store = try await entitlements()
            _ = try await store.logIn(account.name ?? "")
            _ = try await store.sync()
            return "synced"
        }
    }

    func buy(_ sale: Int) async -> String {
        await perform {
            let account = try await account()
            let store = try await entitlements()
            _ = try await store.logIn(account.name ?? "")
            _ = try await store.record(.verified(world.desk.statement(of: sale, at: world.scheduler.trueTime)))
            _ = try await store.sync()
            return "bought"
        }
    }

    func present(_ sale: Int, isRestore: Bool) async -> String {
        await perform {
            let item = world.desk.item(of: sale, at: world.scheduler.trueTime)
            let answers = try await clients().remote.submit([item], account: try await account(), isRestore: isRestore)
            return "\(answers.count { $0 == .recorded }) recorded"
        }
    }
}
