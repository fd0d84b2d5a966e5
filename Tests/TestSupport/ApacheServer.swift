import Foundation
import SyncCoreTesting
import Synchronization

/// Apache httpd with mod_dav on a free port of this machine, in a folder of its own: Debian's package apache2-bin.
///
/// There is one for all tests of a process. It ends with the process, however that ends: a shell waits for the end of
/// its own input, which this process holds, then ends Apache by its id and removes the folder.
///
/// ```swift
/// let folder = try ApacheServer.shared.get().makeFolder()
/// let backend = try WebDAVBackend(address: folder.url, transport: transport)
/// ```
public final class ApacheServer: Sendable {
    /// The one of this process, started when it is first asked for.
    public static let shared = Result { try ApacheServer() }

    /// Whether it can be started at all.
    public static var isInstalled: Bool {
        ["dav", "dav_fs", "auth_basic"].allSatisfy { FileManager.default.fileExists(atPath: path(ofModule: $0)) }
            && FileManager.default.isExecutableFile(atPath: program)
    }

    /// The user of guarded folders.
    public static let user = "alice"
    /// The password of ``user``.
    public static let password = "an owl's secret"

    /// It did not get as far as listening.
    public struct Failure: Error, CustomStringConvertible {
        /// What is known of the reason.
        public let description: String
    }

    /// A folder on the server.
    public struct Folder: Sendable {
        /// Its address, `http://127.0.0.1:PORT/NAME/`.
        public let url: String
        /// Where it is on the disk.
        public let path: String

        /// Its path on the server, with a slash at both ends.
        public let name: String
    }

    /// `127.0.0.1:PORT`.
    public let authority: String
    private let folder: TemporaryFolder
    private let shell: Mutex<ChildProcess>

    private static let program = "/usr/sbin/apache2"

    private static func path(ofModule name: String) -> String { "/usr/lib/apache2/modules/mod_\(name).so" }

    private init() throws {
        for _ in 0..<5 {
            let folder = try TemporaryFolder()
            let port = try Self.freePort()
            try Self.prepare(folder, port)
            // Background processes of a shell have no input; so the watcher reads by another number.
            let script = """
                exec 3<&0
                "$1" -f "$2" -DFOREGROUND & apache=$!
                { read -r line <&3; kill -TERM $apache; } & watcher=$!
                wait $apache
                kill $watcher 2>/dev/null
                rm -rf "$3"
                """
            let shell = try ChildProcess(
                "/bin/sh", ["-c", script, "sh", Self.program, folder.path(of: "conf"), folder.path])
            if Self.waitUntilListening(port, folder, shell) {
                (self.authority, self.folder) = ("127.0.0.1:\(port)", folder)
                self.shell = Mutex(shell)
                return
            }
            // Somebody else took the port in between: the next one.
        }
        throw Failure(description: "\(Self.program) did not start; what it printed on standard error says why")
    }

    /// The address of a new, empty folder.
    ///
    /// - Parameter isGuarded: whether it wants ``user`` and ``password``.
    public func makeFolder(guarded isGuarded: Bool = false) throws -> Folder {
        let name = (isGuarded ? "guarded/" : "open/") + "s\(UInt64.random(in: 0...UInt64.max))"
        let path = folder.path(of: "store/\(name)")
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        try Self.admitEverybody(to: path)
        return Folder(url: "http://\(authority)/\(name)/", path: path, name: "/\(name)/")
    }

    /// Copies the files of a folder, those of another user too, into a new one.
    public func copy(_ original: Folder) throws -> Folder {
        let copy = try makeFolder()
        let copying = try Process.run(
            URL(filePath: "/bin/cp"), arguments: ["-Rp", original.path + "/.", copy.path])
        copying.waitUntilExit()
        guard copying.terminationStatus == 0 else { throw Failure(description: "cp -Rp \(original.path) failed") }
        try Self.admitEverybody(to: copy.path)
        return copy
    }

    /// Sends `bytes` on a connection of their own and closes it, when Apache has read them.
    public func sendRaw(_ bytes: [UInt8]) throws {
        let port = authority.split(separator: ":").last.flatMap { UInt16($0) } ?? 0
        let socket = try LoopbackSocket(port: port)
        guard socket.connect() else { throw Failure(description: "\(authority): nobody listens") }
        socket.sendAndClose(bytes)
    }

