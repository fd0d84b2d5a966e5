import Synchronization

/// A bounded amount of one resource, with a share per address and per account.
///
/// The owner chooses the unit: requests, streams, connections, bytes. An amount is taken with
/// ``take(_:address:account:)`` and given back exactly once with ``Ticket/give()``. It counts in the total and in the
/// shares of the named address and account. A holder is remembered only while it holds something, so the total bounds
/// the tables of holders.
package final class Budget: Sendable {
    /// An amount that was taken.
    package struct Ticket: Sendable {
        package let amount: Int
        fileprivate let budget: Budget
        fileprivate let address: ClientAddress?
        fileprivate let account: String?

        /// Gives the amount back.
        package func give() { budget.give(self) }
    }

    /// The share that was exhausted.
    package enum Shortage: Error, Hashable, Sendable {
        case total, address, account
    }

    /// The limits of a budget. `nil` means unlimited.
    package struct Limits: Hashable, Sendable {
        package var total: Int?
        package var address: Int?
        package var account: Int?

        package init(total: Int? = nil, address: Int? = nil, account: Int? = nil) {
            (self.total, self.address, self.account) = (total, address, account)
        }
    }

    private struct State {
        var total = 0
        var addresses: [ClientAddress: Int] = [:]
        var accounts: [String: Int] = [:]
    }

    package let limits: Limits
    private let state = Mutex(State())

    package init(_ limits: Limits) { self.limits = limits }

    /// Takes `amount`.
    ///
    /// - Parameters:
    ///   - amount: 0 or more.
    ///   - address: The holder's address. An IPv6 address counts with its /64. Loopback addresses and `nil` have no
    ///     share: they belong to the operator, or to a proxy that does not name its clients.
    ///   - account: The holder's account; `nil` for none.
    /// - Throws: ``Shortage`` for the first limit that would be exceeded; nothing is taken then. A holder of nothing
    ///   may take more than its share, and the first taker more than the total, so that a single large amount is not
    ///   refused for ever.
    package func take(
        _ amount: Int = 1, address: ClientAddress? = nil, account: String? = nil
    ) throws(Shortage) -> Ticket {
        let (ticket, shortage) = add(amount, address, account, isForced: false)
        if let shortage { throw shortage }
        return ticket
    }

    /// Takes `amount` even beyond the limits, for work that can no longer be refused.
    package func force(_ amount: Int, address: ClientAddress? = nil, account: String? = nil) -> Ticket {
        add(amount, address, account, isForced: true).ticket
    }

    private func add(
        _ amount: Int, _ address: ClientAddress?, _ account: String?, isForced: Bool
    ) -> (ticket: Ticket, shortage: Shortage?) {
        let address = address.flatMap { $0.isLoopback ? nil : $0.network }
        let shortage = state.withLock { state -> Shortage? in
            let ofAddress = address.map { state.addresses[$0, default: 0] } ?? 0
            let ofAccount = account.map { state.accounts[$0, default: 0] } ?? 0
            if !isForced {
                if Self.exceeds(limits.total, state.total, amount) { return .total }
                if address != nil, Self.exceeds(limits.address, ofAddress, amount) { return .address }
                if account != nil, Self.exceeds(limits.account, ofAccount, amount) { return .account }
            }
            state.total += amount
            if let address, limits.address != nil { state.addresses[address] = ofAddress + amount }
            if let account, limits.account != nil { state.accounts[account] = ofAccount + amount }
            return nil
        }
        return (Ticket(amount: amount, budget: self, address: address, account: account), shortage)
    }

    private static func exceeds(_ limit: Int?, _ held: Int, _ amount: Int) -> Bool {
        guard let limit, held > 0 || limit == 0 else { return false }
        return held + amount > limit
    }

    private func give(_ ticket: Ticket) {
        state.withLock { state in
            state.total -= ticket.amount
            if let address = ticket.address, let held = state.addresses[address] {
                state.addresses[address] = held > ticket.amount ? held - ticket.amount : nil
            }
            if let account = ticket.account, let held = state.accounts[account] {
                state.accounts[account] = held > ticket.amount ? held - ticket.amount : nil
            }
        }
    }

    /// The total amount that is taken.
    package var taken: Int { state.withLock { $0.total } }

    /// The number of addresses and accounts that hold something.
    package var holderCount: Int { state.withLock { $0.addresses.count + $0.accounts.count } }
}
