import Foundation
import SyncCore
import TestSupport

/// Apache httpd with mod_dav on a loopback port, in a folder of its own; Debian's package apache2.
final class ApacheServer: Sendable {
    let folder: TemporaryFolder
    let port: Int
    private let processIdentifier: Int32

    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    init() throws {
        folder = try TemporaryFolder()
        for name in ["store", "lock"] {
            try FileManager.default.createDirectory(atPath: folder.path(of: name), withIntermediateDirectories: true)
        }
        // A port may be taken between the look and the start: then the next one.
        for _ in 0..<20 {
            let port = Int.random(in: 20_000..<32_000)
            if let identifier = try Self.start(in: folder, port) {
                (self.port, processIdentifier) = (port, identifier)
                return
            }
        }
        let log = try? String(contentsOfFile: folder.path(of: "log"), encoding: .utf8)
        throw Failure(description: "apache2 does not start (apt-get install apache2): \(log ?? "it left no log")")
    }

    private static func start(in folder: TemporaryFolder, _ port: Int) throws -> Int32? {
        let modules = ["mpm_event", "authz_core", "dav", "dav_fs"].map {
            "LoadModule \($0)_module /usr/lib/apache2/modules/mod_\($0).so"
        }
        let root = geteuid() == 0 ? "User www-data\nGroup www-data\n" : ""
        let configuration = """
            \(modules.joined(separator: "\n"))
            ServerName 127.0.0.1
            Listen 127.0.0.1:\(port)
            \(root)PidFile \(folder.path(of: "pid"))
            ErrorLog \(folder.path(of: "log"))
            DocumentRoot \(folder.path(of: "store"))
            DavLockDB \(folder.path(of: "lock"))/db
            <Directory \(folder.path(of: "store"))>
              Dav On
              Require all granted
            </Directory>

            """
        try configuration.write(toFile: folder.path(of: "conf"), atomically: true, encoding: .utf8)
        let rights = try Process.run(URL(fileURLWithPath: "/bin/chmod"), arguments: ["-R", "a+rwX", folder.path])
        rights.waitUntilExit()
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/sbin/apache2")
        process.arguments = ["-f", folder.path(of: "conf"), "-DFOREGROUND"]
        process.standardError = FileHandle.nullDevice
        try process.run()
        // It listens before it writes this.
        while process.isRunning {
            if FileManager.default.fileExists(atPath: folder.path(of: "pid")) { return process.processIdentifier }
            sched_yield()
        }
        return nil
    }

    /// The address of a folder that is there, empty.
    func makeFolder() throws -> String {
        let name = "s\(UInt64.random(in: 0...UInt64.max))"
        let path = folder.path(of: "store/\(name)")
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        guard chmod(path, 0o777) == 0 else { throw Failure(description: "chmod \(path)") }
        return "http://127.0.0.1:\(port)/\(name)/"
    }

    deinit {
        kill(processIdentifier, SIGTERM)
        // Its children end with it; the folder must not go before.
        while FileManager.default.fileExists(atPath: folder.path(of: "pid")), kill(processIdentifier, 0) == 0 {
            sched_yield()
        }
    }
}
