import HTTPTypes
import SyncService
import Synchronization

/// Decides whether the server takes on a connection, a request, the bytes of a body or an answer, or a stream.
///
/// All are kinds of one ``Budget``: a total, a share per address and, where the account is known, a share per account.
/// The machine's own programs have no address share. Refusals are immediate and counted, so that admitted work finishes
/// in time.
final class Admission: Sendable {
    /// The number of connections of the machine's own programs beyond the limit, so that an operator gets in.
    static let reserve = 64

    /// Open connections.
    let connections: Budget
    /// Connections of the machine's own programs beyond that.
    let reservedConnections: Budget
    /// Requests of which more is to come after the read that brought their header. They are fewer than requests, so
    /// that bodies that never come leave places for requests that come at once.
    let uploads: Budget
    /// Complete requests, until the answer is known.
    let requests: Budget
    /// Requests for operational endpoints.
    let operations: Budget
    /// Bytes of bodies longer than 64 KiB, until the answer is known.
    let bodies: Budget
    /// Bytes of long answers, until the client has taken the last of them.
    let answers: Budget
    /// Open streams of events.
    let streams: Budget
    private let onRefusal: @Sendable (Refusal) -> Void

    init(_ limits: ListenerConfiguration, onRefusal: @escaping @Sendable (Refusal) -> Void) {
        connections = Budget(.init(total: limits.connectionCount, address: limits.addressConnectionCount))
        reservedConnections = Budget(.init(total: Self.reserve))
        requests = Budget(.init(total: limits.requestCount, address: limits.addressRequestCount))
        uploads = Budget(
            .init(total: max(1, limits.requestCount / 2), address: max(1, limits.addressRequestCount / 2)))
        operations = Budget(.init(total: 256, address: 16))
        bodies = Budget(.init(total: limits.totalBodyByteCount, address: limits.totalBodyByteCount / 4))
        answers = Budget(
            .init(
                total: limits.totalAnswerByteCount, address: limits.totalAnswerByteCount / 4,
                account: limits.totalAnswerByteCount / 4))
        streams = Budget(.init(total: limits.streamCount, address: limits.addressStreamCount))
        self.onRefusal = onRefusal
    }

    /// A place among uploads, requests or operations.
    struct Place: Sendable {
        let budget: Budget
        let ticket: Budget.Ticket

        func give() { budget.give(ticket) }
    }

    /// Counts a refusal.
    func note(_ refusal: Refusal) { onRefusal(refusal) }

    /// Takes a connection of `address`; `nil` for a trusted proxy, which has no share.
    ///
    /// - Returns: gives the connection back; `nil` when the connection is refused.
    func connect(_ address: ClientAddress?) -> (@Sendable () -> Void)? {
        if let ticket = try? connections.take(address: address) { return { self.connections.give(ticket) } }
        if address?.isLoopback == true, let ticket = try? reservedConnections.take() {
            return { self.reservedConnections.give(ticket) }
        }
        note(.connections)
        return nil
    }

    /// Takes `amount` of `budget` for a client at `address`.
    ///
    /// - Throws: the refusal to answer with.
    func take(_ amount: Int = 1, of budget: Budget, address: ClientAddress?) throws(RefusedRequest) -> Budget.Ticket {
        do throws(Budget.Shortage) { return try budget.take(amount, address: address) } catch {
            switch error {
            case .total, .account:
                note(.overload)
                throw .overload
            case .address:
                note(.addressConcurrency)
                throw RefusedRequest(
                    .tooManyRequests, "too many requests or bytes of this address are in progress; retry after 1 s")
            }
        }
    }
}

/// A request that is refused without being looked at, and the answer to its client.
struct RefusedRequest: Error {
    var status: HTTPResponse.Status
    var detail: String

    init(_ status: HTTPResponse.Status, _ detail: String) { (self.status, self.detail) = (status, detail) }

    static let overload = RefusedRequest(.serviceUnavailable, "the server is overloaded; retry after 1 s")
}

/// The room that one answer has taken while it is made and until its client has all of it.
///
/// The service reserves the bytes of each value before the answer keeps it, so that memory is counted when it is used
/// and not when it is sent.
final class AnswerBudget: Sendable {
    private struct State {
        var tickets: [Budget.Ticket] = []
        var byteCount = 0
        var isOver = false
    }

    private let admission: Admission
    private let address: ClientAddress?
    private let uncountedByteCount: Int
    private let state = Mutex(State())

    /// - Parameter uncountedByteCount: the length up to which an answer needs no room.
    init(_ admission: Admission, address: ClientAddress?, uncountedByteCount: Int) {
        (self.admission, self.address, self.uncountedByteCount) = (admission, address, uncountedByteCount)
    }

    /// The bytes that are reserved, with those that need no room.
    var byteCount: Int { state.withLock { $0.byteCount } }

    /// Indicates whether room has to be given back.
    var isTaken: Bool { state.withLock { !$0.tickets.isEmpty } }

    /// Reserves `count` more bytes for `account`; `false` when there is no room.
    func reserve(_ count: Int, account: String?) -> Bool {
        let isUncounted = state.withLock { state in
            guard state.tickets.isEmpty, state.byteCount + count <= uncountedByteCount else { return false }
            state.byteCount += count
            return true
        }
        if isUncounted { return true }
        guard let ticket = try? admission.answers.take(count, address: address, account: account) else {
            admission.note(.overload)
            return false
        }
        add(ticket)
        return true
    }

    /// Reserves `count` more bytes, whether there is room or not.
    func force(_ count: Int, account: String?) {
        add(admission.answers.force(count, address: address, account: account))
    }

    private func add(_ ticket: Budget.Ticket) {
        let isOver = state.withLock { state in
            guard !state.isOver else { return true }
            state.tickets.append(ticket)
            state.byteCount += ticket.amount
            return false
        }
        if isOver { admission.answers.give(ticket) }
    }

    /// Gives everything back, for good.
    func release() {
        let tickets = state.withLock { state in
            state.isOver = true
            defer { state.tickets = [] }
            return state.tickets
        }
        for ticket in tickets { admission.answers.give(ticket) }
    }
}
