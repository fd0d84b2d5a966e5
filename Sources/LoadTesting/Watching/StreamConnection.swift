package import NIOCore

/// A connection on which the server tells what changes. Stays on its event loop.
final class StreamConnection: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    let slot: Int
    private unowned let group: WatchGroup
    private var request: RequestBytes
    /// Whether it takes the place of one whose token had been replaced.
    let isRenewal: Bool
    private var reader = AnswerReader()
    private var events = EventCounter()
    private var context: ChannelHandlerContext?
    private var isFinished = false
    /// Whether the server has begun to tell.
    private(set) var isOpen = false
    /// For how many writes its event is awaited: 0 or 1.
    var isExpecting = false

    init(slot: Int, request: RequestBytes, isRenewal: Bool, of group: WatchGroup) {
        (self.slot, self.request, self.isRenewal, self.group) = (slot, request, isRenewal, group)
    }

    /// Whether the token that it was opened with has been replaced. The server ends a stream with its token.
    var isOutdated: Bool { request.isOutdated }

    func channelActive(context: ChannelHandlerContext) {
        // Nobody waits for it any more.
        guard !isFinished else { return context.close(promise: nil) }
        self.context = context
        context.writeAndFlush(wrapOutboundOut(request.bytes()), promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isFinished else { return }
        reader.feed(unwrapInboundIn(data))
        do throws(AnswerReader.Malformed) {
            while let part = try reader.next() {
                switch part {
                case .head(let head): receive(head, context)
                case .body(let piece):
                    guard isOpen else { continue }
                    for _ in 0..<events.count(in: piece) { group.heard(by: self) }
                case .end: context.close(promise: nil)
                }
            }
        } catch {
            finish(.malformed)
            context.close(promise: nil)
        }
    }

    private func receive(_ head: AnswerHead, _ context: ChannelHandlerContext) {
        guard head.status == 200 else {
            isFinished = true
            group.refused(self, head.status)
            context.close(promise: nil)
            return
        }
        isOpen = true
        group.opened(self)
    }

    private func finish(_ trouble: LoadReport.Trouble) {
        guard !isFinished else { return }
        isFinished = true
        let wasOpen = isOpen
        isOpen = false
        group.ended(self, trouble, wasOpen: wasOpen)
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.context = nil
        finish(.streamEnded)
    }

    /// Its end is told by `channelInactive`.
    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    /// Closes it; nobody hears of its end.
    func leave() {
        isFinished = true
        isOpen = false
        context?.close(promise: nil)
    }
}

/// Counts the events of type `change` in a stream (HTML, section 9.2.6), however it is cut into pieces.
package struct EventCounter: Sendable {
    private static let sought = Array("event: change\n".utf8)
    private var matched = 0
    private var isAtLineStart = true

    package init() {}

    /// How many begin in `piece`.
    package mutating func count(in piece: ByteBuffer) -> Int {
        var count = 0
        for byte in piece.readableBytesView {
            if isAtLineStart || matched > 0, byte == Self.sought[matched] {
                matched += 1
                if matched == Self.sought.count {
                    count += 1
                    matched = 0
                }
            } else {
                matched = 0
            }
            isAtLineStart = byte == UInt8(ascii: "\n")
        }
        return count
    }
}
