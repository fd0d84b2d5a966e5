import LoadTesting
import NIOCore
import Testing

@Suite("Reading event streams")
struct EventReaderTests {
    private func read(_ text: String, inPiecesOf size: Int = 1_000) -> (count: Int, time: TimeAmount?) {
        var (reader, bytes, count) = (EventReader(), ByteBuffer(string: text), 0)
        while let piece = bytes.readSlice(length: min(size, bytes.readableBytes)), piece.readableBytes > 0 {
            count += reader.read(piece)
        }
        return (count, reader.reconnectionTime)
    }

    @Test("Changes are counted, however the stream is split", arguments: 1...7)
    func changes(size: Int) {
        let stream =
            "retry: 1000\n\nevent: cursor\ndata: {}\n\nevent: change\ndata: {\"key\":\"event: change\"}\n\n"
            + ": event: change\n\nevent:change\r\ndata: x\r\n\r\nevent: changes\ndata: x\n\n"
        let (count, time) = read(stream, inPiecesOf: size)
        #expect(count == 2)
        #expect(time == .seconds(1))
    }

    @Test("The last valid reconnection time counts")
    func reconnectionTime() {
        #expect(read("data: x\n\n").time == nil)
        #expect(read("retry: 10\n\nretry:2500\r\n\r\n").time == .milliseconds(2_500))
        #expect(read("retry: 10\nretry: 1e3\nretry: -5\nretry:\nretry\n: retry: 3\n").time == .milliseconds(10))
        #expect(read("retry: 99999999999999999999\n").time == nil)
    }

    @Test("A reconnection time is at most one hour")
    func longReconnectionTime() {
        #expect(read("retry: 9223372036854775807\n").time == .hours(1))
    }
}
