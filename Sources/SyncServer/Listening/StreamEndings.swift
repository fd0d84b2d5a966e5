import NIOCore
import NIOTLS

/// Takes resets of streams that are over already out of an HTTP/2 connection.
///
/// libcurl resets a stream (RST_STREAM, STREAM_CLOSED) when it has all of an answer by its length, without waiting for
/// the end of the stream, which an answer without body always has in a frame of its own. NIO takes more than 200
/// resets in half a minute for an attack and closes the connection, in the middle of whatever else is under way;
/// Hummingbird lets nobody change that. A reset of a stream whose end was sent says nothing (RFC 9113, section 5.1), so
/// leaving it out takes nothing away; all others count as before.
///
/// It also closes a connection that has been told to end (GOAWAY) and does not. Hummingbird sends a PING with that, as
/// it does when there was no request for too long, and would wait for its answer for ever.
final class StreamEndings: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// How many streams are remembered: more than a client has under way.
    private static let capacity = 512

    private var isHTTP2 = false
    private var inbound = FrameReader(prefaceByteCount: 24)
    private var outbound = FrameReader(prefaceByteCount: 0)
    /// The streams whose end has come, and those whose end was sent, the oldest first.
    private var (asked, answered): ([UInt32], [UInt32]) = ([], [])
    private let closingTime: TimeAmount
    private var end: Scheduled<Void>?

    /// - Parameter closingTime: how long a connection may take for what is under way when it is told to end.
    init(closingTime: TimeAmount) { self.closingTime = closingTime }

    func handlerRemoved(context: ChannelHandlerContext) {
        end?.cancel()
        end = nil
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case TLSUserEvent.handshakeCompleted(negotiatedProtocol: "h2") = event { isHTTP2 = true }
        context.fireUserInboundEventTriggered(event)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if isHTTP2 {
            outbound.read(unwrapOutboundIn(data)) { frame in
                if frame.endsStream { Self.note(frame.stream, in: &answered) }
                if frame.isGoAway { awaitEnd(context) }
                // Only looked at.
                return false
            }
        }
        context.write(data, promise: promise)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard isHTTP2 else { return context.fireChannelRead(data) }
        let kept = inbound.read(unwrapInboundIn(data)) { frame in
            if frame.endsStream { Self.note(frame.stream, in: &asked) }
            guard frame.isLateReset, asked.contains(frame.stream), let place = answered.lastIndex(of: frame.stream)
            else { return true }
            answered.remove(at: place)
            return false
        }
        if kept.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(kept)) }
    }

    private func awaitEnd(_ context: ChannelHandlerContext) {
        guard end == nil else { return }
        let channel = context.channel
        end = context.eventLoop.scheduleTask(in: closingTime) { channel.close(promise: nil) }
    }

    private static func note(_ stream: UInt32, in streams: inout [UInt32]) {
        if streams.count >= capacity { streams.removeFirst(capacity / 2) }
        streams.append(stream)
    }
}

/// The beginning of a frame: its head, and the four bytes after it where it is a reset.
private struct FrameHead {
    private let bytes: [UInt8]

    /// `nil` while bytes are missing.
    init?(_ bytes: [UInt8]) {
        guard bytes.count >= 9, bytes.count >= Self.neededByteCount(bytes) else { return nil }
        self.bytes = bytes
    }

    /// How many bytes of a frame that begins so have to be there before anything is said about it.
    static func neededByteCount(_ bytes: [UInt8]) -> Int {
        guard bytes.count >= 9, bytes[3] == 3, byteCount(bytes) >= 4 else { return 9 }
        return 13
    }

    private static func byteCount(_ bytes: [UInt8]) -> Int {
        Int(bytes[0]) << 16 | Int(bytes[1]) << 8 | Int(bytes[2])
    }

    /// How many bytes of the frame come after these.
    var restByteCount: Int { Self.byteCount(bytes) - (bytes.count - 9) }
    var stream: UInt32 { bytes[5..<9].reduce(0) { $0 << 8 | UInt32($1) } & 0x7FFF_FFFF }
    /// DATA or HEADERS with END_STREAM.
    var endsStream: Bool { bytes[3] <= 1 && bytes[4] & 1 == 1 }
    var isGoAway: Bool { bytes[3] == 7 }
    /// RST_STREAM with STREAM_CLOSED.
    var isLateReset: Bool { bytes.count == 13 && Array(bytes[9...]) == [0, 0, 0, 5] }
}

/// Walks through frames, however they are cut into buffers.
private struct FrameReader {
    /// What is passed on, or left out, before the next head.
    private var restByteCount: Int
    private var isKept = true
    private var head: [UInt8] = []

    init(prefaceByteCount: Int) { restByteCount = prefaceByteCount }

    /// What is left of `buffer` when frames that `keep` does not want are taken out.
    @discardableResult
    mutating func read(_ buffer: ByteBuffer, keep: (FrameHead) -> Bool) -> ByteBuffer {
        var input = buffer
        var output = ByteBuffer()
        while input.readableBytes > 0 {
            if restByteCount > 0 {
                let count = min(restByteCount, input.readableBytes)
                restByteCount -= count
                if var part = input.readSlice(length: count), isKept { output.writeBuffer(&part) }
                continue
            }
            let missing = FrameHead.neededByteCount(head) - head.count
            head += input.readBytes(length: min(missing, input.readableBytes)) ?? []
            guard let frame = FrameHead(head) else { continue }
            isKept = keep(frame)
            if isKept { output.writeBytes(head) }
            restByteCount = frame.restByteCount
            head.removeAll(keepingCapacity: true)
        }
        return output
    }
}
