/// A request or an act of support that may have changed the owner of a sale.
final class OwnershipEvent {
    /// The account that gets the sale; `nil` while it is unknown, for an act of support.
    var life: Life?
    /// The folded name of the account.
    let name: String
    /// The virtual time at which it began, in microseconds.
    let arrival: Int64
    /// True if it may take the sale from another account.
    let mayTake: Bool
    let isSupport: Bool
    /// The virtual time of the answer; `nil` while there is none.
    private(set) var end: Int64?
    private(set) var outcome = Outcome.unknown

    enum Outcome {
        /// The account had the sale at some time before the answer.
        case recorded
        /// Nothing was changed.
        case refused
        case unknown
    }

    init(of life: Life?, name: String, at arrival: Int64, mayTake: Bool, isSupport: Bool = false) {
        (self.life, self.name, self.arrival, self.mayTake) = (life, name, arrival, mayTake)
        self.isSupport = isSupport
    }

    func end(_ outcome: Outcome, at time: Int64) { (self.outcome, end) = (outcome, time) }
}

/// The requests and acts about one sale.
struct SaleHistory {
    private(set) var events: [OwnershipEvent] = []
    /// The virtual time at which a server first accepted the refund, in microseconds.
    private(set) var refunded: Int64?

    mutating func add(_ event: OwnershipEvent) { events.append(event) }

    mutating func didRefund(at time: Int64) { refunded = refunded ?? time }

    /// The events that were recorded for accounts without a request for an erasure.
    var recorded: [(event: OwnershipEvent, life: Life)] {
        events.compactMap { event in
            guard event.outcome == .recorded, let life = event.life, life.erasureAsked == nil else { return nil }
            return (event, life)
        }
    }

    /// The events that may have taken the sale from `life` between two times.
    func takers(from life: Life, since start: Int64, until end: Int64 = .max) -> [OwnershipEvent] {
        events.filter { event in
            event.mayTake && event.outcome != .refused && event.life !== life && event.arrival <= end
                && (event.end ?? .max) >= start
        }
    }

    /// Returns `true` if `life` had the sale at `time`, as far as answers show: it was recorded before, and nothing may
    /// have taken it since.
    func belongs(to life: Life, at time: Int64, until end: Int64) -> Bool {
        recorded.contains { event, owner in
            owner === life && (event.end ?? .max) < time && takers(from: life, since: event.arrival, until: end).isEmpty
        }
    }

    /// Returns `true` if a request or an act may have given the sale to `life` between two times.
    func mayBelong(to life: Life, name: String, at time: Int64, since start: Int64 = .min) -> Bool {
        events.contains { event in
            event.arrival <= time && event.outcome != .refused && (event.end ?? .max) >= start
                && (event.life === life || (event.life == nil && event.name == name))
        }
    }
}
