import HTTPTypes
import Synchronization

/// Enforces ``CallerLimits`` on addresses and accounts. Its tables have a fixed size; checking a rate takes one lock
/// and allocates nothing. All times are in milliseconds since 1970 UTC.
final class RequestLimiter: Sendable {
    /// The kinds of requests whose sender is not yet known.
    enum UnauthenticatedKind {
        case other, logIn, signUp
    }

    /// The lanes of the rates in the entry of an address, and of an account.
    private enum Lane {
        static let (requests, strangers, logIns, signUps) = (0, 1, 2, 3)
        static let (reads, writes) = (0, 1)
    }

    let limits: CallerLimits
    /// The running requests of accounts.
    let requests: Budget
    /// The open event streams of accounts.
    let streams: Budget
    private let addresses: Mutex<LimitTable>
    private let accounts: Mutex<LimitTable>
    private let onRefusal: @Sendable (Refusal) -> Void

    /// - Parameter onRefusal: Called for each request that is refused.
    init(
        _ limits: CallerLimits, capacity: Int = CallerLimits.capacity,
        onRefusal: @escaping @Sendable (Refusal) -> Void = { _ in }
    ) {
        (self.limits, self.onRefusal) = (limits, onRefusal)
        requests = Budget(.init(account: limits.accountRequests))
        streams = Budget(.init(account: limits.accountStreams))
        addresses = Mutex(LimitTable(capacity: capacity))
        accounts = Mutex(LimitTable(capacity: capacity))
    }

    /// Counts a request of `peer`, of any kind.
    ///
    /// - Throws: ``RequestError`` with status 429 if the address must wait.
    func admit(_ peer: String, now: Int64) throws(RequestError) {
        try take(limits.addressRequests, Lane.requests, of: peer, now)
    }

    /// Counts a request of `peer` whose sender is not known. Throws like ``admit(_:now:)``.
    func admit(stranger peer: String, _ kind: UnauthenticatedKind, now: Int64) throws(RequestError) {
        let (rate, lane) =
            switch kind {
            case .other: (limits.unauthenticatedRequests, Lane.strangers)
            case .logIn: (limits.logIns, Lane.logIns)
            case .signUp: (limits.signUps, Lane.signUps)
            }
        try take(rate, lane, of: peer, now)
    }

    private func take(_ rate: Rate?, _ lane: Int, of peer: String, _ now: Int64) throws(RequestError) {
        guard let rate, let id = Self.id(of: peer) else { return }
        let wait = addresses.withLock { table in
            table.update(id) { $0.take(1, of: rate, lane: lane, now: now * 1_000) }
        }
        guard let wait else { return }
        onRefusal(.addressRate)
        throw Self.error("too many requests from this address", wait: wait)
    }

    /// The id under which the rates of `peer` are kept; `nil` for a loopback address, which has no limits.
    private static func id(of peer: String) -> UInt64? {
        guard let address = ClientAddress(peer) else { return LimitTable.id(of: peer) }
        return address.isLoopback ? nil : LimitTable.id(of: address.network)
    }

    /// Counts a request of the account called `name` and takes a place among its running requests.
    ///
    /// - Parameters:
    ///   - isRead: True if the request changes nothing.
    ///   - byteCount: The length of the request's body.
    /// - Returns: The place, to be given back to ``requests``.
    /// - Throws: ``RequestError`` with status 429 if the account must wait.
    func enter(account name: String, isRead: Bool, byteCount: Int, now: Int64) throws(RequestError) -> Budget.Ticket {
        let ticket = try takePlace(of: requests, name, "too many requests of this account at once", wait: 1)
        do throws(RequestError) {
            let (rate, lane) = isRead ? (limits.accountReads, Lane.reads) : (limits.accountWrites, Lane.writes)
            try take(1 + max(0, byteCount - 1) >> 16, of: rate, lane, account: name, now)
            return ticket
        } catch {
            requests.give(ticket)
            throw error
        }
    }

