import Logging

/// What the log says of a request.
enum AccessLine {
    static func metadata(
        method: String, route: String, status: Int, byteCount: Int, elapsed: Duration, isHTTP1: Bool, caller: String?
    ) -> Logger.Metadata {
        let (seconds, attoseconds) = elapsed.components
        let microseconds = seconds * 1_000_000 + attoseconds / 1_000_000_000_000
        let fraction = String(1_000 + microseconds % 1_000).dropFirst()
        var metadata: Logger.Metadata = [
            "method": "\(method)", "route": "\(route)", "status": "\(status)", "bytes": "\(byteCount)",
            "ms": "\(microseconds / 1_000).\(fraction)", "protocol": isHTTP1 ? "HTTP/1.1" : "HTTP/2",
        ]
        if let caller { metadata["caller"] = "\(quoted(caller))" }
        return metadata
    }

    /// A name that cannot be taken for more than one word or line.
    private static func quoted(_ name: String) -> String {
        let isPlain = name.unicodeScalars.allSatisfy { scalar in
            scalar.isASCII && (scalar.properties.isAlphabetic || ("0"..."9").contains(scalar))
                || "-_.@+".unicodeScalars.contains(scalar)
        }
        return isPlain && !name.isEmpty ? name : String(reflecting: name)
    }
}
