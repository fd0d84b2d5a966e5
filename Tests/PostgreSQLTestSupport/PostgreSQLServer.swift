import Foundation
import Synchronization
public import TestSupport

/// A real PostgreSQL server in a temporary folder, with a Unix socket in that folder and a free port of this machine.
///
/// PostgreSQL does not run as root, so a test that does runs it as the user `postgres`. The server ends with the
/// object, or with the test process. Connections over the socket need no password, connections over the port need
/// ``password``. The user `postgres` owns the database `postgres`.
public final class PostgreSQLServer: Sendable {
    /// A server that did not start, or a program that failed.
    public struct Failure: Error, CustomStringConvertible {
        /// The output on standard error.
        public let description: String
    }

    /// The server that the tests of a process share. Each test uses a schema of its own.
    public static func shared() throws -> PostgreSQLServer { try sharedResult.get() }

    private static let sharedResult = Result { try PostgreSQLServer() }

    /// The password of the user `postgres`.
    public static let password = "correct horse"

    /// The folder of the socket.
    public var folder: String { temporary.path }
    private let temporary: TemporaryFolder
    /// The port, which is also part of the name of the socket.
    public let port: Int
    private let settings: [String: String]
    private let guardian = Mutex<Guardian?>(nil)

    /// The process that started the server, and ends it when its standard input ends.
    private struct Guardian {
        let end: ProcessEnd
        let input: Pipe
    }

    /// Creates a database cluster and starts the server.
    ///
    /// - Parameter settings: Parameters of the server.
    public convenience init(settings: [String: String] = [:]) throws {
        try self.init(settings: settings) { folder in
            let file = "\(folder)/password"
            try Data(Self.password.utf8).write(to: URL(filePath: file))
            try Self.giveAway(folder)
            try Self.runAsOwner(
                "initdb", "--pgdata", "\(folder)/data", "--username", "postgres", "--pwfile", file, "--auth-local",
                "trust", "--auth-host", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync",
                "--no-instructions")
        }
    }

    /// Creates a standby of `primary`, which streams its changes, and starts it.
    ///
    /// - Parameter name: The name for `synchronous_standby_names`.
    public convenience init(standbyOf primary: PostgreSQLServer, name: String) throws {
        try self.init(settings: [:]) { folder in
            try Self.giveAway(folder)
            try Self.runAsOwner(
                "pg_basebackup", "--pgdata", "\(folder)/data", "--write-recovery-conf", "--checkpoint", "fast",
                "--wal-method", "stream", "--no-sync", "--dbname",
                "host=\(primary.folder) port=\(primary.port) user=postgres application_name=\(name)")
        }
    }

    private init(settings: [String: String], create: (_ folder: String) throws -> Void) throws {
        temporary = try TemporaryFolder()
        port = Int(try LoopbackSocket(port: 0).bind())
        self.settings = settings
        try create(folder)
        try start()
    }

    deinit { stop() }

    // MARK: Addresses

    /// The URL of a store in `schema`, over the socket.
    public func url(schema: String, user: String = "postgres", database: String = "postgres") -> String {
        "postgres://\(user)@/\(database)?host=\(folder)&port=\(port)&schema=\(schema)"
    }

    /// A name for a schema that no other test uses.
    public func freshSchema() -> String { "s\(UInt64.random(in: 0 ... .max))" }

    // MARK: Life

