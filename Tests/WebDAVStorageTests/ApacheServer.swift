import Foundation
import SyncCore
import TestSupport

/// Apache httpd with mod_dav on a loopback port, in a folder of its own; Debian's package apache2.
final class ApacheServer {
    let folder: TemporaryFolder
    private let process: Process
    private(set) var port = 0

    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    init() throws {
        folder = try TemporaryFolder()
        process = Process()
        for name in ["store", "lock"] {
            try FileManager.default.createDirectory(atPath: folder.path(of: name), withIntermediateDirectories: true)
        }
        // A port may be taken between the look and the start: then the next one.
        for _ in 0..<20 {
            port = Int.random(in: 20_000..<50_000)
            if try start() { return }
        }
        throw Failure(description: "apache2 does not start: \(log)")
    }

    private var log: String { (try? String(contentsOfFile: folder.path(of: "log"), encoding: .utf8)) ?? "no log" }

    private func start() throws -> Bool {
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
        let owner = Process()
        owner.executableURL = URL(fileURLWithPath: "/bin/chmod")
        owner.arguments = ["-R", "a+rwX", folder.path]
        try owner.run()
        owner.waitUntilExit()
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/sbin/apache2")
        process.arguments = ["-f", folder.path(of: "conf"), "-DFOREGROUND"]
        process.standardError = FileHandle.nullDevice
        try process.run()
        for _ in 0..<2_000 {
            if connects() {
                running = process
                return true
            }
            guard process.isRunning else { return false }
            usleep(5_000)
        }
        process.terminate()
        process.waitUntilExit()
        return false
    }

    private var running: Process?

    private func connects() -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
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
        guard let running else { return }
        running.terminate()
        running.waitUntilExit()
    }
}
