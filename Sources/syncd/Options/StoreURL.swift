import Entitlements
import FileStorage
import SQLiteStorage
import SyncCore

/// The URL of a store on the command line.
struct StoreURL {
    /// The kind of a store on this machine. The raw values are the schemes.
    enum Kind: String {
        case file, folder, sqlite
    }

    /// The kind of the store and its location.
    enum Place: Equatable {
        case memory
        case local(Kind, String)
        case postgreSQL(DatabaseServer)
        case server(ServerStore)
    }

    /// A store on a server, with its credentials.
    struct ServerStore: Equatable {
        let backend: any KeyValueBackend
        /// The same store with permission to create it if missing; `nil` if `backend` serves both cases.
        var creating: (any KeyValueBackend)?

        static func == (left: Self, right: Self) -> Bool { left.backend.label == right.backend.label }
    }

    let text: String
    let place: Place

    /// Parses `memory:`, `file:DIR`, `sqlite:FILE`, `folder:DIR` (shared by a file-sync tool),
    /// `postgres://USER@HOST/DATABASE`, or the URL of a server.
    ///
    /// - Parameters:
    ///   - text: the URL.
    ///   - option: the name of the option or argument, for the error.
    ///   - server: opens the server at `http(s)://HOST` or `webdav(s)://HOST/FOLDER`; `nil` if servers are not allowed.
    init(_ text: String, option: String, server: ((String) throws -> ServerStore)? = nil) throws {
        if Self.isServer(text) || Self.isWebDAV(text) {
            guard let server else {
                throw Failure(.usage, "\(option) must be a store on this machine, not the server \(text.singleLine)")
            }
            self.init(text: text, place: .server(try server(text)))
            return
        }
        if DatabaseServer.accepts(text) {
            self.init(text: text, place: .postgreSQL(try DatabaseServer(text, option: option)))
            return
        }
        try self.init(ofThisMachine: text, option: option)
    }

    /// Returns `true` for the URL of an EntitlementSync server.
    static func isServer(_ text: String) -> Bool { ["http", "https"].contains(scheme(of: text)) }

    /// Returns `true` for the URL of a folder on a WebDAV server.
    static func isWebDAV(_ text: String) -> Bool { ["webdav", "webdavs"].contains(scheme(of: text)) }

    private static func scheme(of text: String) -> String { text.prefix { $0 != ":" }.lowercased() }

    private init(ofThisMachine text: String, option: String) throws(Failure) {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        let (kind, rest) = (Kind(rawValue: parts[0]), parts.count == 2 ? parts[1] : "")
        if let kind, rest.hasPrefix("//"), !rest.hasPrefix("///") {
            let form = kind == .sqlite ? "sqlite:FILE for a file" : "\(kind):DIR for a folder"
            throw Failure(.usage, "\(option): \"\(text)\" names a host: write \(form) on this machine")
        }
        // `file:///a/b` and `file:/a/b` are the same folder, as in other programs.
        let path = rest.hasPrefix("///") ? String(rest.dropFirst(2)) : rest
        if let kind, !path.isEmpty {
            place = .local(kind, path)
        } else if text == "memory:" {
            place = .memory
        } else {
            throw Failure(.usage, "\(option) must be file:DIR, sqlite:FILE, folder:DIR or memory:, not \"\(text)\"")
        }
        self.text = text
    }

    private init(text: String, place: Place) { (self.text, self.place) = (text, place) }

    /// The store's path; `nil` for memory and servers.
    var path: String? { if case .local(_, let path) = place { path } else { nil } }

    /// `true` for an SQLite database.
    var isDatabase: Bool { if case .local(.sqlite, _) = place { true } else { false } }

    /// A store of the same kind at another path.
    func moved(to path: String) -> StoreURL {
        guard case .local(let kind, _) = place else { return self }
        return StoreURL(text: "\(kind):\(path)", place: .local(kind, path))
    }

    /// The same store, which refuses a server without a synchronous standby; `nil` for a store on one machine.
    func requiringReplica() -> StoreURL? {
        guard case .postgreSQL(let server) = place else { return nil }
        return StoreURL(text: text, place: .postgreSQL(server.requiringReplica()))
    }

    /// Opens the store. A remote store must exist, unless it may be created.
    ///
    /// - Parameters:
    ///   - cachedByteCount: the approximate size of the page caches of an SQLite database; 0 for SQLite's default.
    ///   - logByteCount: the approximate maximum size of its write-ahead log.
    func open(
        host: HostServices, mayCreateRemote: Bool = false, cachedByteCount: Int = 0,
        logByteCount: Int = 16 << 20
    ) -> any KeyValueBackend {
        // Backends wait for other processes themselves. All other errors are reported at once, without retries.
        switch place {
        case .memory: MemoryBackend(host: host)
        case .local(.file, let path):
            FileBackend(folder: path, creating: mayCreateRemote ? .whenNeeded : .unlessRemote, host: host)
        case .local(.folder, let path):
            FileBackend(
                folder: path, sharing: .fileSyncTool, creating: mayCreateRemote ? .whenNeeded : .unlessRemote,
                host: host)
        case .local(.sqlite, let path):
            SQLiteBackend(
                path: path, creating: mayCreateRemote ? .whenNeeded : .unlessRemote, host: host,
                cachedByteCount: cachedByteCount, logByteCount: logByteCount)
        case .postgreSQL(let server): server.open(host: host, mayCreateRemote: mayCreateRemote)
        case .server(let store): mayCreateRemote ? store.creating ?? store.backend : store.backend
        }
    }

    /// Opens the store to read its intact entries. A missing store is not created.
    func recoverable() -> any KeyValueBackend {
        switch place {
        case .local(.file, let path): FileBackend(folder: path).forRecovery
        case .local(.folder, let path): FileBackend(folder: path, sharing: .fileSyncTool).forRecovery
        case .memory, .local(.sqlite, _), .postgreSQL, .server: open(host: .system).requiringExisting
        }
    }
}
