import HTTPTypes
import SyncProtocol

/// A request in the form that libcurl takes.
struct CurlMessage: Sendable {
    var url: String
    var method: String
    /// The lines of the header. They remove fields that libcurl would add by itself.
    var lines: [String]
    var body: [UInt8]
    /// The id that the answer must repeat.
    var requestID: String?
    var isSecure: Bool
    /// True if the request is for this machine.
    var isLocal: Bool

    /// - Throws: `TransportError.Kind.malformed` for a request without an HTTP address, or with one that is invalid in
    ///   a request line.
    init(_ request: HTTPRequest, body: [UInt8]) throws(TransportError) {
        guard let scheme = request.scheme, ["http", "https"].contains(scheme), let authority = request.authority,
            let path = request.path, path.hasPrefix("/"), Self.isPlain(authority, without: "/?#@\\"),
            Self.isPlain(path, without: "#"), !authority.isEmpty
        else {
            throw TransportError(
                .malformed, mayHaveArrived: false, message: "the request has no URL of the form https://HOST/PATH")
        }
        url = scheme + "://" + authority + path
        method = request.method.rawValue
        isSecure = scheme == "https"
        isLocal = Self.isLoopback(authority)
        self.body = body
        requestID = WireFields.requestID(of: request.headerFields)
        lines = []
        lines.reserveCapacity(request.headerFields.count + 4)
        for field in request.headerFields where !Self.ownFields.contains(field.name.canonicalName) {
            // libcurl removes a field without a value, unless it ends with a semicolon.
            lines.append(field.value.isEmpty ? field.name.rawName + ";" : field.name.rawName + ": " + field.value)
        }
        if !request.headerFields.contains(.accept) { lines.append("Accept:") }
        // A missing field would allow any coding (RFC 9110, section 12.5.3).
        if !request.headerFields.contains(.acceptEncoding) { lines.append("Accept-Encoding: identity") }
        if sendsBody {
            lines.append("Expect:")
            if !request.headerFields.contains(.contentType) { lines.append("Content-Type:") }
        }
    }

    /// True if a body is sent, which may be empty for these methods.
    var sendsBody: Bool { !body.isEmpty || method == "PUT" || method == "POST" || method == "PATCH" }

    /// Fields that libcurl sets.
    private static let ownFields = ["host", "connection", "content-length", "transfer-encoding", "expect"]

    private static func isPlain(_ text: String, without excluded: String) -> Bool {
        text.utf8.allSatisfy { byte in byte > 0x20 && byte < 0x7F && !excluded.utf8.contains(byte) }
    }

    private static func isLoopback(_ authority: String) -> Bool {
        if authority.hasPrefix("[::1]") { return true }
        let host = authority.utf8.prefix { $0 != UInt8(ascii: ":") }
        return host.elementsEqual("localhost".utf8, by: { $0 | 0x20 == $1 })
            || host.starts(with: "127.".utf8) && host.allSatisfy { $0 == 0x2E || $0 < 0x3A }
    }
}

/// An exchange to start.
struct CurlJob: Sendable {
    typealias Continuation<Value: Sendable> = CheckedContinuation<Result<Value, TransportError>, Never>

    /// The receiver of the answer.
    enum Receiver: Sendable {
        case whole(Continuation<TransportAnswer>, maximumByteCount: Int)
        case stream(Continuation<HTTPResponse>, TransportBuffer, idleTimeout: Duration)
    }

    var message: CurlMessage
    /// The time limit of the exchange; `nil` for a stream, which has an idle timeout.
    var timeout: Duration?
    var connectTimeout: Duration
    var receiver: Receiver
}
