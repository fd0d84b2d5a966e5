import HTTPTypes
import NIOCore
import NIOEmbedded
import NIOHTTPTypes
import Testing

@testable import SyncServer

@Suite("Bodies that do not come to their end")
struct CutBodyTests {
    private let limits = ListenerConfiguration(port: 0)
    private let gate: WorkGate
    private let turnstile: Turnstile

    init() {
        gate = WorkGate(limits) { _ in }
        turnstile = Turnstile(capacity: 8, addressCapacity: 8) { _ in }
    }

    private enum Cut: CaseIterable {
        case byError, byTime, byLeaving, never
    }

    /// A connection outlives its requests: of HTTP/2 as long as its client likes.
    @Test("leave nothing with their connection", arguments: Cut.allCases)
    private func leftovers(_ cut: Cut) throws {
        let (channel, watch) = (EmbeddedChannel(), ConnectionWatch(ConnectionWatch.Limits(limits, gate: gate)))
        try channel.pipeline.syncOperations.addHandler(watch)
        weak var latest: WholeRequests?
        do {
            let requests = WholeRequests(limits, gate: gate, turnstile: turnstile)
            latest = requests
            try channel.pipeline.syncOperations.addHandler(requests)
            let head = HTTPRequest(method: .put, scheme: "http", authority: "x", path: "/v1/kv/a")
            channel.pipeline.fireChannelRead(HTTPRequestPart.head(head))
            channel.pipeline.fireChannelReadComplete()
            switch cut {
            case .byError: channel.pipeline.fireErrorCaught(RequestIsCut())
            case .byTime: channel.embeddedEventLoop.advanceTime(by: .seconds(limits.bodySeconds + 1))
            case .byLeaving: channel.pipeline.fireUserInboundEventTriggered(ChannelEvent.inputClosed)
            case .never: break
            }
            if cut != .never { #expect(throws: (any Error).self) { try channel.throwIfErrorCaught() } }
            channel.pipeline.syncOperations.removeHandler(requests, promise: nil)
            channel.embeddedEventLoop.run()
        }
        #expect(latest == nil)
        withExtendedLifetime(watch) {}
        #expect(throws: Never.self) { try channel.finish(acceptAlreadyClosed: true) }
    }
}