    /// Starts the server, and waits until it accepts connections.
    public func start() throws {
        let log = "\(folder)/server.log"
        let input = Pipe.closedOnExec()
        let process = Process()
        process.executableURL = URL(filePath: "/bin/bash")
        // The folder goes as well if the test process was killed; otherwise its owner removes it.
        let script = """
            log=$1; folder=$2; shift 2
            "$@" >>"$log" 2>&1 & child=$!
            read -r line
            kill -INT "$child"; wait "$child"
            [ -n "$line" ] || rm -rf "$folder"
            """
        let options = settings.merging([
            "max_connections": "100", "shared_buffers": "64MB", "listen_addresses": "127.0.0.1",
            "unix_socket_directories": folder, "port": "\(port)", "deadlock_timeout": "100ms",
        ]) { given, _ in given }.sorted { $0.key < $1.key }.flatMap { ["-c", "\($0.key)=\($0.value)"] }
        process.arguments =
            ["-c", script, "sh", log, folder] + Self.ownerPrefix
            + [Self.program("postgres"), "-D", "\(folder)/data"] + options
        process.standardInput = input
        process.standardOutput = FileHandle.nullDevice
        try? FileManager.default.removeItem(atPath: "\(folder)/data/postmaster.pid")
        try process.run()
        let end = ProcessEnd(of: process)
        guardian.withLock { $0 = Guardian(end: end, input: input) }
        let limit = ContinuousClock.now + Patience.limit
        while !(pidLines.last ?? "").hasPrefix("ready") {
            guard ContinuousClock.now < limit, process.isRunning else {
                throw Failure(description: (try? String(contentsOfFile: log, encoding: .utf8)) ?? "no log")
            }
            _ = poll(nil, 0, 10)
        }
    }

    /// Ends the server, and waits until it has ended.
    public func stop() {
        let guardian = guardian.withLock { guardian in
            defer { guardian = nil }
            return guardian
        }
        guard let guardian else { return }
        try? guardian.input.fileHandleForWriting.write(contentsOf: Data("stop\n".utf8))
        try? guardian.input.fileHandleForWriting.close()
        guardian.end.wait()
    }

    /// Kills all processes of the server with SIGKILL, and waits until they have ended.
    public func kill() {
        guard let process = processID else { return }
        // The children of a dead postmaster end on their own, but only when they look.
        let children = Self.children(of: process)
        for id in [process] + children { _ = Foundation.kill(id, SIGKILL) }
        while ([process] + children).contains(where: Self.isRunning) { _ = poll(nil, 0, 5) }
        stop()
    }

    /// The id of the server's first process; `nil` if it does not run.
    public var processID: Int32? { pidLines.first.flatMap { Int32($0) } }

    private var pidLines: [Substring] {
        let text = (try? String(contentsOfFile: "\(folder)/data/postmaster.pid", encoding: .utf8)) ?? ""
        return text.split(separator: "\n")
    }

    private static func children(of process: Int32) -> [Int32] {
        let text = try? String(contentsOfFile: "/proc/\(process)/task/\(process)/children", encoding: .utf8)
        return (text ?? "").split(separator: " ").compactMap { Int32($0) }
    }

