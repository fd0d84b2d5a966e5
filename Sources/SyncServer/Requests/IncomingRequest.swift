import HTTPTypes
import NIOCore
import SyncService

/// A request that is being received: its header, the admitted part of its body, and the tickets for both.
struct IncomingRequest {
    let head: HTTPRequest
    let client: Peer.Client
    private(set) var body: [UInt8] = []
    /// The admission slot, once it is taken.
    var slot: Budget.Ticket?
    /// The reserved bytes of a long body.
    private var tickets: [Budget.Ticket] = []
    private var reservedByteCount = 0
    /// True when the service has allowed the caller to send a long body.
    var isLongBodyAdmitted = false

    /// The length of the body that the header announces.
    private(set) var announcedByteCount = 0
    /// True if the header announces a body.
    private(set) var hasBody = false
    /// True if the client waits for `100 Continue` before it sends the body (RFC 9110, section 10.1.1).
    private(set) var isContinueExpected = false
    /// True if the client expects the connection to close after the answer.
    private(set) var closes = false
    private var isEncoded = false

    /// The minimum number of bytes that a body reserves at a time as it arrives.
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

    /// The refusal of a request by its header alone; `nil` if the header is acceptable.
    func refusal(_ limits: ListenerConfiguration) -> RequestError? {
        if announcedByteCount > limits.bodyByteCount { return Self.tooLong(announcedByteCount, limits) }
        guard isEncoded else { return nil }
        return RequestError(.unsupportedMediaType, "send the body without a Content-Encoding")
    }

    /// Returns `true` if `count` more bytes make the body so long that the caller must be authenticated first.
    func isLong(with count: Int) -> Bool {
        max(announcedByteCount, body.count + count) > EntitlementService.unauthenticatedBodyByteCount
    }

    /// Checks that the budget can take the announced body now, without reserving it.
    mutating func checkBudget(_ admission: Admission) throws(RequestError) {
        try admission.take(announcedByteCount, of: admission.bodies, address: client.address).give()
        // The system commits the memory only as it is written.
        body.reserveCapacity(announcedByteCount)
    }

    /// Reserves `count` more bytes of a long body.
    mutating func reserve(_ count: Int, _ admission: Admission) throws(RequestError) {
        let needed = body.count + count
        guard needed > reservedByteCount else { return }
        let more = max(needed - reservedByteCount, Self.step)
        tickets.append(try admission.take(more, of: admission.bodies, address: client.address))
        reservedByteCount += more
    }

    /// Appends a part of the body.
    mutating func append(_ part: ByteBuffer, _ limits: ListenerConfiguration) throws(RequestError) {
        let count = body.count + part.readableBytes
        guard count <= limits.bodyByteCount else { throw Self.tooLong(count, limits) }
        body.append(contentsOf: part.readableBytesView)
    }

    private static func tooLong(_ count: Int, _ limits: ListenerConfiguration) -> RequestError {
        RequestError(
            .contentTooLarge, "the body must have at most \(limits.bodyByteCount) bytes, not \(count) or more")
    }

    /// Returns the body and discards it here, so that it is not kept twice.
    mutating func takeBody() -> [UInt8] {
        defer { body = [] }
        return body
    }

    /// Releases the slot and the reserved bytes.
    mutating func release() {
        slot?.give()
        for ticket in tickets { ticket.give() }
        (slot, tickets, reservedByteCount) = (nil, [], 0)
    }
}
