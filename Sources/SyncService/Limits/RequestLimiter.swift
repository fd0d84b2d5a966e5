import HTTPTypes
import Synchronization

/// Keeps addresses and accounts within ``CallerLimits``. Everything it remembers has a fixed size; a check takes one
/// lock and allocates nothing.
final class RequestLimiter: Sendable {
    /// What somebody asks for who is not known yet.
    enum StrangerKind {
        case other, logIn, signUp
    }

    /// The places of the rates in an entry of an address, and of an account.
    private enum Lane {
        static let (requests, strangers, logIns, signUps) = (0, 1, 2, 3)
        static let (reads, writes) = (0, 1)
    }

    /// A place among an account's requests or streams; ``RequestLimiter/leave(_:)`` gives it back.
    struct Ticket: Sendable {
        fileprivate var id: UInt64
        fileprivate var isStream: Bool
    }

    let limits: CallerLimits
    private let addresses: Mutex<LimitTable>
    private let accounts: Mutex<LimitTable>
    private let onRefusal: @Sendable (Refusal) -> Void

    /// - Parameter onRefusal: is told of each request that is refused.
    init(
        _ limits: CallerLimits, capacity: Int = CallerLimits.capacity,
        onRefusal: @escaping @Sendable (Refusal) -> Void = { _ in }
    ) {
        (self.limits, self.onRefusal) = (limits, onRefusal)
        addresses = Mutex(LimitTable(capacity: capacity))
        accounts = Mutex(LimitTable(capacity: capacity))
    }

    /// Counts a request of `peer`, of whatever kind.
    ///
    /// - Parameter now: in milliseconds since 1970 UTC, as everywhere here.
    /// - Throws: ``RequestError`` with status 429 where it has to wait.
    func admit(_ peer: String, now: Int64) throws(RequestError) {
        guard let rate = limits.addressRequests, let id = Self.id(of: peer) else { return }
        try take(1, of: rate, Lane.requests, of: id, now)
    }

    /// Counts a request of `peer` by nobody who is known. Throws as ``admit(_:now:)``.
    func admit(stranger peer: String, _ kind: StrangerKind, now: Int64) throws(RequestError) {
        let (rate, lane) =
            switch kind {
            case .other: (limits.strangerRequests, Lane.strangers)
            case .logIn: (limits.logIns, Lane.logIns)
            case .signUp: (limits.signUps, Lane.signUps)
            }
        guard let rate, let id = Self.id(of: peer) else { return }
        try take(1, of: rate, lane, of: id, now)
    }

    private func take(_ count: Int, of rate: Rate, _ lane: Int, of id: UInt64, _ now: Int64) throws(RequestError) {
        let wait = addresses.withLock { table -> Int64? in
            table.update(id) { $0.take(count, of: rate, lane: lane, now: now * 1_000) } ?? nil
        }
        guard let wait else { return }
        onRefusal(.addressRate)
        throw Self.error("too many requests from this address", wait: wait)
    }

    /// Whose rates count for `peer`: nobody's for the machine itself.
    private static func id(of peer: String) -> UInt64? {
        guard let address = ClientAddress(peer) else { return LimitTable.id(of: peer) }
        return address.isLoopback ? nil : LimitTable.id(of: address.network)
    }

    /// Counts a request of the account called `name`, and takes a place among those under way.
    ///
    /// - Parameters:
    ///   - isRead: whether it changes nothing.
    ///   - byteCount: how long its body is.
    /// - Returns: the place, to be given back; `nil` where none is counted.
    /// - Throws: ``RequestError`` with status 429 where it has to wait.
    func enter(account name: String, isRead: Bool, byteCount: Int, now: Int64) throws(RequestError) -> Ticket? {
        let rate = isRead ? limits.accountReads : limits.accountWrites
        let most = limits.accountRequests
        guard rate != nil || most != nil else { return nil }
        let id = LimitTable.id(of: name)
        let count = 1 + max(0, byteCount - 1) >> 16
        let entrance = accounts.withLock { table in
            table.update(id) { entry -> Entrance in
                if let most, entry.requests >= most { return .full }
                let lane = isRead ? Lane.reads : Lane.writes
                if let rate, let wait = entry.take(count, of: rate, lane: lane, now: now * 1_000) {
                    return .wait(wait)
                }
                guard most != nil else { return .uncounted }
                entry.requests += 1
                return .counted
            }
        }
        // Where no entry could be had nothing was counted that could be given back.
        switch entrance ?? .uncounted {
        case .counted: return Ticket(id: id, isStream: false)
        case .uncounted: return nil
        case .full:
            onRefusal(.accountConcurrency)
            throw Self.error("too many requests of this account at once", wait: 1)
        case .wait(let time):
            onRefusal(.accountRate)
            throw Self.error("too many requests of this account", wait: time)
        }
    }