    /// Returns `true` unless the process has ended. One that its parent has not asked about has ended as well.
    private static func isRunning(_ process: Int32) -> Bool {
        guard let status = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8) else { return false }
        return status.split(separator: ")").last?.split(separator: " ").first != "Z"
    }

    // MARK: Programs

    /// Runs SQL as the user `postgres`, and returns the rows, with columns separated by `|`.
    @discardableResult
    public func sql(_ text: String, database: String = "postgres") throws -> String {
        try Self.run(
            Self.program("psql"), "-h", folder, "-p", "\(port)", "-U", "postgres", "-d", database, "-X", "-q", "-A",
            "-t", "-v", "ON_ERROR_STOP=1", "-c", text)
    }

    /// Starts SQL as the user `postgres`, and returns without waiting for its end.
    public func startSQL(_ text: String) throws -> ProcessEnd {
        let process = Process()
        process.executableURL = URL(filePath: Self.program("psql"))
        process.arguments = [
            "-h", folder, "-p", "\(port)", "-U", "postgres", "-d", "postgres", "-X", "-q", "-v", "ON_ERROR_STOP=1",
            "-c",
            text,
        ]
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        return ProcessEnd(of: process)
    }

    /// The log of the server.
    public var log: String { (try? String(contentsOfFile: "\(folder)/server.log", encoding: .utf8)) ?? "" }

    /// Makes the server offer TLS to new connections, with a self-signed certificate for `name`, such as
    /// `IP:127.0.0.1`.
    ///
    /// - Returns: The path of the certificate.
    public func offerTLS(as name: String) throws -> String {
        let (certificate, key) = ("\(folder)/\(freshSchema()).pem", "\(folder)/\(freshSchema()).key")
        let command =
            Self.ownerPrefix + [
                "/usr/bin/openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=\(name)", "-addext",
                "subjectAltName=\(name)", "-batch",
            ]
        try Self.run(command[0], arguments: Array(command.dropFirst()))
        for (setting, value) in [("ssl_cert_file", certificate), ("ssl_key_file", key), ("ssl", "on")] {
            try sql("ALTER SYSTEM SET \(setting) = '\(value)'")
        }
        try sql("SELECT pg_reload_conf()")
        let limit = ContinuousClock.now + Patience.limit
        // A connection has the settings that the server has when it begins.
        while try sql("SHOW ssl_cert_file") != certificate {
            guard ContinuousClock.now < limit else { throw Failure(description: log) }
            _ = poll(nil, 0, 10)
        }
        return certificate
    }

    /// Writes the store in `schema` to a file, and returns its path.
    public func dump(schema: String) throws -> String {
        let file = "\(folder)/\(freshSchema()).sql"
        try Self.run(
            Self.program("pg_dump"), "-h", folder, "-p", "\(port)", "-U", "postgres", "-d", "postgres", "-n", schema,
            "-f", file)
        return file
    }

    /// Replaces the store in `schema` by that in a file of ``dump(schema:)``.
    public func restore(_ file: String, schema: String) throws {
        try sql("DROP SCHEMA IF EXISTS \(schema) CASCADE")
        try Self.run(
            Self.program("psql"), "-h", folder, "-p", "\(port)", "-U", "postgres", "-d", "postgres", "-X", "-q", "-v",
            "ON_ERROR_STOP=1", "-o", "/dev/null", "-f", file)
    }

    /// The path of a program of PostgreSQL. Debian installs each version in a folder of its own.
    public static func program(_ name: String) -> String {
        let root = "/usr/lib/postgresql"
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: root)) ?? []
        let newest = versions.compactMap { Int($0) }.max().map { "\(root)/\($0)/bin/\(name)" }
        return newest ?? "/usr/bin/\(name)"
    }

    /// The beginning of a command line that runs a program as the owner of the database.
    private static let ownerPrefix =
        geteuid() == 0 ? ["/usr/bin/setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] : []

    private static func giveAway(_ folder: String) throws {
        if geteuid() == 0 { try run("/bin/chown", "-R", "postgres:postgres", folder) }
    }

    private static func runAsOwner(_ name: String, _ arguments: String...) throws {
        let command = ownerPrefix + [program(name)] + arguments
        try run(command[0], arguments: Array(command.dropFirst()))
    }

    @discardableResult
    private static func run(_ program: String, _ arguments: String...) throws -> String {
        try run(program, arguments: arguments)
    }

    @discardableResult
    private static func run(_ program: String, arguments: [String]) throws -> String {
        let process = Process()
        process.executableURL = URL(filePath: program)
        process.arguments = arguments
        // The present folder may be closed to the owner of the database.
        process.currentDirectoryURL = URL(filePath: "/")
        let (output, errors) = (Pipe.closedOnExec(), Pipe.closedOnExec())
        process.standardInput = FileHandle.nullDevice
        (process.standardOutput, process.standardError) = (output, errors)
        try process.run()
        let complaint = Mutex("")
        let reader = Thread { complaint.withLock { $0 = errors.textToEnd() } }
        reader.start()
        let text = output.textToEnd()
        let exitCode = ProcessEnd(of: process).wait()
        while !reader.isFinished { _ = poll(nil, 0, 1) }
        guard exitCode == 0 else {
            throw Failure(
                description: "\(program) \(arguments.joined(separator: " ")) ended with \(exitCode): "
                    + complaint.withLock { $0 })
        }
        return text.trimmingCharacters(in: .newlines)
    }
}