    /// Takes a place among the streams of the account called `name`, to be given back to ``streams``. Throws like
    /// ``enter(account:isRead:byteCount:now:)``.
    func openStream(account name: String) throws(RequestError) -> Budget.Ticket {
        try takePlace(of: streams, name, "too many open streams of this account", wait: 30_000_000)
    }

    private func takePlace(
        of budget: Budget, _ name: String, _ reason: String, wait: Int64
    ) throws(RequestError) -> Budget.Ticket {
        do throws(Budget.Shortage) { return try budget.take(account: name) } catch {
            onRefusal(.accountConcurrency)
            throw Self.error(reason, wait: wait)
        }
    }

    private func take(
        _ count: Int, of rate: Rate?, _ lane: Int, account name: String, _ now: Int64
    ) throws(RequestError) {
        guard count > 0, let rate else { return }
        let wait = accounts.withLock { table in
            table.update(LimitTable.id(of: name)) { $0.take(count, of: rate, lane: lane, now: now * 1_000) }
        }
        guard let wait else { return }
        onRefusal(.accountRate)
        throw Self.error("too many requests of this account", wait: wait)
    }

    /// Decoding 16 KiB costs as much as a request.
    static let decodingShift = 14
    /// Deriving entitlements from 4 KiB costs as much as a request.
    static let replayShift = 12
    /// The number of operations of a batch that cost as much as a request.
    static let operationsPerRequest = 8

    /// Charges the account called `name` for work that was unknown when its request was admitted. The account may get
    /// into debt; its next requests then wait, a minute at most.
    func charge(account name: String, reads: Int, writes: Int, now: Int64) {
        let charges = [(limits.accountReads, Lane.reads, reads), (limits.accountWrites, Lane.writes, writes)]
        guard charges.contains(where: { $0.0 != nil && $0.2 > 0 }) else { return }
        accounts.withLock { table in
            table.update(LimitTable.id(of: name)) { entry in
                for case (let rate?, let lane, let count) in charges where count > 0 {
                    entry.charge(count, of: rate, lane: lane, now: now * 1_000)
                }
            }
        }
    }

    /// Charges the account called `name` for operations that are not covered by its request. The request itself counts
    /// as one of the writes.
    func charge(account name: String, batchedReads reads: Int, batchedWrites writes: Int, now: Int64) {
        charge(
            account: name, reads: reads / Self.operationsPerRequest,
            writes: max(0, writes - 1) / Self.operationsPerRequest, now: now)
    }

    /// Counts `count` reads of the account called `name` before they are done.
    ///
    /// - Throws: ``RequestError`` with status 429 if the account must wait. Nothing is counted then.
    func takeReads(_ count: Int, account name: String, now: Int64) throws(RequestError) {
        try take(count, of: limits.accountReads, Lane.reads, account: name, now)
    }

    /// Counts a read by the account called `name` at `peer`. Returns `false` if either must wait.
    ///
    /// The account is checked first. A read for which it must wait is answered by ``EntitlementService/respond(to:)``,
    /// which counts the address.
    func admitsRead(_ peer: String, account name: String, now: Int64) -> Bool {
        do throws(RequestError) {
            try takeReads(1, account: name, now: now)
            try admit(peer, now: now)
            return true
        } catch {
            return false
        }
    }

    /// Throws if the account called `name` must wait before it may write again. Counts nothing.
    func checkWrites(account name: String, now: Int64) throws(RequestError) {
        guard let rate = limits.accountWrites else { return }
        let wait = accounts.withLock { table in
            table.update(LimitTable.id(of: name)) { entry in
                var copy = entry
                return copy.take(1, of: rate, lane: Lane.writes, now: now * 1_000)
            }
        }
        guard let wait else { return }
        onRefusal(.accountRate)
        throw Self.error("too many requests of this account", wait: wait)
    }

    /// The number of addresses that are remembered.
    var addressCount: Int { addresses.withLock { $0.count } }

    private static func error(_ reason: String, wait: Int64) -> RequestError {
        let seconds = max(1, (wait + 999_999) / 1_000_000)
        return RequestError(.tooManyRequests, "\(reason); wait \(seconds) s", retryAfter: seconds)
    }
}
