import Foundation
import SyncCoreTesting
import Synchronization

/// Apache httpd on a free port of this machine, in a folder of its own: Debian's package apache2-bin.
///
/// It ends with this process, however that ends: a shell waits for the end of its own input, which this process holds,
/// then ends Apache by its id and removes the folder.
public final class ApacheProcess: Sendable {
    /// It did not get as far as listening.
    public struct Failure: Error, CustomStringConvertible {
        /// What is known of the reason.
        public let description: String
    }

    /// Where it listens, on 127.0.0.1.
    public let port: Int
    /// What it keeps its files in. Everybody may write there: started by root, Apache works as another user.
    public let folder: TemporaryFolder
    private let shell: Mutex<ChildProcess>

    private static let program = "/usr/sbin/apache2"

    private static func path(ofModule name: String) -> String { "/usr/lib/apache2/modules/mod_\(name).so" }

    /// Whether there is one that has `modules`, named without `mod_`.
    public static func isInstalled(with modules: [String]) -> Bool {
        modules.allSatisfy { FileManager.default.fileExists(atPath: path(ofModule: $0)) }
            && FileManager.default.isExecutableFile(atPath: program)
    }

    /// Starts it and waits until it listens.
    ///
    /// - Parameters:
    ///   - modules: which modules it loads beside those that it always needs, in this order.
    ///   - prepare: makes what it needs in its folder, and answers the rest of its configuration.
    /// - Throws: ``Failure``, or what `prepare` throws.
    public init(modules: [String], _ prepare: (TemporaryFolder) throws -> String) throws {
        for _ in 0..<5 {
            let folder = try TemporaryFolder()
            guard chmod(folder.path, 0o777) == 0 else {
                throw Failure(description: "\(folder.path): its rights cannot be changed")
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
            // Somebody else took the port in between: the next one.
        }
        throw Failure(description: "\(Self.program) did not start; what it printed on standard error says why")
    }

    /// Background processes of a shell have no input; so the watcher reads by another number.
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
}
