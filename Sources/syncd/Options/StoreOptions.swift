import ArgumentParser
import EntitlementSync
import Entitlements
import Foundation
import HTTPStorage
import SyncCore
import SyncService

/// The options of every command that opens a device's store. An option takes precedence over its environment variable.
struct StoreOptions: ParsableArguments {
    /// The title of the options that nearly every command has.
    static let title = "Common options"

    @OptionGroup(title: title) private var place: PlaceOptions
    @OptionGroup(title: title) var clock: ClockOptions
    @OptionGroup(title: title) var output: OutputOptions
    @OptionGroup(title: CatalogOptions.title) var catalog: CatalogOptions
    @OptionGroup(title: ServerOptions.title) var server: ServerOptions

    /// Opens the store for the named account, the one that is logged in, or the only one that the device holds.
    ///
    /// On a server's own store, the account's server ledger counts as it does for the account's devices. A note on
    /// standard error says so.
    ///
    /// - Parameters:
    ///   - creation: the store or account that a command that writes may create; `nil` for a command that reads.
    ///   - createRemote: `true` if a missing remote may be created.
    func openStore(creating creation: CreationOptions? = nil, createRemote: Bool = false) async throws
        -> EntitlementStore
    {
        let local = try openLocal()
        if creation?.create != true { try await requireExisting(creating: creation) }
        let (account, isServer) = try await account(in: local, creating: creation)
        let server =
            isServer
            ? EntitlementStore.OwnServer(policy: try await RecordStore(backend: local).statedPolicy()) : nil
        let store = try await open(local, account: account, createRemote: createRemote, ownServer: server)
        let count = isServer ? try await store.serverLedger().count : 0
        if count > 0 {
            warn("\("\(store.account)".singleLine): the server ledger counts (\(plural(count, "record")))")
        }
        return store
    }

    /// Opens the store for the account that is logged in on this device, or for `account`.
    ///
    /// - Parameter needsCatalog: `true` for a command that may record facts.
    func openDeviceStore(
        as account: Account? = nil, createRemote: Bool = false, needsCatalog: Bool = false
    ) async throws -> EntitlementStore {
        try refuseAccount()
        return try await open(try openLocal(), account: account, createRemote: createRemote, needsCatalog: needsCatalog)
    }

    /// Throws if an account is named, for commands that act on the account that is logged in.
    func refuseAccount() throws {
        guard place.accountText == nil else {
            throw Failure(
                .usage,
                "--account and SYNCD_ACCOUNT do not apply here: pass the account as an argument, or log in")
        }
    }

    var accountText: String? { place.accountText }
    var localText: String? { place.local ?? environmentVariable("SYNCD_LOCAL") }
    var remoteText: String? { place.remote ?? environmentVariable("SYNCD_REMOTE") }

    static let localIsMissing = Failure(
        .usage, "--local is required: the store on this device, file:DIR or sqlite:FILE (or set SYNCD_LOCAL)")

    func openLocal() throws -> any KeyValueBackend {
        guard let localText else { throw Self.localIsMissing }
        return try StoreURL(localText, option: "--local").open(host: clock.host())
    }

    /// Opens the store with `remote` as its remote, or with the remote and the session that the options name.
    ///
    /// - Parameters:
    ///   - ownServer: The server whose own store `local` is; `nil` on a device.
    ///   - needsCatalog: `false` for a command that neither records nor interprets facts.
    func open(
        _ local: any KeyValueBackend, account: Account?, createRemote: Bool = false, at remote: RemoteServer? = nil,
        ownServer: EntitlementStore.OwnServer? = nil, needsCatalog: Bool = true
    ) async throws -> EntitlementStore {
        let host = try clock.host()
        var owner = account
        if owner == nil { owner = try await EntitlementStore.accountLoggedIn(in: local) }
        let used = try remote ?? remoteServer(of: owner?.name)
        let http = try used?.store()
        let remoteStore: (any KeyValueBackend)? =
            try http?.retrying(ServerOptions.retries)
            ?? remoteText.map {
                try StoreURL($0, option: "--remote") { try server.webDAVStore($0, option: "--remote") }
                    .open(host: host, mayCreateRemote: createRemote)
            }
        let products = needsCatalog ? try await catalog.load(orOf: used) : try catalog.loadIfNamed()
        return try await EntitlementStore(
            catalog: products, local: local, remote: remoteStore, server: http, account: account,
            environment: catalog.environmentID, clock: clock.source, ownServer: ownServer, host: host)
    }

