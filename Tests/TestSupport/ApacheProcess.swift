import Foundation
import SyncCoreTesting
import Synchronization

/// An Apache httpd on a free port of this machine, in its own folder. Needs Debian's package apache2-bin.
///
/// It ends with this process, however this process ends: a shell waits for the end of its standard input, which this
/// process holds open, then terminates Apache and removes the folder.
public final class ApacheProcess: Sendable {
    /// Apache did not start to listen.
    public struct Failure: Error, CustomStringConvertible {
        /// The known details.
        public let description: String
    }

    /// The port on 127.0.0.1 on which it listens.
    public let port: Int
    /// The folder with its files. All users may write there, because Apache drops root privileges.
    public let folder: TemporaryFolder
    private let shell: Mutex<ChildProcess>

    private static let program = "/usr/sbin/apache2"

    private static func path(ofModule name: String) -> String { "/usr/lib/apache2/modules/mod_\(name).so" }

    /// Returns `true` if Apache is installed with `modules`, named without `mod_`.
    public static func isInstalled(with modules: [String]) -> Bool {
        modules.allSatisfy { FileManager.default.fileExists(atPath: path(ofModule: $0)) }
            && FileManager.default.isExecutableFile(atPath: program)
    }

    /// Starts Apache and waits until it listens.
    ///
    /// - Parameters:
    ///   - modules: The modules to load in this order, besides those that are always needed.
    ///   - prepare: Creates files in the folder and returns the rest of the configuration.
    /// - Throws: ``Failure``, or the errors of `prepare`.
    public init(modules: [String], _ prepare: (TemporaryFolder) throws -> String) throws {
        for _ in 0..<5 {
            let folder = try TemporaryFolder()
            guard chmod(folder.path, 0o777) == 0 else {
                throw Failure(description: "\(folder.path): its permissions cannot be changed")
            }
            let port = try LoopbackSocket(port: 0).bind()
            let configuration = try Self.configuration(modules, folder, port) + prepare(folder) + "\n"
            try Data(configuration.utf8).write(to: URL(filePath: folder.path(of: "conf")))
            let shell = try ChildProcess(
                "/bin/sh", ["-c", Self.script, "sh", Self.program, folder.path(of: "conf"), folder.path])
            if Self.waitUntilListening(port, folder, shell) {
                (self.port, self.folder) = (Int(port), folder)
                self.shell = Mutex(shell)
                return
            }
            // Another process took the port in the meantime; try the next one.
        }
        throw Failure(description: "\(Self.program) did not start; what it printed on standard error says why")
    }

    /// Background processes of a shell have no standard input, so the watcher reads from another descriptor.
    private static let script = """
        exec 3<&0
        "$1" -f "$2" -DFOREGROUND & apache=$!
        { read -r line <&3; kill -TERM $apache; } & watcher=$!
        wait $apache
        kill $watcher 2>/dev/null
        rm -rf "$3"
        """

    private static func configuration(_ modules: [String], _ folder: TemporaryFolder, _ port: UInt16) -> String {
        let loading = (["mpm_event", "authz_core"] + modules).map { "LoadModule \($0)_module \(path(ofModule: $0))" }
        return """
            \(loading.joined(separator: "\n"))
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

            """
    }

    /// Waits until the port accepts connections and Apache has written its pid file, which proves that the listener is
    /// its own.
    private static func waitUntilListening(_ port: UInt16, _ folder: TemporaryFolder, _ shell: ChildProcess) -> Bool {
        let end = ContinuousClock.now + Patience.limit
        while ContinuousClock.now < end {
            if FileManager.default.fileExists(atPath: folder.path(of: "pid")), isListening(port) { return true }
            if shell.hear(within: .zero) == .end { return false }
            // Yields the processor to Apache for a moment.
            _ = poll(nil, 0, 2)
        }
        return false
    }

    private static func isListening(_ port: UInt16) -> Bool {
        guard let socket = try? LoopbackSocket(port: port) else { return false }
        return socket.connect()
    }
}
