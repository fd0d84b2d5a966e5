import Foundation
import Synchronization
import TestSupport

/// A PgBouncer before a PostgreSQL server, on a free port of this machine. It ends with the object.
///
/// Like the server it does not run as root.
public final class Pooler: Sendable {
    /// The path of the program, which Debian installs outside of the users' search path.
    private static let program = "/usr/sbin/pgbouncer"

    /// True if PgBouncer is installed.
    public static var isInstalled: Bool { FileManager.default.isExecutableFile(atPath: program) }

    /// The port on which it listens.
    public let port: Int
    private let folder: TemporaryFolder
    private let server: PostgreSQLServer
    private let process: Process
    private let end: ProcessEnd

    /// Starts the pooler, and waits until it accepts connections.
    ///
    /// - Parameter mode: The value of `pool_mode`.
    public init(before server: PostgreSQLServer, mode: String) throws {
        self.server = server
        folder = try TemporaryFolder()
        port = Int(try LoopbackSocket(port: 0).bind())
        try Self.write(mode, port: port, server: server, in: folder)
        if geteuid() == 0 {
            try PostgreSQLServer.giveAway(folder.path)
        }
        let command = PostgreSQLServer.ownerPrefix + [Self.program, folder.path(of: "pgbouncer.ini")]
        process = Process()
        process.executableURL = URL(filePath: command[0])
        process.arguments = Array(command.dropFirst())
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        end = ProcessEnd(of: process)
        let limit = ContinuousClock.now + Patience.limit
        while !FileManager.default.fileExists(atPath: folder.path(of: ".s.PGSQL.\(port)")) {
            guard ContinuousClock.now < limit, process.isRunning else {
                throw PostgreSQLServer.Failure(description: log)
            }
            _ = poll(nil, 0, 10)
        }
    }

    deinit {
        kill(process.processIdentifier, SIGKILL)
        end.wait()
    }

    private var log: String { (try? String(contentsOfFile: folder.path(of: "log"), encoding: .utf8)) ?? "no log" }

    /// The URL of a store in `schema`.
    public func url(schema: String) -> String {
        "postgres://postgres@/postgres?host=\(folder.path)&port=\(port)&schema=\(schema)"
    }

    /// Changes the mode. Connections of clients that begin later have it.
    public func reload(mode: String) throws {
        try Self.write(mode, port: port, server: server, in: folder)
        try PostgreSQLServer.run(
            PostgreSQLServer.program("psql"), "-h", folder.path, "-p", "\(port)", "-U", "postgres", "-d", "pgbouncer",
            "-X", "-q", "-c", "RELOAD")
    }

    private static func write(_ mode: String, port: Int, server: PostgreSQLServer, in folder: TemporaryFolder) throws {
        let text = """
            [databases]
            postgres = host=\(server.folder) port=\(server.port) dbname=postgres user=postgres
            [pgbouncer]
            pool_mode = \(mode)
            auth_type = any
            admin_users = postgres
            listen_addr = 127.0.0.1
            listen_port = \(port)
            unix_socket_dir = \(folder.path)
            default_pool_size = 40
            logfile = \(folder.path(of: "log"))

            """
        try Data(text.utf8).write(to: URL(filePath: folder.path(of: "pgbouncer.ini")))
    }
}
