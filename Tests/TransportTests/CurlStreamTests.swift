import CurlTransport
import HTTPTypes
import SyncProtocol
import TestSupport
import Testing

@Suite("Streams by libcurl", .timeLimit(.minutes(15)))
struct CurlStreamTests {
    private static let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

    @Test("deliver data as it arrives")
    func pieces() async throws {
        let server = try RawServer { connection, _ in
            _ = connection.readRequest()
            connection.write(Self.head)
            for piece in ["one", "two"] {
                connection.write(piece)
                // Continues when the reader has confirmed that it received the piece.
                connection.waitForTurn()
            }
        }
        let client = try CurlClient()
        let stream = try await client.open(server)
        #expect(stream.response.status == .ok)
        #expect(stream.response.headerFields[.contentType] == "text/event-stream")
        var iterator = stream.makeAsyncIterator()
        #expect(try await iterator.next() == Array("one".utf8))
        server.takeTurn()
        #expect(try await iterator.next() == Array("two".utf8))
        server.takeTurn()
        #expect(try await iterator.next() == nil)
        #expect(try await iterator.next() == nil)
    }

    @Test("report the error that ended them")
    func failures() async throws {
        let server = try RawServer { connection, number in
            _ = connection.readRequest()
            switch number {
            case 0: connection.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123")
            case 1: connection.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1")
            case 2: return
            case 3: connection.answer("gone", status: "410 Gone")
            default: break
            }
            if number == 0 { connection.reset() } else if number != 3 { connection.ignore() }
        }
        let client = try CurlClient()
        let start = ContinuousClock.now
        var iterator = try await client.open(server).makeAsyncIterator()
        await expectError(.interrupted, mayHaveArrived: true) {
            while try await iterator.next() != nil {}
            return "an end"
        }
        let timeout = Patience.timeout(scaledBy: start)
        var silent = try await client.open(server, idleTimeout: timeout).makeAsyncIterator()
        #expect(try await silent.next() == [0x31])
        await expectError(.timedOut, mayHaveArrived: true) { try await silent.next() }
        await expectError(.interrupted, mayHaveArrived: true) { try await client.open(server) }
        let gone = try await client.open(server)
        #expect(gone.response.status == .gone)
        var body: [UInt8] = []
        for try await piece in gone { body += piece }
        #expect(body == Array("gone".utf8))
        // The server sends nothing at all.
        await expectError(.timedOut, mayHaveArrived: true) {
            try await client.open(server, idleTimeout: .seconds(2))
        }
    }

    @Test("close their connection when they are released or their reader is cancelled")
    func endings() async throws {
        let (events, note) = AsyncStream.makeStream(of: String.self)
        let server = try RawServer { connection, _ in
            _ = connection.readRequest()
            connection.write(Self.head + "x")
            connection.waitForEnd()
            note.yield("closed")
        }
        let client = try CurlClient()
        var ends = events.makeAsyncIterator()
        var stream: TransportStream? = try await client.open(server)
        #expect(stream != nil)
        stream = nil
        #expect(await ends.next() == "closed")
        let read = try await client.open(server)
        await withTaskGroup(of: Void.self) { group in
            let (begun, begin) = AsyncStream.makeStream(of: Void.self)
            group.addTask {
                var iterator = read.makeAsyncIterator()
                _ = try? await iterator.next()
                begin.yield()
                await expectError(.cancelled, mayHaveArrived: true) { try await iterator.next() }
            }
            var beginning = begun.makeAsyncIterator()
            await beginning.next()
            group.cancelAll()
        }
        #expect(await ends.next() == "closed")
        // A stream outlives its client.
        var last: TransportStream? = try await CurlClient().open(server)
        var iterator = last?.makeAsyncIterator()
        #expect(try await iterator?.next() == [0x78])
        (last, iterator) = (nil, nil)
        #expect(await ends.next() == "closed")
    }

    @Test("apply back-pressure and lose no data")
    func backPressure() async throws {
        let count = 12 << 20
        let (events, note) = AsyncStream.makeStream(of: Int.self)
        let server = try RawServer { connection, number in
            _ = connection.readRequest()
            connection.write("HTTP/1.1 200 OK\r\nContent-Length: \(count)\r\n\r\n")
            var sent = 0
            while sent < count {
                // Each word is its own index, so that lost or repeated data is detected.
                let block = (0..<(1 << 12)).flatMap { index -> [UInt8] in
                    let place = UInt32(sent / 4 + index)
                    return withUnsafeBytes(of: place.littleEndian) { Array($0) }
                }
                guard connection.write(block) else { return note.finish() }
                sent += block.count
            }
            note.yield(number)
        }
        let client = try CurlClient()
        let stream = try await client.open(server, idleTimeout: .seconds(4))
        // Other exchanges continue while the stream is not read, and its idle timeout does not run.
        let other = try RawServer { connection, _ in
            while let request = connection.readRequest() {
                if request.hasPrefix("GET /silent") { return connection.waitForEnd() }
                connection.answer("fine")
            }
        }
        for _ in 0..<50 { try await client.ask(other, "GET") }
        await expectError(.timedOut, mayHaveArrived: true) {
            try await client.ask(other, "GET", path: "/silent", timeout: .seconds(5))
        }
        var expected: UInt32 = 0
        var rest: [UInt8] = []
        var total = 0
        var isRight = true
        for try await piece in stream {
            total += piece.count
            #expect(piece.count <= 1 << 17)
            rest += piece
            let whole = rest.count & ~3
            rest.withUnsafeBytes { bytes in
                for offset in stride(from: 0, to: whole, by: 4) {
                    isRight = isRight && bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self) == expected
                    expected &+= 1
                }
            }
            rest.removeFirst(whole)
        }
        #expect(total == count && isRight)
        var ends = events.makeAsyncIterator()
        #expect(await ends.next() == 0)
    }
}