    /// Started by root, Apache works as another user.
    private static func admitEverybody(to path: String) throws {
        guard chmod(path, 0o777) == 0 else { throw Failure(description: "\(path): its rights cannot be changed") }
    }

    private static func prepare(_ folder: TemporaryFolder, _ port: UInt16) throws {
        try admitEverybody(to: folder.path)
        for name in ["store", "store/open", "store/guarded", "store/closed", "lock"] {
            try FileManager.default.createDirectory(atPath: folder.path(of: name), withIntermediateDirectories: false)
            try admitEverybody(to: folder.path(of: name))
        }
        // SHA-1 of the password: Apache takes no plain one.
        try write("\(user):{SHA}\(passwordDigest)\n", to: folder.path(of: "users"))
        try write(configuration(folder, port), to: folder.path(of: "conf"))
    }

    private static let passwordDigest = "F3jiOG/6xElc3J8/wJSccwUCiv0="

    private static func write(_ text: String, to path: String) throws {
        try Data(text.utf8).write(to: URL(filePath: path))
    }

    private static func configuration(_ folder: TemporaryFolder, _ port: UInt16) -> String {
        let modules = [
            "mpm_event", "authz_core", "authn_core", "authn_file", "auth_basic", "authz_user", "dav", "dav_fs",
        ].map { "LoadModule \($0)_module \(path(ofModule: $0))" }
        return """
            \(modules.joined(separator: "\n"))
            ServerName 127.0.0.1
            Listen 127.0.0.1:\(port)
            \(geteuid() == 0 ? "User www-data\nGroup www-data" : "")
            # Processes that come and go would close connections on which a request is on its way.
            StartServers 1
            ServerLimit 1
            ThreadsPerChild 64
            MaxRequestWorkers 64
            MaxKeepAliveRequests 0
            PidFile \(folder.path)/pid
            ErrorLog \(folder.path)/log
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

    /// Asks until somebody listens and Apache has said that it is its own: it writes its id once it has the port.
    private static func waitUntilListening(_ port: UInt16, _ folder: TemporaryFolder, _ shell: ChildProcess) -> Bool {
        let end = ContinuousClock.now + .seconds(30)
        while ContinuousClock.now < end {
            if FileManager.default.fileExists(atPath: folder.path(of: "pid")), isListening(port) { return true }
            if shell.hear(within: .zero) == .end { return false }
            // Leaves the processor to it for a moment.
            _ = poll(nil, 0, 2)
        }
        return false
    }

    private static func isListening(_ port: UInt16) -> Bool {
        guard let socket = try? LoopbackSocket(port: port) else { return false }
        return socket.connect()
    }

    private static func freePort() throws -> UInt16 {
        try LoopbackSocket(port: 0).bind()
    }
}

/// A socket of this machine, closed with the object.
private final class LoopbackSocket {
    private let descriptor: Int32
    private var address = sockaddr_in()
    private var length = socklen_t(MemoryLayout<sockaddr_in>.size)

    init(port: UInt16) throws {
        #if os(Linux)
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        #else
        descriptor = socket(AF_INET, SOCK_STREAM, 0)
        #endif
        guard descriptor >= 0 else { throw CocoaError(.fileReadUnknown) }
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr = in_addr(s_addr: in_addr_t(0x7F00_0001).bigEndian)
    }

    deinit { close(descriptor) }

    func connect() -> Bool { calling { Foundation.connect(descriptor, $0, length) } == 0 }

    /// Sends all, says that this was it, and reads until the other side closes.
    func sendAndClose(_ bytes: [UInt8]) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
        shutdown(descriptor, Int32(SHUT_WR))
        var buffer = [UInt8](repeating: 0, count: 4_096)
        while recv(descriptor, &buffer, buffer.count, 0) > 0 {}
    }

    /// Binds it and answers the port.
    func bind() throws -> UInt16 {
        guard calling({ Foundation.bind(descriptor, $0, length) }) == 0,
            calling({ getsockname(descriptor, $0, &length) }) == 0
        else { throw CocoaError(.fileReadUnknown) }
        return UInt16(bigEndian: address.sin_port)
    }

    private func calling(_ body: (UnsafeMutablePointer<sockaddr>) -> Int32) -> Int32 {
        withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1, body)
        }
    }
}
