import Foundation

/// The resource use of the process, under the standard names of Prometheus clients. Empty except on Linux.
enum ProcessMetrics {
    static func add(to text: inout PrometheusText) {
        #if os(Linux)
        text.add("process_resident_memory_bytes", .gauge, memory().map { [("", $0)] } ?? [])
        text.add("process_open_fds", .gauge, openFileCount().map { [("", $0)] } ?? [])
        text.add("process_cpu_seconds_total", .counter, processorSeconds().map { [("", $0)] } ?? [])
        #endif
    }

    #if os(Linux)
    private static func memory() -> Int? {
        guard let text = contents(of: "/proc/self/statm") else { return nil }
        let fields = text.split(separator: " ")
        guard fields.count > 1, let pages = Int(fields[1]) else { return nil }
        return pages * sysconf(Int32(_SC_PAGESIZE))
    }

    private static func openFileCount() -> Int? {
        // Listing the folder opens one descriptor itself.
        (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")).map { $0.count - 1 }
    }

    private static func processorSeconds() -> Double? {
        // The program name is in parentheses and may contain spaces and parentheses, so parse after the last one.
        guard let text = contents(of: "/proc/self/stat"), let end = text.lastIndex(of: ")") else { return nil }
        let fields = text[text.index(after: end)...].split(separator: " ")
        guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) else { return nil }
        return (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
    }

    private static func contents(of path: String) -> String? {
        (try? Data(contentsOf: URL(filePath: path))).map { String(decoding: $0, as: UTF8.self) }
    }
    #endif
}
