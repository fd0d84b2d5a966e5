import Foundation

/// An Apache httpd with mod_dav on a free port of this machine, in its own folder.
///
/// It requires Debian's package apache2-bin.
///
/// All tests of a process share one server.
///
/// ```swift
/// let folder = try ApacheServer.shared.get().makeFolder()
/// let backend = try WebDAVBackend(address: folder.url, transport: transport)
/// ```
public final class ApacheServer: Sendable {
    /// The server of this process, started on first use.
    public static let shared = Result { try ApacheServer() }

    /// True if Apache and the modules are installed.
    public static var isInstalled: Bool {
        ApacheProcess.isInstalled(with: ["dav", "dav_fs", "auth_basic"])
    }

    /// The user name for password-protected folders.
    public static let user = "alice"
    /// The password of ``user``.
    public static let password = "an owl's secret"

    /// A folder on the server.
    public struct Folder: Sendable {
        /// The URL of the folder, `http://127.0.0.1:PORT/NAME/`.
        public let url: String
        /// The path of the folder on disk.
        public let path: String

        /// The path of the folder on the server, with a slash at both ends.
        public let name: String
    }

    /// `127.0.0.1:PORT`.
    public let authority: String
    private let process: ApacheProcess
    private var folder: TemporaryFolder { process.folder }

    private init() throws {
        process = try ApacheProcess(
            modules: ["authn_core", "authn_file", "auth_basic", "authz_user", "dav", "dav_fs"], Self.prepare)
        authority = "127.0.0.1:\(process.port)"
    }

    /// Creates an empty folder.
    ///
    /// - Parameter isGuarded: Pass `true` to require ``user`` and ``password``.
    public func makeFolder(guarded isGuarded: Bool = false) throws -> Folder {
        let name = (isGuarded ? "guarded/" : "open/") + "s\(UInt64.random(in: 0...UInt64.max))"
        let path = folder.path(of: "store/\(name)")
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        try Self.grantAccess(to: path)
        return Folder(url: "http://\(authority)/\(name)/", path: path, name: "/\(name)/")
    }

    /// Copies the files of a folder, including those that other users own, to a new folder.
    public func copy(_ original: Folder) throws -> Folder {
        let copy = try makeFolder()
        try ProcessEnd.run("/bin/cp", "-Rp", original.path + "/.", copy.path)
        try Self.grantAccess(to: copy.path)
        return copy
    }

    /// Sends `bytes` on a new connection, and waits until Apache closes it.
    public func sendRaw(_ bytes: [UInt8]) throws {
        let port = authority.split(separator: ":").last.flatMap { UInt16($0) } ?? 0
        let socket = try LoopbackSocket(port: port)
        guard socket.connect() else {
            throw ApacheProcess.Failure(description: "\(authority): no server listens on this port")
        }
        socket.sendAndClose(bytes)
    }

    /// Gives all users access to the file at `path`, because Apache drops root privileges.
    private static func grantAccess(to path: String) throws {
        guard chmod(path, 0o777) == 0 else {
            throw ApacheProcess.Failure(description: "\(path): the permissions cannot be changed")
        }
    }

    /// Creates the folders and the password file, and returns the configuration.
    private static func prepare(_ folder: TemporaryFolder) throws -> String {
        for name in ["store", "store/open", "store/guarded", "store/closed", "lock"] {
            try FileManager.default.createDirectory(atPath: folder.path(of: name), withIntermediateDirectories: false)
            try grantAccess(to: folder.path(of: name))
        }
        // Apache accepts no plain-text passwords, so the file holds the password's SHA-1 digest in Base64.
        try Data("\(user):{SHA}\(passwordDigest)\n".utf8).write(to: URL(filePath: folder.path(of: "users")))
        return """
            DocumentRoot \(folder.path)/store
            DavLockDB \(folder.path)/lock/db
            <Directory \(folder.path)/store>
              Dav On
              Require all granted
            </Directory>
            <Directory \(folder.path)/store/guarded>
              AuthType Basic
              AuthName owls
              AuthUserFile \(folder.path)/users
              Require user \(user)
            </Directory>
            <Directory \(folder.path)/store/closed>
              Require all denied
            </Directory>
            """
    }

    private static let passwordDigest = "F3jiOG/6xElc3J8/wJSccwUCiv0="
}
