import HTTPTypes

/// The kinds of requests whose sender is not yet known.
package enum StrangerRequest: Sendable {
    case other, logIn, signUp
}

/// Enforces ``CallerLimits`` on addresses and accounts. All times are in milliseconds since 1970 UTC.
final class RequestLimiter: Sendable {
    /// The lanes of the rates of an address, and of an account.
    private enum Lane {
        static let (requests, strangers, logIns, signUps) = (0, 1, 2, 3)
        static let (reads, writes) = (0, 1)
    }

    /// The refused pieces of evidence of an address.
    private static let refusedEvidence = Rate(perSecond: 0.2, burst: 60)
    /// The content sessions that one line of purchases gets without an account: 300 at once, and 300 a day after that.
    private static let lineSessions = Rate(perSecond: 300.0 / 86_400, burst: 300)

    let limits: CallerLimits
    /// The running requests of accounts.
    let requests: Budget
    /// The open event streams of accounts.
    let streams: Budget
    private let addresses: RateTable
    private let accounts: RateTable
    private let evidence = RateTable(
        capacity: 4_096, reason: "too much evidence from this address was refused")
    private let lines = RateTable(capacity: 4_096, reason: "too many sessions of this purchase")
    private let onRefusal: @Sendable (Refusal) -> Void

    /// - Parameter onRefusal: Called for each request that is refused.
    init(
        _ limits: CallerLimits, capacity: Int = CallerLimits.capacity,
        onRefusal: @escaping @Sendable (Refusal) -> Void = { _ in }
    ) {
        (self.limits, self.onRefusal) = (limits, onRefusal)
        requests = Budget(.init(account: limits.accountRequests))
        streams = Budget(.init(account: limits.accountStreams))
        addresses = RateTable(capacity: capacity, reason: "too many requests from this address") {
            onRefusal(.addressRate)
        }
        accounts = RateTable(capacity: capacity, reason: "too many requests of this account") {
            onRefusal(.accountRate)
        }
    }

    /// Counts a request of `peer`, of any kind.
    ///
    /// - Throws: ``RequestError`` with status 429 if the address must wait.
    func admit(_ peer: String, now: Int64) throws(RequestError) {
        try addresses.take(of: limits.addressRequests, lane: Lane.requests, by: HolderID.of(peer: peer), now: now)
    }

    /// Counts a request of `peer` whose sender is not known. Throws like ``admit(_:now:)``.
    func admit(stranger peer: String, _ kind: StrangerRequest, now: Int64) throws(RequestError) {
        let (rate, lane) =
            switch kind {
            case .other: (limits.unauthenticatedRequests, Lane.strangers)
            case .logIn: (limits.logIns, Lane.logIns)
            case .signUp: (limits.signUps, Lane.signUps)
            }
        try addresses.take(of: rate, lane: lane, by: HolderID.of(peer: peer), now: now)
    }

    /// Counts a request of the account called `name` and takes a slot among its running requests.
    ///
    /// - Parameters:
    ///   - isRead: True if the request changes nothing.
    ///   - byteCount: The length of the request's body.
    /// - Returns: The slot, to be given back.
    /// - Throws: ``RequestError`` with status 429 if the account must wait.
    func enter(account name: String, isRead: Bool, byteCount: Int, now: Int64) throws(RequestError) -> Budget.Ticket {
        let ticket = try takeSlot(of: requests, name, "too many requests of this account at once", wait: 1)
        do throws(RequestError) {
            let (rate, lane) = isRead ? (limits.accountReads, Lane.reads) : (limits.accountWrites, Lane.writes)
            try accounts.take(
                1 + max(0, byteCount - 1) >> 16, of: rate, lane: lane, by: HolderID.of(name), now: now)
            return ticket
        } catch {
            ticket.give()
            throw error
        }
    }

    /// Takes a slot among the streams of the account called `name`, to be given back. Throws like
    /// ``enter(account:isRead:byteCount:now:)``.
    func openStream(account name: String) throws(RequestError) -> Budget.Ticket {
        try takeSlot(of: streams, name, "too many open streams of this account", wait: 30_000_000)
    }

    private func takeSlot(
        of budget: Budget, _ name: String, _ reason: String, wait: Int64
    ) throws(RequestError) -> Budget.Ticket {
        do throws(Budget.Shortage) { return try budget.take(account: name) } catch {
            onRefusal(.accountConcurrency)
            throw .wait(wait, reason)
        }
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
        let id = HolderID.of(name)
        accounts.charge(reads, of: limits.accountReads, lane: Lane.reads, by: id, now: now)
        accounts.charge(writes, of: limits.accountWrites, lane: Lane.writes, by: id, now: now)
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
        try accounts.take(count, of: limits.accountReads, lane: Lane.reads, by: HolderID.of(name), now: now)
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
        try accounts.check(limits.accountWrites, lane: Lane.writes, of: HolderID.of(name), now: now)
    }

    /// Throws ``RequestError`` with status 429 if `peer` sent too much evidence that was refused. Counts nothing.
    ///
    /// Accepted evidence does not count, because a store sends notifications in bursts from few addresses.
    func checkEvidence(of peer: String, now: Int64) throws(RequestError) {
        try evidence.check(Self.refusedEvidence, of: HolderID.of(peer: peer), now: now)
    }

    /// Counts evidence of `peer` that was refused.
    func countRefusedEvidence(of peer: String, now: Int64) {
        evidence.charge(of: Self.refusedEvidence, by: HolderID.of(peer: peer), now: now)
    }

    /// Counts a content session of a line of purchases.
    ///
    /// - Throws: ``RequestError`` with status 429 if the line must wait.
    func admit(line: String, now: Int64) throws(RequestError) {
        try lines.take(of: Self.lineSessions, by: HolderID.of(line), now: now)
    }

    /// The number of addresses that are remembered.
    var addressCount: Int { addresses.count }
}
