import EntitlementSync
import EntitlementSyncStoreKit
import Entitlements
import FileStorage
import Foundation
import HTTPStorage
import SyncCore
import SyncProtocol

#if os(Linux)
import CurlTransport
#else
import URLSessionTransport
#endif

/// The parts of a shop. Tests replace those that differ between platforms.
struct ShopSettings: Sendable {
    var catalog: URL
    var server: String?
    var folder: URL?
    /// The environment whose purchases count; `nil` for that of the App Store.
    var environment: EnvironmentID?
    /// The authority that decides which purchases count.
    var trust = TrustSource.ledger
    /// True to sync purchases before a log-in.
    var syncsBeforeLogIn = false
    /// The language of product names.
    var language = Locale.current.language.languageCode?.identifier ?? "en"
    /// StoreKit; `nil` on systems without it.
    var source = Self.platformSource
    /// The store of this device; `nil` for files in the folder.
    var local: (any KeyValueBackend)?
    /// The connection to the server; `nil` for the platform's.
    var transport: (any HTTPTransport)?
    var host = HostServices.system

    private static var platformSource: (any TransactionSource)? {
        #if canImport(StoreKit)
        StoreKitSource()
        #else
        nil
        #endif
    }

    private static func platformTransport() throws(TransportError) -> any HTTPTransport {
        #if os(Linux)
        try CurlClient()
        #else
        URLSessionClient()
        #endif
    }

    /// The folder for the data of this app.
    private func dataFolder() throws(ShopError) -> URL {
        if let folder { return folder }
        #if os(Linux)
        let environment = ProcessInfo.processInfo.environment
        let state = environment["XDG_STATE_HOME"] ?? environment["HOME"].map { $0 + "/.local/state" }
        guard let state, state.hasPrefix("/") else {
            throw ShopError(.storage, "the folder for purchases is unknown: set HOME, or pass a folder")
        }
        return URL(filePath: state).appending(path: "\(ProcessInfo.processInfo.processName)/entitlements")
        #else
        // Apps on Apple TV may write to the folder for caches only.
        #if os(tvOS)
        let kind = FileManager.SearchPathDirectory.cachesDirectory
        #else
        let kind = FileManager.SearchPathDirectory.applicationSupportDirectory
        #endif
        guard let data = FileManager.default.urls(for: kind, in: .userDomainMask).first else {
            throw ShopError(.storage, "the folder for purchases is unknown: pass a folder")
        }
        // On macOS, apps outside of a sandbox share the folder.
        let name = Bundle.main.bundleIdentifier ?? ProcessInfo.processInfo.processName
        return data.appending(path: "\(name)/EntitlementSync")
        #endif
    }

    /// Opens the parts. Needs no network.
    ///
    /// - Parameter onEvent: Receives the events of the feed.
    func open(
        onEvent: @escaping @Sendable (StoreKitFeed.Event) async -> Void
    ) async throws(ShopError) -> OpenedShop {
        let folder = try dataFolder()
        do {
            let bundled = try Catalog.json(at: catalog)
            let storeKit = environment == nil ? await source?.environment() : nil
            let environment = environment ?? storeKit ?? .production
            let local = local ?? FileBackend(folder: folder.appending(path: "purchases").path)
            var parts: (client: AccountClient, tokens: SessionTokens, http: HTTPBackend)?
            if let server {
                let transport = try transport ?? Self.platformTransport()
                let client: AccountClient
                do { client = try AccountClient(server: server, transport: transport, host: host) } catch {
                    throw ShopError(.noServer, error.message)
                }
                let tokens = SessionTokens(client, store: Self.sessions("session", in: folder, of: server), host: host)
                let http = try HTTPBackend(
                    server: server, transport: transport, host: host, token: tokens.token(refused:))
                parts = (client, tokens, http)
            }
            let store = try await EntitlementStore(
                catalog: bundled, local: local, remote: parts?.http.retrying(host: host), server: parts?.http,
                environment: environment, trust: trust, host: host)
            return OpenedShop(
                store: store, local: local, model: await EntitlementModel(store), client: parts?.client,
                tokens: parts?.tokens,
                feed: source.map { StoreKitFeed(store, source: $0, host: host, onEvent: onEvent) },
                guests: parts.map { _ in GuestStore(store: Self.sessions("guest", in: folder, of: "any server")) },
                serverCatalog: parts.map { ServerCatalog($0.client, store, bundle: catalog, folder: folder) })
        } catch {
            throw ShopError(error)
        }
    }

    private static func sessions(_ name: String, in folder: URL, of server: String) -> any SessionStore {
        let file = SessionFile(
            folder.appending(path: "\(name).json").path, local: folder.standardizedFileURL.path, server: server)
        #if canImport(Security)
        return KeychainSessionStore(name: name, server: server, folder: folder.lastPathComponent, file: file)
        #else
        return file
        #endif
    }
}

/// The opened parts of a shop.
struct OpenedShop: Sendable {
    let store: EntitlementStore
    /// The store of this device.
    let local: any KeyValueBackend
    let model: EntitlementModel
    let client: AccountClient?
    let tokens: SessionTokens?
    let feed: StoreKitFeed?
    /// The guest of this device; `nil` without a server.
    let guests: GuestStore?
    /// The catalogue of the server; `nil` without a server.
    let serverCatalog: ServerCatalog?

    /// The accounts of the server.
    func accounts() throws(ShopError) -> (client: AccountClient, tokens: SessionTokens) {
        guard let client, let tokens else {
            throw ShopError(.noServer, "this app has no server: pass its address to the shop")
        }
        return (client, tokens)
    }

    /// True if a session with the server is stored, also if it cannot be read: a log-out removes it. A guest has none
    /// that a user could end.
    func hasSession() async -> Bool {
        guard !store.account.isGuest else { return false }
        do { return try await tokens?.session() != nil } catch { return true }
    }
}
