import SyncService
import Synchronization

/// A queue for expensive work, bounded in total and per address.
///
/// The addresses are served in turn (round robin), so that an address with many waiting jobs delays another by one job
/// only. Loopback clients have no address share; in the rotation they count as one address.
final class PasswordQueue: Sendable {
    private typealias Waiter = CheckedContinuation<Void, Never>

    private struct State {
        var idleSlots: Int
        var waiters: [ClientAddress?: [Waiter]] = [:]
        /// The addresses that have waiters, in the order in which they are served.
        var turns: [ClientAddress?] = []
    }

    private let budget: Budget
    private let state: Mutex<State>

    /// - Parameters:
    ///   - slots: the maximum number of running jobs.
    ///   - length: the maximum number of jobs that wait for a slot.
    ///   - share: the maximum number of jobs of one address, running and waiting.
    init(slots: Int, length: Int, share: Int) {
        budget = Budget(.init(total: slots + length, address: share))
        state = Mutex(State(idleSlots: slots))
    }

    /// The number of jobs that wait for a slot.
    var waitingCount: Int { state.withLock { $0.waiters.values.reduce(0) { $0 + $1.count } } }

    /// Waits for a slot.
    ///
    /// - Parameter address: the network of the client; `nil` if it is unknown.
    /// - Returns: the slot, which the caller must pass to ``leave(_:)``.
    /// - Throws: ``Budget/Shortage``: the limit that is exhausted.
    func enter(_ address: ClientAddress?) async throws(Budget.Shortage) -> Budget.Ticket {
        let ticket = try budget.take(address: address)
        await withCheckedContinuation { (waiter: Waiter) in
            let isIdle = state.withLock { state in
                if state.idleSlots > 0 {
                    state.idleSlots -= 1
                    return true
                }
                if state.waiters[address] == nil { state.turns.append(address) }
                state.waiters[address, default: []].append(waiter)
                return false
            }
            if isIdle { waiter.resume() }
        }
        return ticket
    }

    /// Releases a slot to the next address in turn.
    func leave(_ ticket: Budget.Ticket) {
        budget.give(ticket)
        let next = state.withLock { state -> Waiter? in
            guard !state.turns.isEmpty else {
                state.idleSlots += 1
                return nil
            }
            let address = state.turns.removeFirst()
            var waiters = state.waiters.removeValue(forKey: address) ?? []
            let next = waiters.removeFirst()
            if !waiters.isEmpty {
                state.waiters[address] = waiters
                state.turns.append(address)
            }
            return next
        }
        next?.resume()
    }
}
