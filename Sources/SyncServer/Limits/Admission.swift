import HTTPTypes
import SyncService
import Synchronization

/// Admits connections, requests, the bytes of bodies and answers, and event streams within their limits.
///
/// Each kind has a ``Budget``: a total, a share per address and, where the account is known, a share per account.
/// Loopback clients have no address share. A refusal is immediate and counted, so that admitted work finishes in time.
final class Admission: Sendable {
    /// The number of loopback connections beyond the limit, so that an operator can still connect.
    static let reserve = 64

    /// Open connections.
    let connections: Budget
    /// Loopback connections beyond ``connections``.
    let reservedConnections: Budget
    /// Requests whose body did not arrive in the same read as the header. The limit is half that of ``requests``:
    /// bodies that never arrive leave slots for complete requests.
    let uploads: Budget
    /// Complete requests, until the answer is known.
    let requests: Budget
    /// Requests for operational endpoints.
    let operations: Budget
    /// Bytes of bodies longer than 64 KiB, until the answer is known.
    let bodies: Budget
    /// Bytes of long answers, until the client has received all of the answer.
    let answers: Budget
    /// Open event streams.
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

    /// Counts a refusal.
    func count(_ refusal: Refusal) { onRefusal(refusal) }

    /// Admits a connection.
    ///
    /// - Parameter address: the client's address; `nil` for a trusted proxy, which has no address share.
    /// - Returns: the slot of the connection; `nil` when the connection is refused.
    func connect(_ address: ClientAddress?) -> Budget.Ticket? {
        if let ticket = try? connections.take(address: address) { return ticket }
        if address?.isLoopback == true, let ticket = try? reservedConnections.take() { return ticket }
        count(.connections)
        return nil
    }

    /// Takes `amount` units of `budget` for a client at `address`.
    ///
    /// - Throws: the refusal to send as the answer.
    func take(_ amount: Int = 1, of budget: Budget, address: ClientAddress?) throws(RequestError) -> Budget.Ticket {
        do throws(Budget.Shortage) { return try budget.take(amount, address: address) } catch {
            switch error {
            case .total, .account:
                count(.overload)
                throw .overload
            case .address:
                count(.addressConcurrency)
                throw RequestError(
                    .tooManyRequests, "this address has too many requests or bytes in flight; retry after 1 s")
            }
        }
    }
}

extension RequestError {
    static let overload = RequestError(.serviceUnavailable, "the server is overloaded; retry after 1 s")
}

/// The bytes that one answer reserves in ``Admission/answers``, from its creation until the client has received it.
///
/// The service reserves the bytes of each value before it adds the value to the answer. Memory is thus counted from
/// when it is allocated, not from when it is sent.
final class ResponseBudget: Sendable {
    private struct State {
        var tickets: [Budget.Ticket] = []
        var byteCount = 0
        var isOver = false
    }

    private let admission: Admission
    private let address: ClientAddress?
    private let uncountedByteCount: Int
    private let state = Mutex(State())

    /// - Parameter uncountedByteCount: the length up to which an answer is not counted.
    init(_ admission: Admission, address: ClientAddress?, uncountedByteCount: Int) {
        (self.admission, self.address, self.uncountedByteCount) = (admission, address, uncountedByteCount)
    }

    /// The bytes that are reserved, including those that are not counted.
    var byteCount: Int { state.withLock { $0.byteCount } }

    /// True if there are reserved bytes to release.
    var isTaken: Bool { state.withLock { !$0.tickets.isEmpty } }

    /// Reserves `count` more bytes for `account`.
    ///
    /// - Returns: `false` if the budget is exhausted.
    func reserve(_ count: Int, account: String?) -> Bool {
        let isUncounted = state.withLock { state in
            guard state.tickets.isEmpty, state.byteCount + count <= uncountedByteCount else { return false }
            state.byteCount += count
            return true
        }
        if isUncounted { return true }
        guard let ticket = try? admission.answers.take(count, address: address, account: account) else {
            admission.count(.overload)
            return false
        }
        add(ticket)
        return true
    }

    /// Reserves `count` more bytes, even if that exceeds the budget.
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
        if isOver { ticket.give() }
    }

    /// Releases all bytes. Later reservations are released at once.
    func release() {
        let tickets = state.withLock { state in
            state.isOver = true
            defer { state.tickets = [] }
            return state.tickets
        }
        for ticket in tickets { ticket.give() }
    }
}
