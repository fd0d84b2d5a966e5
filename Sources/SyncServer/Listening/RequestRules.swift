import HTTPTypes
import NIOCore
import NIOHTTP1

/// What a request of HTTP/1 must be beyond what the parser looks at, so that nobody on the way can take it for another
/// one or for two (RFC 9112, sections 3.2, 6.1 and 6.3).
final class RequestRules: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart

    private var isBroken = false

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isBroken else { return }
        guard case .head(var head) = unwrapInboundIn(data) else { return context.fireChannelRead(data) }
        if let failure = Self.failure(head) {
            isBroken = true
            context.fireErrorCaught(failure)
            return
        }
        if head.version == .http1_1 {
            guard head.headers.contains(name: "Connection") else { return context.fireChannelRead(data) }
            let wishes = head.headers[canonicalForm: "Connection"].map { $0.lowercased() }
            if wishes.contains("close") {
                // Whoever looks for that knows no lists.
                head.headers.replaceOrAdd(name: "Connection", value: "close")
            } else if wishes.allSatisfy({ $0 == "keep-alive" }) {
                // That goes without saying, and many say it: such a request is as any other (RFC 9112, section 9.3).
                head.headers.remove(name: "Connection")
            }
        } else {
            guard !head.isKeepAlive else { return context.fireChannelRead(data) }
            // Such a client waits for the end of the connection.
            head.headers.replaceOrAdd(name: "Connection", value: "close")
        }
        context.fireChannelRead(wrapInboundOut(.head(head)))
    }

    private static func failure(_ head: HTTPRequestHead) -> MalformedRequest? {
        guard head.version == .http1_1 || head.version == .http1_0 else {
            return MalformedRequest(.httpVersionNotSupported, "this is HTTP/1.1 and HTTP/1.0, and HTTP/2 over TLS")
        }
        var (hosts, lengths, codings) = (0, 0, 0)
        var coding = ""
        for (name, value) in head.headers {
            // Nearly every field differs in its length.
            switch name.utf8.count {
            case 4 where name.lowercased() == "host": hosts += 1
            case 14 where name.lowercased() == "content-length": lengths += 1
            case 17 where name.lowercased() == "transfer-encoding": (codings, coding) = (codings + 1, value)
            default: break
            }
        }
        guard hosts == 1 || (hosts == 0 && head.version == .http1_0) else {
            return MalformedRequest(.badRequest, "a request has one Host field")
        }
        guard lengths <= 1, codings <= 1, lengths + codings <= 1 else {
            return MalformedRequest(.badRequest, "the length of a body is said once, and in one way")
        }
        guard codings == 0 || head.version == .http1_1 else {
            return MalformedRequest(.badRequest, "HTTP/1.0 has no Transfer-Encoding")
        }
        guard codings == 0 || coding.lowercased() == "chunked" else {
            return MalformedRequest(.notImplemented, "the only Transfer-Encoding here is chunked")
        }
        return nil
    }
}

/// Something that is no request, and what its sender is told.
struct MalformedRequest: Error {
    var status: HTTPResponse.Status
    var detail: String

    init(_ status: HTTPResponse.Status, _ detail: String) { (self.status, self.detail) = (status, detail) }

    /// What `error` says; `nil` where it is of another kind.
    init?(_ error: any Error, _ limits: ListenerConfiguration) {
        switch error {
        case let error as MalformedRequest: self = error
        case HTTPParserError.headerOverflow:
            self.init(
                .requestHeaderFieldsTooLarge,
                "request line and header have at most \(limits.headerByteCount) bytes here, and "
                    + "\(limits.headerFieldCount) fields")
        case HTTPParserError.invalidEOFState: return nil
        case is HTTPParserError: self.init(.badRequest, "this is no HTTP request")
        default: return nil
        }
    }
}
