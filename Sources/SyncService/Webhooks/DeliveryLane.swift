/// The times of the attempts to deliver an event: after about 5 s, 15 s, 45 s and so on, at most every 12 hours, for
/// three days since the first attempt.
enum DeliverySchedule {
    /// The time after which an event is a dead letter, in milliseconds.
    static let total: Int64 = 3 * 86_400_000
    /// A bound also for a clock that is set back.
    static let maximumAttempts = 40
    private static let first: Double = 5_000
    /// The longest pause, in milliseconds.
    static let longest: Int64 = 12 * 3_600_000

    /// The time of the next attempt; `nil` if there is none.
    ///
    /// - Parameters:
    ///   - attempts: The number of attempts so far, at least one.
    ///   - since: The time of the first one.
    ///   - asked: The pause that the receiver has asked for, in milliseconds.
    ///   - jitter: A random number from 0 to 1, so that attempts do not come together.
    static func next(after attempts: Int, since: Int64, at now: Int64, asked: Int64?, jitter: Double) -> Int64? {
        guard attempts < maximumAttempts, now < since + total else { return nil }
        var pause = first
        for _ in 1..<max(attempts, 1) where pause < Double(longest) { pause *= 3 }
        pause = min(pause, Double(longest)) * (0.8 + 0.4 * jitter)
        // The last attempt is at the end of the time.
        return min(now + max(Int64(pause), min(asked ?? 0, longest)), since + total)
    }
}

/// The delivery of one event to one endpoint.
struct Delivery: Hashable, Sendable {
    let event: Int64
    var attempts = 0
    /// The time of the first attempt, in milliseconds since 1970 UTC.
    var since: Int64?
    /// The time of the next attempt.
    var due: Int64 = 0
    /// The reason for the last failure.
    var error: String?
}

/// The deliveries of one account's events to one endpoint, in the order of the events.
///
/// An event waits until the one before is delivered, or has become a dead letter.
struct DeliveryLane: Hashable, Sendable {
    private(set) var waiting: [Delivery]
    private(set) var delivered: [Int64] = []
    private(set) var dead: [Delivery] = []
    private(set) var failureCount = 0

    /// - Parameter waiting: The oldest deliveries of the account, in order.
    init(_ waiting: [Delivery]) { self.waiting = waiting }

    /// The delivery to attempt now; `nil` for none.
    func next(at now: Int64) -> Delivery? { waiting.first.flatMap { $0.due <= now ? $0 : nil } }

    /// Records the result of the attempt to deliver the first one.
    mutating func record(_ result: DeliveryResult, at now: Int64, jitter: Double) {
        guard var delivery = waiting.first else { return }
        if result == .delivered {
            delivered.append(delivery.event)
            waiting.removeFirst()
            return
        }
        failureCount += 1
        delivery.attempts += 1
        let since = delivery.since ?? now
        delivery.since = since
        var next: Int64?
        switch result {
        case .failed(let reason, let asked):
            delivery.error = reason
            next = DeliverySchedule.next(
                after: delivery.attempts, since: since, at: now, asked: asked, jitter: jitter)
        case .refused(let reason): delivery.error = reason
        case .delivered: break
        }
        if let next {
            delivery.due = next
            waiting[0] = delivery
        } else {
            dead.append(delivery)
            waiting.removeFirst()
        }
    }

    /// The first delivery, if it has failed and is tried again.
    var failed: Delivery? { waiting.first.flatMap { $0.attempts > 0 && failureCount > 0 ? $0 : nil } }
}
