#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif
#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// The resource use of the process, under the standard names of Prometheus clients. Empty except on Linux.
enum ProcessMetrics {
    static func text() -> String {
        #if os(Linux)
        var text = ""
        if let memory = memory() {
            text += "# TYPE process_resident_memory_bytes gauge\n"
            text += PrometheusText.line("process_resident_memory_bytes", "", memory)
        }
        if let count = openFileCount() {
            text += "# TYPE process_open_fds gauge\n"
            text += PrometheusText.line("process_open_fds", "", count)
        }
        if let seconds = processorSeconds() {
            text += "# TYPE process_cpu_seconds_total counter\n"
            text += PrometheusText.line("process_cpu_seconds_total", "", seconds)
        }
        return text
        #else
        return ""
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
