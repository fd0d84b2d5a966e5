import HTTPTypes
import Synchronization

/// Limits the failed verifications that an address may cause with notifications.
///
/// Successful ones do not count, because a store sends them in bursts from few addresses. An IPv6 address counts with
/// its /64. The table has a fixed size.
final class FailureLimiter: Sendable {
    /// The failures of an address at once, and per second after that.
    static let rate = Rate(perSecond: 0.2, burst: 60)
    private static let capacity = 4_096

    private let table = Mutex(LimitTable(capacity: capacity))

    /// Throws ``RequestError`` with status 429 if the address must wait. Counts nothing.
    ///
    /// - Parameter now: The time, in milliseconds since 1970 UTC.
    func check(_ peer: String, now: Int64) throws(RequestError) {
        guard let id = Self.id(of: peer) else { return }
        let wait = table.withLock { table in
            table.update(id) { entry in
                var copy = entry
                return copy.take(1, of: Self.rate, lane: 0, now: now * 1_000)
            }
        }
        guard let wait else { return }
        let seconds = max(1, (wait + 999_999) / 1_000_000)
        throw RequestError(
            .tooManyRequests, "too much evidence from this address was refused; wait \(seconds) s", retryAfter: seconds)
    }

    /// Counts a failure of the address.
    func fail(_ peer: String, now: Int64) {
        guard let id = Self.id(of: peer) else { return }
        table.withLock { table in
            table.update(id) { $0.charge(1, of: Self.rate, lane: 0, now: now * 1_000) }
        }
    }

    /// `nil` for a loopback address, which has no limits: it belongs to the operator, or to a proxy that does not name
    /// its clients.
    private static func id(of peer: String) -> UInt64? {
        guard let address = ClientAddress(peer) else { return LimitTable.id(of: peer) }
        return address.isLoopback ? nil : LimitTable.id(of: address.network)
    }
}
