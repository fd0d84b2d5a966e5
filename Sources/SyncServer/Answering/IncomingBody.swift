import HTTPTypes
import HummingbirdCore
import NIOCore
import NIOHTTP1
import SyncProtocol
import SyncService

/// The body of a request: received as a whole, within limits, or not at all.
struct IncomingBody {
    enum Received {
        case whole([UInt8])
        case refused(HTTPResponse.Status, String)
        case answered(ServiceAnswer)

        var isWhole: Bool { if case .whole = self { true } else { false } }
    }

    /// From how many bytes on room is asked for, and in what steps.
    private static let step = 256 << 10

    private let request: Request
    /// A body has one iterator, and only one.
    private var parts: RequestBody.AsyncIterator
    private let channel: any Channel
    private let limits: ListenerConfiguration
    private let gate: WorkGate
    private let announced: Int
    private let refusal: (HTTPResponse.Status, String)?
    /// How much room of the gate it has.
    private var room = 0

    init(_ request: Request, _ channel: any Channel, _ limits: ListenerConfiguration, _ gate: WorkGate) {
        (self.request, self.channel, self.limits, self.gate) = (request, channel, limits, gate)
        parts = request.body.makeAsyncIterator()
        announced = request.headers.value(of: .contentLength).flatMap { Int($0) } ?? 0
        if announced > limits.bodyByteCount {
            refusal = (.contentTooLarge, Self.tooLong(limits))
        } else if let coding = request.headers.value(of: .contentEncoding), coding.lowercased() != "identity" {
            refusal = (.unsupportedMediaType, "send the body without a Content-Encoding")
        } else {
            refusal = nil
        }
    }

    /// Whether the client waits for a word before it sends the body (RFC 9110, section 10.1.1).
    private var isContinueExpected: Bool {
        request.headers.value(of: .expect)?.lowercased() == "100-continue"
    }

    /// All of the body.
    ///
    /// - Parameters:
    ///   - writer: tells a client that waits for it to go on.
    ///   - isHTTP1: whether the header says that there is no body.
    ///   - place: is asked before the first bytes are kept: whether there is room for a request that has some.
    ///   - admission: is asked before more than 64 KiB are received: why they are not, or `nil`.
    /// - Throws: the connection's error where it ends before the body does.
    mutating func receive(
        _ writer: borrowing ResponseWriter, isHTTP1: Bool, place: () -> Bool,
        admission: () async -> ServiceAnswer?
    ) async throws -> Received {
        if let refusal { return .refused(refusal.0, refusal.1) }
        // A request with neither has no body (RFC 9112, section 6.3). In HTTP/2 the frames tell.
        if isHTTP1, !request.headers.contains(.contentLength), !request.headers.contains(.transferEncoding) {
            return .whole([])
        }
        var isAdmitted = false
        if announced > Service.strangerBodyByteCount {
            if let answer = await admission() { return .answered(answer) }
            guard gate.hasRoom(announced) else { return .refused(.serviceUnavailable, Responder.tooMuch) }
            isAdmitted = true
        }
        if isContinueExpected { try await writer.writeInformationalHead(HTTPResponse(status: .continue)) }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(announced)
        do {
            while let part = try await parts.next() {
                let count = bytes.count + part.readableBytes
                guard !bytes.isEmpty || count == 0 || place() else {
                    return .refused(.serviceUnavailable, Responder.tooMuch)
                }
                guard count <= limits.bodyByteCount else { return .refused(.contentTooLarge, Self.tooLong(limits)) }
                if count > Service.strangerBodyByteCount {
                    if !isAdmitted, let answer = await admission() { return .answered(answer) }
                    isAdmitted = true
                    guard takeRoom(count) else { return .refused(.serviceUnavailable, Responder.tooMuch) }
                }
                bytes.append(contentsOf: part.readableBytesView)
            }
        } catch is BodyTookTooLong {
            return .refused(.requestTimeout, "the body did not come in time")
        } catch is HTTPParserError {
            gate.noteMalformed()
            return .refused(.badRequest, "the body is no run of chunks as its header says")
        }
        return .whole(bytes)
    }

    /// Room for the first `count` bytes.
    private mutating func takeRoom(_ count: Int) -> Bool {
        guard count > room else { return true }
        let more = max(count - room, Self.step)
        guard gate.take(more) else { return false }
        room += more
        return true
    }

    /// Gives the room back: nobody looks at the body any more.
    mutating func giveRoomBack() {
        gate.give(room)
        room = 0
    }

    /// After a refusal: takes what the client has sent already, for a second and a megabyte at most, so that it can
    /// read the answer before the connection ends; a connection with unread bytes in it is reset at once.
    mutating func drain(isHTTP1: Bool) async throws(ConnectionEnds) {
        let pipeline = channel.pipeline
        let deadline = channel.eventLoop.scheduleTask(in: .seconds(1)) { pipeline.fireErrorCaught(BodyTookTooLong()) }
        defer { deadline.cancel() }
        // What is wrong with the rest does not matter any more.
        var rest = 1 << 20
        do { while rest > 0, let part = try await parts.next() { rest -= part.readableBytes } } catch {}
        if isHTTP1 { throw ConnectionEnds() }
    }

    private static func tooLong(_ limits: ListenerConfiguration) -> String {
        "a body has at most \(limits.bodyByteCount) bytes here"
    }
}
