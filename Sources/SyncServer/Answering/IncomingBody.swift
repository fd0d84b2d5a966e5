import HTTPTypes
import HummingbirdCore
import NIOCore
import SyncProtocol

/// The body of a request: received as a whole, within limits, or not at all.
struct IncomingBody {
    enum Received {
        case whole([UInt8])
        case refused(HTTPResponse.Status, String)

        var isWhole: Bool { if case .whole = self { true } else { false } }
    }

    private let request: Request
    /// A body has one iterator, and only one.
    private var parts: RequestBody.AsyncIterator
    private let channel: any Channel
    private let limits: ListenerConfiguration
    private let refusal: (HTTPResponse.Status, String)?

    init(_ request: Request, _ channel: any Channel, _ limits: ListenerConfiguration) {
        (self.request, self.channel, self.limits) = (request, channel, limits)
        parts = request.body.makeAsyncIterator()
        let announced = request.headers.value(of: .contentLength).flatMap { Int($0) } ?? 0
        if announced > limits.bodyByteCount {
            refusal = (.contentTooLarge, Self.tooLong(limits))
        } else if let coding = request.headers.value(of: .contentEncoding), coding.lowercased() != "identity" {
            refusal = (.unsupportedMediaType, "send the body without a Content-Encoding")
        } else {
            refusal = nil
        }
    }

    /// Whether the client waits for a word before it sends the body (RFC 9110, section 10.1.1).
    var isContinueExpected: Bool {
        refusal == nil && request.headers.value(of: .expect)?.lowercased() == "100-continue"
    }

    /// All of the body.
    ///
    /// - Throws: the connection's error where it ends before the body does.
    mutating func receive(isHTTP1: Bool) async throws -> Received {
        if let refusal { return .refused(refusal.0, refusal.1) }
        // A request with neither has no body (RFC 9112, section 6.3). In HTTP/2 the frames tell.
        if isHTTP1, !request.headers.contains(.contentLength), !request.headers.contains(.transferEncoding) {
            return .whole([])
        }
        let pipeline = channel.pipeline
        let deadline = channel.eventLoop.scheduleTask(in: .seconds(limits.bodySeconds)) {
            pipeline.fireErrorCaught(BodyTookTooLong())
        }
        defer { deadline.cancel() }
        var bytes: [UInt8] = []
        do {
            while let part = try await parts.next() {
                guard bytes.count + part.readableBytes <= limits.bodyByteCount else {
                    return .refused(.contentTooLarge, Self.tooLong(limits))
                }
                bytes.append(contentsOf: part.readableBytesView)
            }
        } catch is BodyTookTooLong {
            return .refused(.requestTimeout, "the body did not come within \(limits.bodySeconds) seconds")
        }
        return .whole(bytes)
    }

    /// After a refusal: takes what the client has sent already, for a second at most, so that it can read the answer
    /// before the connection ends; a connection with unread bytes in it is reset at once.
    mutating func drain(isHTTP1: Bool) async throws {
        let pipeline = channel.pipeline
        let deadline = channel.eventLoop.scheduleTask(in: .seconds(1)) { pipeline.fireErrorCaught(BodyTookTooLong()) }
        defer { deadline.cancel() }
        while try await parts.next() != nil {}
        if isHTTP1 { throw ConnectionEnds() }
    }

    private static func tooLong(_ limits: ListenerConfiguration) -> String {
        "a body has at most \(limits.bodyByteCount) bytes here"
    }

    private struct BodyTookTooLong: Error {}
}
