import Entitlements
import FileStorage
import SQLiteStorage
import SyncCore

/// A store that a command line can name.
struct StoreURL {
    /// What kind of store it is, and where.
    enum Place: Equatable {
        case memory
        case file(String)
        case folder(String)
        case sqlite(String)
        case server(ServerStore)
    }

    /// A server, with the credentials that reach it.
    struct ServerStore: Equatable {
        let backend: any KeyValueBackend
        /// The same for whoever may make what is missing; `nil` where that makes no difference.
        var creating: (any KeyValueBackend)?

        static func == (left: Self, right: Self) -> Bool { left.backend.label == right.backend.label }
    }

    let text: String
    let place: Place

    /// `memory:`, `file:DIR`, `folder:DIR`, which a file-sync tool shares, or `sqlite:FILE`.
    ///
    /// - Parameters:
    ///   - text: what was written.
    ///   - option: the option or argument that says so, for the error.
    ///   - server: reaches the server at `http(s)://HOST` or `webdav(s)://HOST/FOLDER`; `nil` where none is meant.
    init(
        _ text: String, option: String, server: ((String) throws -> ServerStore)? = nil
    ) throws {
        if Self.isServer(text) || Self.isWebDAV(text) {
            guard let server else {
                throw Failure(.usage, "\(option): \(text.singleLine) is a server, and this is a store of this machine")
            }
            self.init(text: text, place: .server(try server(text)))
            return
        }
        try self.init(ofThisMachine: text, option: option)
    }

    /// Whether `text` names a server of ours.
    static func isServer(_ text: String) -> Bool { ["http", "https"].contains(scheme(of: text)) }

    /// Whether `text` names a folder of a WebDAV server.
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
                        ? "a file of this machine is sqlite:FILE" : "a folder of this machine is \(scheme):DIR"))
        }
        let path = rest.map(Self.path)
        switch (scheme, path) {
        case ("memory", ""): place = .memory
        case ("file", let path?) where !path.isEmpty: place = .file(path)
        case ("folder", let path?) where !path.isEmpty: place = .folder(path)
        case ("sqlite", let path?) where !path.isEmpty: place = .sqlite(path)
        default:
            throw Failure(
                .usage, "\(option): \"\(text)\" is no store: write file:DIR, sqlite:FILE, folder:DIR or memory:")
        }
        self.text = text
    }

    private init(text: String, place: Place) { (self.text, self.place) = (text, place) }

    /// Where it is; `nil` for memory and servers.
    var path: String? {
        switch place {
        case .memory, .server: nil
        case .file(let path), .folder(let path), .sqlite(let path): path
        }
    }

    /// A store of the same kind at another path.
    func moved(to path: String) -> StoreURL {
        switch place {
        case .memory, .server: self
        case .file: StoreURL(text: "file:\(path)", place: .file(path))
        case .folder: StoreURL(text: "folder:\(path)", place: .folder(path))
        case .sqlite: StoreURL(text: "sqlite:\(path)", place: .sqlite(path))
        }
    }

    /// The store; one that is a remote must be there, unless it may be created.
    ///
    /// - Parameters:
    ///   - cachedByteCount: how much of an SQLite database is kept in memory, about.
    ///   - logByteCount: how long its log becomes, about.
    func open(
        host: HostServices, mayCreateRemote: Bool = false, cachedByteCount: Int = 1 << 20,
        logByteCount: Int = 16 << 20
    ) -> any KeyValueBackend {
        // They wait for other processes by themselves; everything else is told at once.
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
        case .server(let store): mayCreateRemote ? store.creating ?? store.backend : store.backend
        }
    }

    /// The store with all that is whole in it, whatever became of the rest; nobody makes it where it is missing.
    func recoverable() -> any KeyValueBackend {
        switch place {
        case .file(let path): FileBackend(folder: path).forRecovery
        case .folder(let path): FileBackend(folder: path, sharing: .fileSyncTool).forRecovery
        case .memory, .sqlite, .server: open(host: .system).requiringExisting
        }
    }

    /// The store that `text` names, see ``init(_:option:server:)`` and ``open(host:mayCreateRemote:)``.
    static func open(
        _ text: String, host: HostServices, option: String, mayCreateRemote: Bool = false,
        server: ((String) throws -> ServerStore)? = nil
    ) throws -> any KeyValueBackend {
        try StoreURL(text, option: option, server: server).open(host: host, mayCreateRemote: mayCreateRemote)
    }

    /// `file:///a/b` and `file:/a/b` are the same folder, as in other programs.
    private static func path(_ text: String) -> String {
        text.hasPrefix("///") ? String(text.dropFirst(2)) : text
    }
}
