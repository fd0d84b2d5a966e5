import HTTPTypes
import SyncCoreTesting
import SyncProtocol
import TestSupport
import Testing

@Suite("Event streams")
struct ServerSentEventsTests {
    private typealias Event = ServerSentEvents.Event

    private func read(_ text: String) throws -> [Event] {
        var events = ServerSentEvents()
        return try events.feed(text.utf8)
    }

    // The examples of the HTML standard, section 9.2.6 "Interpreting an event stream".
    @Test("The examples of the standard are read as it says")
    func examples() throws {
        #expect(
            try read("data: YHOO\ndata: +2\ndata: 10\n\n") == [
                Event(name: "message", data: "YHOO\n+2\n10", lastEventID: "")
            ])
        #expect(
            try read(": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n") == [
                Event(name: "message", data: "first event", lastEventID: "1"),
                Event(name: "message", data: "second event", lastEventID: ""),
            ])
        #expect(
            try read("data\n\ndata\ndata\n\ndata:") == [
                Event(name: "message", data: "", lastEventID: ""), Event(name: "message", data: "\n", lastEventID: ""),
            ])
        #expect(try read("data:test\n\ndata: test\n\n").map(\.data) == ["test", "test"])
    }

    @Test("Fields may have any order, and unknown ones are ignored")
    func fields() throws {
        var events = ServerSentEvents()
        let text =
            "\u{FEFF}retry: 1500\nretry: soon\nretry:\nfoo: bar\nid: 7\nevent: change\ndata: {}\n\n"
            + "id: a\u{0}b\n\nid: 9\n\n"
        #expect(try events.feed(text.utf8) == [Event(name: "change", data: "{}", lastEventID: "7")])
        // An id takes effect even without an event.
        #expect(events.lastEventID == "9" && events.reconnectionTime == 1_500)
    }

    @Test("Events do not depend on line endings or on the split of the input")
    func splits() throws {
        var generator = SeededGenerator(seed: printedSeed("ServerSentEventsTests"))
        let lines = ["retry: 5", ": 17", "id: ü1", "event: change", "data: ä", "data:", "", "", "data: z", "", ""]
        let expected = [
            Event(name: "change", data: "ä\n", lastEventID: "ü1"), Event(name: "message", data: "z", lastEventID: "ü1"),
        ]
        for _ in 0..<2_000 {
            let text = lines.map { $0 + (["\n", "\r", "\r\n"].randomElement(using: &generator) ?? "\n") }.joined()
            var rest = Array(text.utf8)[...]
            var events = ServerSentEvents()
            var read: [ServerSentEvents.Event] = []
            while !rest.isEmpty {
                let count = Int.random(in: 1...4, using: &generator)
                read += try events.feed(rest.prefix(count))
                rest = rest.dropFirst(count)
            }
            // Each empty line occurs twice, because "\r" and "\n" of two adjacent lines form one line ending.
            #expect(read == expected && events.reconnectionTime == 5, "\(text.debugDescription)")
        }
    }

    @Test("A line or an event that is too long is rejected")
    func bounds() throws {
        var events = ServerSentEvents(maximumByteCount: 10)
        #expect(try events.feed("data:12345\n\n".utf8).count == 1)
        #expect(throws: TransportError.self) { try events.feed("data:123456".utf8) }
        var many = ServerSentEvents(maximumByteCount: 10)
        #expect(throws: TransportError.self) { try many.feed("data:1234\ndata:1234\ndata:1234\n".utf8) }
    }

    @Test("Retry-After is read as seconds, or as a date relative to the response's own date")
    func retryAfter() {
        func pause(_ field: String?, date: String? = nil) -> Duration? {
            var response = HTTPResponse(status: .serviceUnavailable)
            response.headerFields[.retryAfter] = field
            response.headerFields[.date] = date
            return RetryAfter.pause(of: response)
        }
        let date = "Sun, 06 Nov 1994 08:49:37 GMT"
        #expect(pause("7") == .seconds(7) && pause("0") == .zero && pause(nil) == nil)
        #expect(pause("99999999999999999999") == RetryAfter.maximum)
        #expect(pause("Sun, 06 Nov 1994 08:50:07 GMT", date: date) == .seconds(30))
        #expect(pause("Mon, 07 Nov 1994 00:00:00 GMT", date: date) == .seconds(54_623))
        #expect(pause("Tue, 29 Feb 2000 23:59:59 GMT", date: "Wed, 01 Mar 2000 00:00:09 GMT") == .zero)
        #expect(pause("Wed, 01 Mar 2000 00:00:09 GMT", date: "Mon, 28 Feb 2000 23:59:59 GMT") == RetryAfter.maximum)
        #expect(pause("Wed, 01 Mar 2000 00:00:09 GMT", date: "Tue, 29 Feb 2000 23:59:59 GMT") == .seconds(10))
        for text in ["", "-1", "1.5", "soon", "Sun, 06 Xxx 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:61 GMT"] {
            #expect(pause(text, date: date) == nil, "\(text)")
        }
        #expect(pause("Sun, 06 Nov 1994 08:50:07 GMT") == nil)
    }
}
