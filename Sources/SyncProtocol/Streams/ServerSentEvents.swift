/// An incremental parser of event streams (`text/event-stream`), whose input may be split anywhere.
///
/// Follows "Server-sent events" of the HTML standard (WHATWG), section 9.2.6: lines end with CR, LF or CRLF, a byte
/// order mark at the beginning is skipped, comments and unknown fields are ignored, an event without data is discarded,
/// and an event that is incomplete at the end of the stream is dropped.
///
/// ```swift
/// var events = ServerSentEvents()
/// for try await chunk in stream {
///     for event in try events.feed(chunk) { print(event.name, event.data) }
/// }
/// ```
public struct ServerSentEvents: Sendable {
    /// One event.
    public struct Event: Hashable, Sendable {
        /// The type; `message` if the stream names none.
        public var name: String
        /// The data lines, joined by line feeds.
        public var data: String
        /// The most recent id, of this event or of an earlier one; empty for none.
        public var lastEventID: String

        /// An event of the given parts.
        public init(name: String, data: String, lastEventID: String) {
            (self.name, self.data, self.lastEventID) = (name, data, lastEventID)
        }
    }

    /// The id after which to resume; empty for none.
    public private(set) var lastEventID = ""
    /// The time to wait before reconnecting, in milliseconds; `nil` if the stream has not specified one.
    public private(set) var reconnectionTime: Int?

    private let maximumByteCount: Int
    private var line: [UInt8] = []
    private var endedWithReturn = false
    private var isFirstLine = true
    private var name = ""
    private var data: String?
    private var dataByteCount = 0
    private var pendingID: String?

    /// A parser at the beginning of a stream.
    ///
    /// - Parameter maximumByteCount: The largest size of a line and of the data of an event, in bytes.
    public init(maximumByteCount: Int = 1 << 16) { self.maximumByteCount = maximumByteCount }

    /// Parses the next bytes of the stream.
    ///
    /// - Returns: The events that `bytes` completes, in order.
    /// - Throws: `TransportError.Kind.tooLarge` for a line or an event that is too long. The parser cannot be used
    ///   after that.
    public mutating func feed(_ bytes: some Sequence<UInt8>) throws(TransportError) -> [Event] {
        var events: [Event] = []
        for byte in bytes {
            let isAfterReturn = endedWithReturn
            endedWithReturn = byte == 0x0D
            switch byte {
            // The second byte of CRLF.
            case 0x0A where isAfterReturn: break
            case 0x0A, 0x0D:
                if let event = try endLine() { events.append(event) }
            default:
                guard line.count < maximumByteCount else { throw tooLong() }
                line.append(byte)
            }
        }
        return events
    }

    private mutating func endLine() throws(TransportError) -> Event? {
        defer { line.removeAll(keepingCapacity: true) }
        var content = line[...]
        if isFirstLine, content.starts(with: [0xEF, 0xBB, 0xBF]) { content = content.dropFirst(3) }
        isFirstLine = false
        guard !content.isEmpty else { return dispatch() }
        let colon = content.firstIndex(of: UInt8(ascii: ":")) ?? content.endIndex
        // A comment, which may be a heartbeat.
        guard colon > content.startIndex else { return nil }
        var value = content[colon...].dropFirst()
        if value.first == 0x20 { value = value.dropFirst() }
        try take(String(decoding: content[..<colon], as: UTF8.self), String(decoding: value, as: UTF8.self))
        return nil
    }

    private mutating func take(_ field: String, _ value: String) throws(TransportError) {
        switch field {
        case "event": name = value
        case "data":
            dataByteCount += value.utf8.count + 1
            guard dataByteCount <= maximumByteCount else { throw tooLong() }
            data = data.map { $0 + "\n" + value } ?? value
        case "id":
            if !value.utf8.contains(0) { pendingID = value }
        case "retry":
            let isNumber = !value.isEmpty && value.utf8.allSatisfy { (0x30...0x39).contains($0) }
            if isNumber, let time = Int(value) { reconnectionTime = time }
        default: break
        }
    }

    private mutating func dispatch() -> Event? {
        if let pendingID { lastEventID = pendingID }
        defer {
            (name, data, dataByteCount, pendingID) = ("", nil, 0, nil)
        }
        guard let data else { return nil }
        return Event(name: name.isEmpty ? "message" : name, data: data, lastEventID: lastEventID)
    }

    private func tooLong() -> TransportError {
        TransportError(
            .tooLarge, mayHaveArrived: true,
            message: "an event must have at most \(maximumByteCount) bytes, but this one has more")
    }
}
