import HTTPTypes
import Logging
import NIOCore
import NIOEmbedded
import NIOHTTP1
import NIOHTTPTypes
import SyncService
import Testing

@testable import SyncServer

@Suite("Incomplete requests")
struct IncompleteRequestTests {
    enum Cut: CaseIterable {
        case error, timeout, leaving, end
    }

    /// An HTTP/2 connection may stay open long after its requests, so a leak would accumulate.
    @Test("An incomplete request releases its slot and its handler", arguments: Cut.allCases)
    func leftovers(cut: Cut) throws {
        let responder = Responder(
            ScriptedHandler { _ in ServiceResponse(HTTPResponse(status: .ok), route: "/test") },
            metrics: ServerMetrics(), limits: ListenerConfiguration(port: 0),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let channel = EmbeddedChannel()
        weak var latest: ConnectionHandler?
        do {
            let peer = Peer("127.0.0.1", TrustedProxies())
            let handler = ConnectionHandler(ListenerContext(responder), peer: peer, isStream: true)
            latest = handler
            try channel.pipeline.syncOperations.addHandler(handler)
            let head = HTTPRequest(method: .put, scheme: "http", authority: "x", path: "/v1/kv/a")
            channel.pipeline.fireChannelRead(HTTPRequestPart.head(head))
            channel.pipeline.fireChannelReadComplete()
            #expect(responder.admission.uploads.taken == 1)
            switch cut {
            case .error: channel.pipeline.fireErrorCaught(HTTPParserError.invalidEOFState)
            case .timeout: handler.tick(.now() + .seconds(responder.limits.bodySeconds + 1))
            case .leaving: channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
            case .end: break
            }
            if cut != .end { #expect(responder.admission.uploads.taken == 0) }
            if cut == .timeout {
                guard case .head(let head) = try channel.readOutbound(as: HTTPResponsePart.self) else {
                    Issue.record("the request must be answered")
                    return
                }
                #expect(head.status == .requestTimeout)
            }
        }
        _ = try channel.finish(acceptAlreadyClosed: true)
        channel.embeddedEventLoop.run()
        #expect(responder.admission.uploads.taken == 0)
        #expect(latest == nil)
    }
}
