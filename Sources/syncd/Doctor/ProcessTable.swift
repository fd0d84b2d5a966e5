import Foundation

/// The processes of this machine, as far as this user can see them. Without `/proc` nothing is found.
enum ProcessTable {
    /// The name of the program of a process; `nil` if there is no such process.
    static func name(of process: Int32) -> String? {
        (try? String(contentsOfFile: "/proc/\(process)/comm", encoding: .utf8))?
            .trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// "process 7 (syncd)".
    static func description(of process: Int32) -> String {
        "process \(process)" + (name(of: process).map { " (\($0))" } ?? "")
    }

    /// Returns `true` if a process has the file at `path` open, under any name; `nil` if its files are not visible.
    static func process(_ process: Int32, hasOpen path: String) -> Bool? {
        var wanted = stat()
        let folder = "/proc/\(process)/fd"
        guard let names = try? FileManager.default.contentsOfDirectory(atPath: folder) else { return nil }
        guard stat(path, &wanted) == 0 else { return errno == ENOENT ? false : nil }
        return names.contains { name in
            var status = stat()
            return stat("\(folder)/\(name)", &status) == 0 && status.st_dev == wanted.st_dev
                && status.st_ino == wanted.st_ino
        }
    }

    /// The processes that may hold a lock of flock(2) on the file at `path`: those with a lock on a file of this
    /// number, on any file system.
    static func lockers(ofFile path: String) -> [Int32] {
        var status = stat()
        guard lstat(path, &status) == 0 else { return [] }
        // 1: FLOCK  ADVISORY  WRITE 1234 fe:00:131 0 EOF
        return lines(of: "/proc/locks").compactMap { fields -> Int32? in
            guard fields.count >= 6, fields[1] == "FLOCK", fields[5].hasSuffix(":\(status.st_ino)") else { return nil }
            return Int32(fields[4]).flatMap { $0 > 0 ? $0 : nil }
        }
    }

    /// The visible processes that listen on a TCP port, at any address.
    static func listeners(onPort port: Int) -> [Int32] {
        var found: [Int32] = []
        let suffix = String(format: ":%04X", port)
        for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
            for fields in lines(of: table)
            // The state of a listening socket is 0A.
            where fields.count > 9 && fields[1].hasSuffix(suffix) && fields[3] == "0A" {
                found += users(ofFile: "socket:[\(fields[9])]").filter { !found.contains($0) }
            }
        }
        return found
    }

    /// The lines of a table of the kernel, each as its words.
    ///
    /// A read of such a file returns a page at most, and `String(contentsOfFile:)` stops at the first one.
    private static func lines(of path: String) -> [[String]] {
        let data = (try? FileHandle(forReadingAtPath: path)?.readToEnd()) ?? Data()
        return String(decoding: data, as: UTF8.self).split(separator: "\n")
            .map { $0.split(separator: " ").map(String.init) }
    }

    /// The other processes that have the file at `path` open. A link in `/proc` such as `socket:[1]` is a path, too.
    static func users(ofFile path: String) -> [Int32] {
        let files = FileManager.default
        let processes = (try? files.contentsOfDirectory(atPath: "/proc"))?.compactMap { Int32($0) } ?? []
        return processes.sorted().filter { process in
            guard process != getpid() else { return false }
            let folder = "/proc/\(process)/fd"
            return (try? files.contentsOfDirectory(atPath: folder))?.contains { name in
                (try? files.destinationOfSymbolicLink(atPath: "\(folder)/\(name)")) == path
            } ?? false
        }
    }
}
