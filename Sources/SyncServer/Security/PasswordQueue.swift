import SyncCore
import SyncService
import Synchronization

/// A queue for expensive work, bounded in total and per address.
///
/// The addresses are served in turn (round robin), so that an address with many waiting jobs delays another by one job
/// only. Loopback clients have no address share; in the rotation they count as one address.
final class PasswordQueue: Sendable {
    private struct State {
        var idleSlots: Int
        /// The addresses that have waiters, in the order in which they are served.
        var turns: [ClientAddress?] = []
    }

    private let budget: Budget
    private let state: Mutex<State>
    private let waiting = WaitList<ClientAddress?, Void>()

    /// - Parameters:
    ///   - slots: the maximum number of running jobs.
    ///   - length: the maximum number of jobs that wait for a slot.
    ///   - share: the maximum number of jobs of one address, running and waiting.
    init(slots: Int, length: Int, share: Int) {
        budget = Budget(.init(total: slots + length, address: share))
        state = Mutex(State(idleSlots: slots))
    }

    /// The number of jobs that wait for a slot.
    var waitingCount: Int { waiting.count }

    /// Waits for a slot.
    ///
    /// - Parameter address: the network of the client; `nil` if it is unknown.
    /// - Returns: the slot, which the caller must pass to ``leave(_:)``.
    /// - Throws: ``Budget/Shortage``: the limit that is exhausted.
    func enter(_ address: ClientAddress?) async throws(Budget.Shortage) -> Budget.Ticket {
        let ticket = try budget.take(address: address)
        let waiter: WaitList<ClientAddress?, Void>.Waiter? = state.withLock { state in
            if state.idleSlots > 0 {
                state.idleSlots -= 1
                return nil
            }
            if !state.turns.contains(address) { state.turns.append(address) }
            return waiting.add(address)
        }
        await waiter?.value()
        return ticket
    }

    /// Releases a slot to the next address in turn.
    func leave(_ ticket: Budget.Ticket) {
        ticket.give()
        state.withLock { state in
            guard !state.turns.isEmpty else {
                state.idleSlots += 1
                return
            }
            let address = state.turns.removeFirst()
            waiting.resumeFirst(returning: ()) { $0 == address }
            if waiting.contains({ $0 == address }) { state.turns.append(address) }
        }
    }
}
