import ArgumentParser
import EntitlementSync
import Entitlements
import Foundation
import SyncCore

/// What every command that looks into a store is told. A flag goes before its environment variable.
struct StoreOptions: ParsableArguments {
    @Option(help: "The store on this device: file:DIR, sqlite:FILE or memory: (SYNCD_LOCAL).")
    var local: String?

    @Option(
        help:
            """
            The store that all share: https://HOST, file:DIR, sqlite:FILE, webdavs://USER@HOST/FOLDER, or folder:DIR \
            for one of a file-sync tool (SYNCD_REMOTE).
            """
    )
    var remote: String?

    @Option(help: "Whose ledger; \"anonymous\" for nobody's (SYNCD_ACCOUNT).")
    var account: String?

    @OptionGroup var server: ServerOptions

    @OptionGroup var catalog: CatalogOptions

    @OptionGroup var clock: ClockOptions

    @OptionGroup var output: OutputOptions

    /// The store as the account that was named, or that is logged in, or the only one that the device holds.
    ///
    /// - Parameter createRemote: whether the remote may be made where it is missing.
    func openStore(createRemote: Bool = false) async throws -> EntitlementStore {
        let local = try openLocal()
        return try await open(local, account: try await account(in: local), createRemote: createRemote)
    }

    /// The store as whoever is logged in on this device, or as `account`.
    func openDeviceStore(as account: Account? = nil, createRemote: Bool = false) async throws -> EntitlementStore {
        try refuseAccount()
        return try await open(try openLocal(), account: account, createRemote: createRemote)
    }

    /// For commands that are about who is logged in, and not about an account that somebody names.
    func refuseAccount() throws {
        guard account == nil, environmentVariable("SYNCD_ACCOUNT") == nil else {
            throw Failure(
                .usage,
                "--account and SYNCD_ACCOUNT have no meaning here: the account is the argument, or who is logged in")
        }
    }

    var localText: String? { local ?? environmentVariable("SYNCD_LOCAL") }
    var remoteText: String? { remote ?? environmentVariable("SYNCD_REMOTE") }

    static let localIsMissing = Failure(
        .usage, "--local is needed: the store on this device, file:DIR or sqlite:FILE (or set SYNCD_LOCAL)")

    func openLocal() throws -> any KeyValueBackend {
        guard let localText else { throw Self.localIsMissing }
        return try StoreURL.open(localText, host: try clock.host(), option: "--local")
    }

    /// The store over `server`, where the remote is one: by that log-in, or by the one that is kept.
    func open(
        _ local: any KeyValueBackend, account: Account?, createRemote: Bool = false, at server: RemoteServer? = nil
    ) async throws -> EntitlementStore {
        let host = try clock.host()
        var owner = account
        if owner == nil { owner = try await EntitlementStore.accountLoggedIn(in: local) }
        let used = try server ?? remoteServer(of: owner?.name)
        let remoteStore: (any KeyValueBackend)? =
            if let used {
                // Waiting for a server takes real time, whatever time it is taken to be.
                try self.server.store(at: used.origin, transport: used.transport, host: .system, token: used.token)
            } else {
                try remoteText.map {
                    try StoreURL.open($0, host: host, option: "--remote", mayCreateRemote: createRemote) {
                        try self.server.webDAVStore($0, option: "--remote")
                    }
                }
            }
        return try await EntitlementStore(
            catalog: try catalog.load(), local: local, remote: remoteStore, account: account,
            environment: catalog.environmentID, clock: clock.source, host: host)
    }

    private func account(in store: any KeyValueBackend) async throws -> Account? {
        if let name = account ?? environmentVariable("SYNCD_ACCOUNT") {
            if name == "\(Account.anonymous)" { return .anonymous }
            do { _ = try Account(name) } catch { throw Failure(.usage, "--account: \(error)") }
            return try await EntitlementStore.account(name, in: store)
        }
        // Who is logged in comes before who else has a ledger here.
        guard try await EntitlementStore.accountLoggedIn(in: store) == nil else { return nil }
        let known = try await EntitlementStore.accounts(in: store)
        guard known.count > 1 else { return known.first ?? .anonymous }
        let names = known.map { "\"\($0)\"" }.joined(separator: ", ")
        throw Failure(.usage, "--account is needed: this store holds \(names)")
    }
}