    /// Throws if the store is missing and was probably meant to be an existing server's store.
    ///
    /// A device's first purchase creates its store. A command with a local store, an account and no remote is the form
    /// for support on a server's store, and requires a store that exists.
    private func requireExisting(creating creation: CreationOptions?) async throws {
        // Variables usually describe a device, which may read before its first purchase.
        let local = creation == nil ? place.local : localText
        let account = creation == nil ? place.account : place.accountText
        guard let text = local, account != nil, remoteText == nil else { return }
        let url = try StoreURL(text, option: "--local")
        guard url.place != .memory, try await !url.exists() else { return }
        let hint = creation == nil ? "" : "; pass --create to create it"
        throw Failure(.notFound, "--local: there is no store at \(text.singleLine)\(hint)")
    }

    /// Returns the account of a command, `nil` for the one that is logged in; and `true` if `store` is a server's.
    private func account(
        in store: any KeyValueBackend, creating creation: CreationOptions?
    ) async throws -> (account: Account?, isServer: Bool) {
        if let name = place.accountText {
            var account = Account.anonymous
            if name != "\(account)" {
                _ = try reading("account") { try Account(name) }
                // The exact name of an account comes first, also of an erased one.
                account = try await EntitlementStore.account(name, in: store)
            }
            let isServer = try await store.isOfServer()
            if isServer, !account.isAnonymous, try await !AccountDirectory(backend: store).isKnown(account) {
                let own = try await AccountAliases.resolve(name, in: store)
                account = try await EntitlementStore.account(own, in: store)
            }
            if isServer, creation?.create != true {
                try await requireKnown(account, in: store, mayCreate: creation != nil)
            }
            return (account, isServer)
        }
        // The account that is logged in takes precedence over others with a ledger in this store.
        let isLoggedIn = try await EntitlementStore.accountLoggedIn(in: store) != nil
        let isServer = try await store.isOfServer()
        guard !isLoggedIn else { return (nil, isServer) }
        let known = isServer ? [] : try await EntitlementStore.accounts(in: store)
        guard isServer || known.count > 1 else { return (known.first ?? .anonymous, isServer) }
        let names = isServer ? "the accounts of a server" : known.map { "\"\($0)\"" }.joined(separator: ", ")
        throw Failure(.usage, "--account is required: this store holds \(names)")
    }

    /// Throws if `store`, a server's store, has no such account.
    private func requireKnown(_ account: Account, in store: any KeyValueBackend, mayCreate: Bool) async throws {
        guard try await !AccountDirectory(backend: store).isKnown(account) else { return }
        let hint = mayCreate ? "; pass --create to create it" : ""
        throw Failure(.notFound, "--account: this server's store has no account \"\(account)\"\(hint)")
    }
}

extension KeyValueBackend {
    /// Returns `true` for the store of a server, which keeps accounts and keys of its own.
    func isOfServer() async throws -> Bool {
        try await !list(prefix: KeyScope.serverPrefix, after: nil, limit: 1).outcome.items.isEmpty
    }
}

/// The stores and the account of a command.
private struct PlaceOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The store on this device: file:DIR, sqlite:FILE or memory: (SYNCD_LOCAL).", valueName: "store"))
    var local: String?

    @Option(
        help: ArgumentHelp(
            "The shared store: https://HOST, file:DIR, sqlite:FILE, webdavs://USER@HOST/FOLDER, or folder:DIR for a "
                + "folder of a file-sync tool (SYNCD_REMOTE).", valueName: "store"))
    var remote: String?

    @Option(
        help: ArgumentHelp(
            "The account, or \"anonymous\" (SYNCD_ACCOUNT; default: the account that is logged in, or the only one).",
            valueName: "name"))
    var account: String?

    var accountText: String? { account ?? environmentVariable("SYNCD_ACCOUNT") }
}

/// Permission to create the store or account that a command writes to.
struct CreationOptions: ParsableArguments {
    @Flag(
        help: ArgumentHelp(
            "Create the store, or the account on a server's store, if it does not exist. Without this flag, a missing "
                + "store is an error if an account and the local store are named, by options or variables, and no "
                + "remote is."))
    var create = false
}