    /// What becomes of a request of an account.
    private enum Entrance {
        case counted, uncounted, full
        case wait(Int64)
    }

    /// Decoding 16 KiB costs as much as a request.
    static let decodingShift = 14
    /// Deriving entitlements from 4 KiB costs as much as a request.
    static let replayShift = 12
    /// So many operations of a batch cost as much as a request.
    static let operationsPerRequest = 8

    /// Charges the account called `name` for work that was not known when its request was admitted. It may get into
    /// debt: its next requests wait, a minute at most.
    func charge(account name: String, reads: Int, writes: Int, now: Int64) {
        let charges = [(limits.accountReads, Lane.reads, reads), (limits.accountWrites, Lane.writes, writes)]
        guard charges.contains(where: { $0.0 != nil && $0.2 > 0 }) else { return }
        accounts.withLock { table in
            _ = table.update(LimitTable.id(of: name)) { entry in
                for case (let rate?, let lane, let count) in charges where count > 0 {
                    entry.charge(count, of: rate, lane: lane, now: now * 1_000)
                }
            }
        }
    }

    /// Charges the account called `name` for the operations of a batch. The request itself is counted as a write.
    func charge(account name: String, batchedReads reads: Int, batchedWrites writes: Int, now: Int64) {
        charge(
            account: name, reads: reads / Self.operationsPerRequest,
            writes: max(0, writes - 1) / Self.operationsPerRequest, now: now)
    }

    /// Counts `count` reads of the account called `name`, before they are done.
    ///
    /// - Throws: ``RequestError`` with status 429 when the account must wait. Nothing is counted then.
    func takeReads(_ count: Int, account name: String, now: Int64) throws(RequestError) {
        guard count > 0, let rate = limits.accountReads else { return }
        let wait = accounts.withLock { table in
            table.update(LimitTable.id(of: name)) {
                $0.take(count, of: rate, lane: Lane.reads, now: now * 1_000)
            } ?? nil
        }
        guard let wait else { return }
        onRefusal(.accountRate)
        throw Self.error("too many requests of this account", wait: wait)
    }

    /// Counts a read of the account called `name` that is answered synchronously; `false` when it must wait, and
    /// nothing is counted.
    func takesRead(account name: String, now: Int64) -> Bool {
        guard let rate = limits.accountReads else { return true }
        let wait = accounts.withLock { table in
            table.update(LimitTable.id(of: name)) { $0.take(1, of: rate, lane: Lane.reads, now: now * 1_000) } ?? nil
        }
        return wait == nil
    }

    /// Throws where the account called `name` has to wait before it may write again; counts nothing.
    func checkWrites(account name: String, now: Int64) throws(RequestError) {
        guard let rate = limits.accountWrites else { return }
        let wait = accounts.withLock { table -> Int64? in
            table.update(LimitTable.id(of: name)) { entry in
                var copy = entry
                return copy.take(1, of: rate, lane: Lane.writes, now: now * 1_000)
            } ?? nil
        }
        guard let wait else { return }
        onRefusal(.accountRate)
        throw Self.error("too many requests of this account", wait: wait)
    }

    /// Takes a place among the streams of the account called `name`. As ``enter(account:isRead:byteCount:now:)``.
    func openStream(account name: String) throws(RequestError) -> Ticket? {
        guard let most = limits.accountStreams else { return nil }
        let id = LimitTable.id(of: name)
        let isOpened = accounts.withLock { table in
            table.update(id) { entry in
                guard entry.streams < most else { return false }
                entry.streams += 1
                return true
            }
        }
        guard isOpened != false else {
            onRefusal(.accountConcurrency)
            throw Self.error("too many open streams of this account", wait: 30_000_000)
        }
        return isOpened == nil ? nil : Ticket(id: id, isStream: true)
    }

    /// Gives a place back. Once for each.
    func leave(_ ticket: Ticket) {
        accounts.withLock { table in
            table.updateKnown(ticket.id) { entry in
                if ticket.isStream {
                    entry.streams = max(0, entry.streams - 1)
                } else {
                    entry.requests = max(0, entry.requests - 1)
                }
            }
        }
    }

    /// How many addresses are remembered.
    var addressCount: Int { addresses.withLock { $0.count } }

    private static func error(_ reason: String, wait: Int64) -> RequestError {
        let seconds = max(1, (wait + 999_999) / 1_000_000)
        return RequestError(.tooManyRequests, "\(reason); wait \(seconds) s", retryAfter: seconds)
    }
}
