import HTTPTypes
import NIOCore
import SyncService

/// A request that is being received: its header, as much of its body as was admitted, and the tickets for both.
struct IncomingRequest {
    let head: HTTPRequest
    let client: Peer.Client
    private(set) var body: [UInt8] = []
    /// The place among the requests under way, once it is taken.
    var place: Admission.Place?
    /// The room for a long body.
    private var room: [Budget.Ticket] = []
    private var roomByteCount = 0
    /// Indicates whether the sender of a long body was found to be allowed to send it.
    var isLongBodyAdmitted = false

    /// The length of the body that the header announces.
    private(set) var announcedByteCount = 0
    /// Indicates whether the header announces a body.
    private(set) var hasBody = false
    /// Indicates whether the client waits for `100 Continue` before it sends the body (RFC 9110, section 10.1.1).
    private(set) var isContinueExpected = false
    /// Indicates whether the client expects the connection to close after the answer.
    private(set) var closes = false
    private var isEncoded = false

    /// Bodies take room in steps of this many bytes, as they arrive.
    private static let step = 256 << 10

    init(_ head: HTTPRequest, client: Peer.Client) {
        (self.head, self.client) = (head, client)
        for field in head.headerFields {
            switch field.name {
            case .contentLength:
                announcedByteCount = Int(field.value) ?? .max
                hasBody = true
            case .transferEncoding: hasBody = true
            case .expect: isContinueExpected = field.value.lowercased() == "100-continue"
            case .connection: closes = closes || field.value.lowercased().contains("close")
            case .contentEncoding: isEncoded = field.value.lowercased() != "identity"
            default: break
            }
        }
    }

    /// The reason to refuse the request by its header alone; `nil` when there is none.
    func refusal(_ limits: ListenerConfiguration) -> RefusedRequest? {
        if announcedByteCount > limits.bodyByteCount { return Self.tooLong(announcedByteCount, limits) }
        guard isEncoded else { return nil }
        return RefusedRequest(.unsupportedMediaType, "send the body without a Content-Encoding")
    }

    /// Indicates whether `count` more bytes make the body so long that its sender must be known first.
    func isLong(with count: Int) -> Bool {
        max(announcedByteCount, body.count + count) > EntitlementService.strangerBodyByteCount
    }

    /// Checks that there is room for an announced body now, and takes none of it.
    mutating func checkRoom(_ admission: Admission) throws(RefusedRequest) {
        let ticket = try admission.take(announcedByteCount, of: admission.bodies, address: client.address)
        admission.bodies.give(ticket)
        // Memory is used as it is written.
        body.reserveCapacity(announcedByteCount)
    }

    /// Takes room for `count` more bytes of a long body.
    mutating func takeRoom(with count: Int, _ admission: Admission) throws(RefusedRequest) {
        let needed = body.count + count
        guard needed > roomByteCount else { return }
        let more = max(needed - roomByteCount, Self.step)
        room.append(try admission.take(more, of: admission.bodies, address: client.address))
        roomByteCount += more
    }

    /// Appends a part of the body.
    mutating func append(_ part: ByteBuffer, _ limits: ListenerConfiguration) throws(RefusedRequest) {
        let count = body.count + part.readableBytes
        guard count <= limits.bodyByteCount else { throw Self.tooLong(count, limits) }
        body.append(contentsOf: part.readableBytesView)
    }

    private static func tooLong(_ count: Int, _ limits: ListenerConfiguration) -> RefusedRequest {
        RefusedRequest(
            .contentTooLarge, "the body must have at most \(limits.bodyByteCount) bytes, not \(count) or more")
    }

    /// Takes the body out, which this does not keep.
    mutating func takeBody() -> [UInt8] {
        defer { body = [] }
        return body
    }

    /// Gives the place and the room back.
    mutating func release(_ admission: Admission) {
        place?.give()
        for ticket in room { admission.bodies.give(ticket) }
        (place, room, roomByteCount) = (nil, [], 0)
    }
}