/// The catalogue and the rules under which facts are interpreted.
struct CatalogOptions: ParsableArguments {
    static let title = "Catalogue options"

    @Option(name: .customLong("catalog"), help: .setting("catalog")) var file: String?
    @Option(help: .setting("environment")) var environment: String?
    @Option(help: .setting("expiry")) var expiry: String?
    @Option(help: .setting("flags")) var flags: String?

    @OptionGroup var supplement: SupplementOptions

    var environmentID: EnvironmentID { EnvironmentID(environment ?? "production") }

    private var path: String? { file ?? environmentVariable("SYNCD_CATALOG") }

    /// Reads the catalogue that is named.
    func load() throws -> Catalog {
        guard let path else {
            throw Failure(.usage, "--catalog is required: a JSON or .storekit file (or set SYNCD_CATALOG)")
        }
        return try configured { supplement in
            try readDocument(path) { bytes in
                path.hasSuffix(".storekit")
                    ? try Catalog(storeKitConfiguration: bytes, supplement: supplement)
                    : try Catalog(anyJSON: bytes, supplement: supplement)
            }
        }
    }

    /// Reads the catalogue that is named; empty if none is.
    func loadIfNamed() throws -> Catalog {
        path == nil ? try configured { _ in try Catalog(products: []) } : try load()
    }

    /// Reads the catalogue that is named. If none is, fetches that of `server`.
    func load(orOf server: RemoteServer?) async throws -> Catalog {
        guard path == nil, let server else { return try load() }
        do {
            guard case .found(let bytes, _) = try await server.client.catalog() else { return try load() }
            return try configured { try Catalog(anyJSON: bytes, supplement: $0) }
        } catch let error where error is AccountError || error is InputError {
            let reason = error is InputError ? "\(server.origin)/v1/catalog: \(error)" : "\(error)"
            throw Failure(Failure(error).code, "\(reason) (without --catalog, the server's catalogue is used)")
        }
    }

    /// Applies the options to the catalogue that `read` returns.
    private func configured(_ read: (StoreKitSupplement) throws -> Catalog) throws -> Catalog {
        try reading("environment") { try environmentID.validate() }
        let catalog = try read(try supplement.supplement())
        var policy = catalog.policy
        policy.rules.expiry =
            try Setting.choice(expiry, of: "expiry", among: ConflictRules.expiryRules, \.name) ?? policy.rules.expiry
        policy.rules.flags =
            try Setting.choice(flags, of: "flags", among: ConflictRules.flagRules, \.name) ?? policy.rules.flags
        return try Catalog(
            products: catalog.products, entitlements: catalog.entitlements, policy: policy, content: catalog.content,
            offerings: catalog.offerings)
    }
}

/// The current time, for tests and support.
struct ClockOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The time to use instead of now: RFC 3339, or a plain date.", valueName: "time"))
    var at: String?

    func host() throws -> HostServices {
        var host = HostServices.system
        if let time = try date(at, option: "--at")?.milliseconds { host.now = { time } }
        return host
    }

    /// The clock's source: a time from `--at` is used as it is; remotes may correct the system's clock.
    var source: ClockSource { at == nil ? .trusted : .host }

    func now() throws -> Timestamp { Timestamp(milliseconds: try host().now()) }
}

/// The format of results.
struct OutputOptions: ParsableArguments {
    @Flag(help: "Print the result as JSON.")
    var json = false

    /// Prints `object` as JSON with `--json`, otherwise `text`.
    func show(_ object: @autoclosure () -> JSON, or text: @autoclosure () -> String) throws(Failure) {
        try syncd.show(object(), or: text(), asJSON: json)
    }
}

/// Prints `object` as JSON, or `text`.
func show(_ object: @autoclosure () -> JSON, or text: @autoclosure () -> String, asJSON json: Bool) throws(Failure) {
    try writeOutput("\(json ? object().text() : text())\n".utf8)
}

/// The value of an environment variable; `nil` if it is not set or empty.
func environmentVariable(_ name: String) -> String? {
    guard let value = ProcessInfo.processInfo.environment[name], !value.isEmpty else { return nil }
    return value
}

/// Reads the date argument of `option`.
func date(_ text: String?, option: String) throws(Failure) -> Timestamp? {
    guard let text else { return nil }
    do { return try Timestamp(text) } catch { throw Failure(.usage, "\(option): \(error)") }
}
