import HTTPTypes
import NIOCore
import NIOHTTP1
import SyncService

/// Rejects HTTP/1 requests that the parser accepts but that a proxy could interpret differently, which would allow
/// request smuggling (RFC 9112, sections 3.2, 6.1 and 6.3).
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
        // Without keep-alive, an HTTP/1.0 client waits for the connection to close.
        guard head.version != .http1_1, !head.isKeepAlive else { return context.fireChannelRead(data) }
        head.headers.replaceOrAdd(name: "Connection", value: "close")
        context.fireChannelRead(wrapInboundOut(.head(head)))
    }

    private static func failure(_ head: HTTPRequestHead) -> RequestError? {
        guard head.version == .http1_1 || head.version == .http1_0 else {
            return RequestError(
                .httpVersionNotSupported, "the version must be HTTP/1.1, HTTP/1.0, or HTTP/2 over TLS")
        }
        var (hosts, lengths, codings) = (0, 0, 0)
        var coding = ""
        for (name, value) in head.headers {
            // Compare the lengths first, since nearly all other names differ in length.
            switch name.utf8.count {
            case 4 where name.lowercased() == "host": hosts += 1
            case 14 where name.lowercased() == "content-length": lengths += 1
            case 17 where name.lowercased() == "transfer-encoding": (codings, coding) = (codings + 1, value)
            default: break
            }
        }
        guard hosts == 1 || (hosts == 0 && head.version == .http1_0) else {
            return RequestError(.badRequest, "a request must have exactly one Host field, not \(hosts)")
        }
        guard lengths <= 1, codings <= 1, lengths + codings <= 1 else {
            return RequestError(
                .badRequest, "the length of a body must be given once: by Content-Length or by Transfer-Encoding")
        }
        guard codings == 0 || head.version == .http1_1 else {
            return RequestError(.badRequest, "HTTP/1.0 does not allow Transfer-Encoding; send Content-Length")
        }
        guard codings == 0 || coding.lowercased() == "chunked" else {
            return RequestError(.notImplemented, "the Transfer-Encoding must be chunked")
        }
        return nil
    }
}

extension RequestError {
    /// The refusal of the input that caused `error`; `nil` if the input did not cause it.
    ///
    /// - Parameter isBody: `true` if the header has arrived.
    static func malformed(_ error: any Error, _ limits: ListenerConfiguration, isBody: Bool) -> RequestError? {
        switch error {
        case let error as RequestError: error
        case HTTPParserError.invalidEOFState: nil
        case is HTTPParserError where isBody: RequestError(.badRequest, "the body is not valid chunked data")
        case HTTPParserError.headerOverflow:
            RequestError(
                .requestHeaderFieldsTooLarge,
                "the request line and header must have at most \(limits.headerByteCount) bytes and "
                    + "\(limits.headerFieldCount) fields")
        case is HTTPParserError: RequestError(.badRequest, "not a valid HTTP request")
        default: nil
        }
    }
}
