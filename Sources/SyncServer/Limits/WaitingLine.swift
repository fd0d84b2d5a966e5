import NIOCore
import SyncService

/// Those who wait for an event loop: first whoever leaves, then whoever comes, and of these as many who are known as
/// others.
struct WaitingLine {
    /// One who comes.
    struct Comer: Hashable, Sendable {
        /// Whose others are counted with it; `nil` for a program of the machine itself.
        var network: ClientAddress?
        /// Whether the server knows its token already. Anybody can make one up, and after a restart none is known.
        var isKnown: Bool

        /// Whoever asks from `peer`; all whose address cannot be read are one.
        init(peer: String, isKnown: Bool) {
            let address = ClientAddress(peer)
            // No network ends so.
            network = address?.isLoopback == true ? nil : address?.network ?? ClientAddress(high: .max, low: .max)
            self.isKnown = isKnown
        }
    }

    struct Waiter {
        var comer: Comer
        var resume: @Sendable (Turnstile.Outcome) -> Void
    }

    private struct Queue {
        /// With those in it who have gone, until it is their turn.
        private var order = CircularBuffer<UInt64>()
        private(set) var waiters: [UInt64: Waiter] = [:]

        mutating func append(_ number: UInt64, _ waiter: Waiter) {
            order.append(number)
            waiters[number] = waiter
        }

        mutating func remove(_ number: UInt64) -> Waiter? {
            defer {
                if order.count > 2 * waiters.count + 64 { order.removeAll { waiters[$0] == nil } }
            }
            return waiters.removeValue(forKey: number)
        }

        mutating func take(_ count: Int) -> [Waiter] {
            var taken: [Waiter] = []
            while taken.count < count, let number = order.popFirst() {
                if let waiter = waiters.removeValue(forKey: number) { taken.append(waiter) }
            }
            return taken
        }
    }

    private var leavers = CircularBuffer<@Sendable () -> Void>()
    private var (known, others) = (Queue(), Queue())

    mutating func append(leaving body: @escaping @Sendable () -> Void) { leavers.append(body) }

    mutating func append(_ number: UInt64, _ waiter: Waiter) {
        if waiter.comer.isKnown { known.append(number, waiter) } else { others.append(number, waiter) }
    }

    /// Takes one out before its turn; `nil` where it is not there any more.
    mutating func remove(_ number: UInt64, _ comer: Comer) -> Waiter? {
        comer.isKnown ? known.remove(number) : others.remove(number)
    }

    /// Takes the next `count`.
    mutating func takeNext(_ count: Int) -> (leaving: [@Sendable () -> Void], coming: [Waiter]) {
        let leaving = Array(leavers.prefix(count))
        leavers.removeFirst(leaving.count)
        let rest = count - leaving.count
        // Half each; what one kind leaves the other takes.
        var coming = known.take((rest + 1) / 2)
        coming += others.take(rest - coming.count)
        coming += known.take(rest - coming.count)
        return (leaving, coming)
    }

    /// Takes all who come.
    mutating func takeComers() -> [Waiter] { known.take(.max) + others.take(.max) }
}
