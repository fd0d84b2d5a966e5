import Entitlements
import FileStorage
import SQLiteStorage
import SyncCore

/// The URL of a store on the command line.
struct StoreURL {
    /// The kind of the store and its location.
    enum Place: Equatable {
        case memory
        case file(String)
        case folder(String)
        case sqlite(String)
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
    init(
        _ text: String, option: String, server: ((String) throws -> ServerStore)? = nil
    ) throws {
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
        let (scheme, rest) = (parts[0], parts.count == 2 ? parts[1] : nil)
        if ["file", "folder", "sqlite"].contains(scheme), let rest, rest.hasPrefix("//"), !rest.hasPrefix("///") {
            throw Failure(
                .usage,
                "\(option): \"\(text)\" names a host: "
                    + (scheme == "sqlite"
                        ? "write sqlite:FILE for a file on this machine"
                        : "write \(scheme):DIR for a folder on this machine"))
        }
        let path = rest.map(Self.path)
        switch (scheme, path) {
        case ("memory", ""): place = .memory
        case ("file", let path?) where !path.isEmpty: place = .file(path)
        case ("folder", let path?) where !path.isEmpty: place = .folder(path)
        case ("sqlite", let path?) where !path.isEmpty: place = .sqlite(path)
        default:
            throw Failure(
                .usage, "\(option) must be file:DIR, sqlite:FILE, folder:DIR or memory:, not \"\(text)\"")
        }
        self.text = text
    }

    private init(text: String, place: Place) { (self.text, self.place) = (text, place) }

    /// The store's path; `nil` for memory and servers.
    var path: String? {
        switch place {
        case .memory, .postgreSQL, .server: nil
        case .file(let path), .folder(let path), .sqlite(let path): path
        }
    }

    /// A store of the same kind at another path.
    func moved(to path: String) -> StoreURL {
        switch place {
        case .memory, .postgreSQL, .server: self
        case .file: StoreURL(text: "file:\(path)", place: .file(path))
        case .folder: StoreURL(text: "folder:\(path)", place: .folder(path))
        case .sqlite: StoreURL(text: "sqlite:\(path)", place: .sqlite(path))
        }
    }

    /// The same store, which refuses a server without a synchronous standby; `nil` for a store on one machine.
    func requiringReplica() -> StoreURL? {
        guard case .postgreSQL(let server) = place else { return nil }
        return StoreURL(text: text, place: .postgreSQL(server.requiringReplica()))
    }

    /// Opens the store. A remote store must exist, unless it may be created.
    ///
    /// - Parameters:
    ///   - cachedByteCount: the approximate size of the memory cache of an SQLite database.
    ///   - logByteCount: the approximate maximum size of its write-ahead log.
    func open(
        host: HostServices, mayCreateRemote: Bool = false, cachedByteCount: Int = 1 << 20,
        logByteCount: Int = 16 << 20
    ) -> any KeyValueBackend {
        // Backends wait for other processes themselves. All other errors are reported at once, without retries.
        switch place {
        case .memory: MemoryBackend(host: host)
        case .file(let path):
            FileBackend(folder: path, creating: mayCreateRemote ? .whenNeeded : .unlessRemote, host: host)
        case .folder(let path):
            FileBackend(
                folder: path, sharing: .fileSyncTool, creating: mayCreateRemote ? .whenNeeded : .unlessRemote,
                host: host)
        case .sqlite(let path):
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
        case .file(let path): FileBackend(folder: path).forRecovery
        case .folder(let path): FileBackend(folder: path, sharing: .fileSyncTool).forRecovery
        case .memory, .sqlite, .postgreSQL, .server: open(host: .system).requiringExisting
        }
    }

    /// Parses a URL and opens its store.
    static func open(
        _ text: String, host: HostServices, option: String, mayCreateRemote: Bool = false,
        server: ((String) throws -> ServerStore)? = nil
    ) throws -> any KeyValueBackend {
        try StoreURL(text, option: option, server: server).open(host: host, mayCreateRemote: mayCreateRemote)
    }

    /// Returns the path of a URL: `file:///a/b` and `file:/a/b` are the same folder, as in other programs.
    private static func path(_ text: String) -> String {
        text.hasPrefix("///") ? String(text.dropFirst(2)) : text
    }
}
