import HTTPTypes
import SyncService

/// Formats the access-log line of a request: key-value pairs sorted by key.
enum AccessLine {
    static func text(_ answer: ServiceResponse, _ exchange: Exchange, elapsed: Duration, byteCount: Int) -> String {
        let (seconds, attoseconds) = elapsed.components
        let microseconds = seconds * 1_000_000 + attoseconds / 1_000_000_000_000
        let fraction = microseconds % 1_000
        var line = ""
        line.reserveCapacity(224)
        if let subject = answer.subject { line += "account=" + quoted(subject) + " " }
        line += "address=" + (exchange.client.map { quoted($0.text) } ?? "-") + " bytes=\(byteCount)"
        if let caller = answer.caller { line += " caller=" + quoted(caller) }
        line += " method=" + (exchange.method.map(ServerMetrics.name) ?? "none")
        line += " ms=\(microseconds / 1_000)." + (fraction < 10 ? "00" : fraction < 100 ? "0" : "") + "\(fraction)"
        line += exchange.isStream ? " protocol=HTTP/2" : " protocol=HTTP/1.1"
        line += " route=" + answer.route + " status=\(answer.head.status.code) [SyncServer] request\n"
        return line
    }

    /// Quotes a name that is empty or could be read as several words or lines.
    private static func quoted(_ name: String) -> String {
        let isPlain = name.utf8.allSatisfy { $0.isASCIIAlphanumeric(or: "-_.@+:") }
        return isPlain && !name.isEmpty ? name : String(reflecting: name)
    }
}