/// Which catalogue, and how its rules are read.
struct CatalogOptions: ParsableArguments {
    @Option(name: .customLong("catalog"), help: "The catalogue: JSON, or a .storekit file of Xcode (SYNCD_CATALOG).")
    var file: String?

    @OptionGroup var supplement: SupplementOptions

    @Option(
        help: "Read facts by this expiry rule instead of the catalogue's: stackPurchases, latestExpiryWins, remoteWins."
    )
    var expiry: String?

    @Option(
        help: "Read flags by this rule instead of the catalogue's: purchasedWins, lastWriterWins or remoteWins.")
    var flags: String?

    @Option(help: "Count purchases of this environment.")
    var environment: String = "production"

    var environmentID: EnvironmentID { EnvironmentID(environment) }

    func load() throws -> Catalog {
        guard let path = file ?? environmentVariable("SYNCD_CATALOG") else {
            throw Failure(.usage, "--catalog is needed: what is sold, a JSON file (or set SYNCD_CATALOG)")
        }
        do { try environmentID.validate() } catch { throw Failure(.usage, "--environment: \(error)") }
        let supplement = try supplement.supplement()
        let catalog = try readDocument(path) { bytes in
            path.hasSuffix(".storekit")
                ? try Catalog(storeKitConfiguration: bytes, supplement: supplement)
                : try Catalog(anyJSON: bytes, supplement: supplement)
        }
        var policy = catalog.policy
        if let rule = try Self.rule(expiry, among: ConflictRules.expiryRules, \.name, option: "--expiry") {
            policy.rules.expiry = rule
        }
        if let rule = try Self.rule(flags, among: ConflictRules.flagRules, \.name, option: "--flags") {
            policy.rules.flags = rule
        }
        return try Catalog(products: catalog.products, entitlements: catalog.entitlements, policy: policy)
    }

    private static func rule<Rule>(_ name: String?, among rules: [Rule], _ nameOf: (Rule) -> String, option: String)
        throws -> Rule?
    {
        guard let name else { return nil }
        guard let rule = rules.first(where: { nameOf($0) == name }) else {
            throw Failure(.usage, "\(option): \"\(name)\" is none of \(rules.map(nameOf).joined(separator: ", "))")
        }
        return rule
    }
}

/// The clock, for tests and support.
struct ClockOptions: ParsableArguments {
    @Option(help: "Take this for the current time (RFC 3339, or a plain date).")
    var at: String?

    func host() throws -> HostServices {
        guard let at else { return .system }
        do {
            let time = try Timestamp(at).milliseconds
            var host = HostServices.system
            host.now = { time }
            return host
        } catch {
            throw Failure(.usage, "--at: \(error)")
        }
    }

    /// An explicit time is taken as it is; else remotes may correct the clock.
    var source: ClockSource { at == nil ? .trusted : .host }

    func now() throws -> Timestamp { Timestamp(milliseconds: try host().now()) }
}

/// How results are printed.
struct OutputOptions: ParsableArguments {
    @Flag(help: "Print JSON.")
    var json = false

    /// Prints `object` as JSON if asked for, else `text`.
    func show(_ object: @autoclosure () -> JSON, or text: @autoclosure () -> String) throws(Failure) {
        try writeOutput(Array("\(json ? object().text() : text())\n".utf8))
    }
}

func environmentVariable(_ name: String) -> String? {
    guard let value = ProcessInfo.processInfo.environment[name], !value.isEmpty else { return nil }
    return value
}

/// A date argument.
func date(_ text: String?, option: String) throws(Failure) -> Timestamp? {
    guard let text else { return nil }
    do { return try Timestamp(text) } catch { throw Failure(.usage, "\(option): \(error)") }
}
