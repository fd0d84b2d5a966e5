import HTTPTypes
import Synchronization

/// The used parts of four rates.
struct RateUse: Expiring {
    /// The times at which each rate has its whole burst again, in microseconds since 1970 UTC.
    private var due = SIMD4<Int64>.zero

    var expires: Int64 { due.max() }

    /// The longest debt beyond the burst, in microseconds.
    static let maximumDebt: Int64 = 60_000_000

    /// The time at which the rate in `lane` has its whole burst again, or `now` if that is past.
    private func start(of rate: Rate, lane: Int, now: Int64, window: Int64) -> Int64 {
        // A later time means that the clock was set back.
        (now...(now + window + Self.maximumDebt)).contains(due[lane]) ? due[lane] : now
    }

    /// Uses `count` of the rate in `lane`, even if that is more than is left. The debt is bounded by ``maximumDebt``.
    mutating func charge(_ count: Int, of rate: Rate, lane: Int, now: Int64) {
        let window = rate.interval * Int64(rate.burst)
        let (cost, overflow) = rate.interval.multipliedReportingOverflow(by: Int64(count))
        let most = now + window + Self.maximumDebt
        let start = start(of: rate, lane: lane, now: now, window: window)
        due[lane] = overflow || cost > most - start ? most : start + cost
    }

    /// Uses `count` of the rate in `lane`; more than the burst counts as the burst.
    ///
    /// - Returns: The time to wait if that is too much, in microseconds; nothing is used then.
    mutating func take(_ count: Int, of rate: Rate, lane: Int, now: Int64) -> Int64? {
        let window = rate.interval * Int64(rate.burst)
        let start = start(of: rate, lane: lane, now: now, window: window)
        let next = start + rate.interval * Int64(min(count, rate.burst))
        guard next - now <= window else { return next - now - window }
        due[lane] = next
        return nil
    }
}

/// The rates of addresses, of accounts or of other holders. Using a rate takes one lock and allocates nothing.
///
/// All times are in milliseconds since 1970 UTC.
///
/// A rate that is `nil` is unlimited, and so is a holder that is `nil`.
final class RateTable: Sendable {
    private let table: Mutex<BoundedTable<RateUse>>
    private let reason: String
    private let onRefusal: @Sendable () -> Void

    /// - Parameters:
    ///   - capacity: The number of holders that are remembered: a power of two, 8 or more.
    ///   - reason: The text for a client that must wait.
    ///   - onRefusal: Called for each use that is refused.
    init(capacity: Int, reason: String, onRefusal: @escaping @Sendable () -> Void = {}) {
        table = Mutex(BoundedTable(capacity: capacity))
        (self.reason, self.onRefusal) = (reason, onRefusal)
    }

    /// Uses `count` of a holder's rate.
    ///
    /// - Throws: ``RequestError`` with status 429 if the holder must wait. Nothing is used then.
    func take(_ count: Int = 1, of rate: Rate?, lane: Int = 0, by id: UInt64?, now: Int64) throws(RequestError) {
        guard count > 0, let rate, let id else { return }
        let wait = table.withLock { $0.update(id) { $0.take(count, of: rate, lane: lane, now: now * 1_000) } }
        if let wait { throw refusal(wait) }
    }

    /// Throws as ``take(_:of:lane:by:now:)`` does, and uses nothing.
    func check(_ rate: Rate?, lane: Int = 0, of id: UInt64?, now: Int64) throws(RequestError) {
        guard let rate, let id else { return }
        var use = table.withLock { $0.update(id) { $0 } }
        let wait = use.take(1, of: rate, lane: lane, now: now * 1_000)
        if let wait { throw refusal(wait) }
    }

    /// Uses `count` of a holder's rate, even if that is more than is left. The next uses then wait, a minute at most.
    func charge(_ count: Int = 1, of rate: Rate?, lane: Int = 0, by id: UInt64?, now: Int64) {
        guard count > 0, let rate, let id else { return }
        table.withLock { $0.update(id) { $0.charge(count, of: rate, lane: lane, now: now * 1_000) } }
    }

    /// The number of holders that are remembered.
    var count: Int { table.withLock { $0.count } }

    private func refusal(_ wait: Int64) -> RequestError {
        onRefusal()
        return .wait(wait, reason)
    }
}

extension RequestError {
    /// The refusal of a request whose client must wait, in microseconds.
    static func wait(_ wait: Int64, _ reason: String) -> RequestError {
        let seconds = max(1, (wait + 999_999) / 1_000_000)
        return RequestError(.tooManyRequests, "\(reason); wait \(seconds) s", retryAfter: seconds)
    }
}
