/// The used parts of four rates, for each of a fixed number of addresses or accounts.
///
/// The size is fixed regardless of the number of holders: a new holder replaces the one that recovers first. Holders
/// are identified by a hash with a random key of the process, so that clients can neither choose an entry to share nor
/// crowd one part of the table.
struct LimitTable: Sendable {
    struct Entry: Sendable {
        /// The holder's id; 0 for an empty entry.
        var id: UInt64 = 0
        /// The times at which each rate has its whole burst again, in microseconds since 1970 UTC.
        var due = SIMD4<Int64>.zero

        /// The longest debt beyond the burst, in microseconds.
        static let maximumDebt: Int64 = 60_000_000

        /// The time at which the rate in `lane` has its whole burst again, or `now` if that is past.
        private func start(of rate: Rate, lane: Int, now: Int64, window: Int64) -> Int64 {
            // A later time means that the clock was set back.
            (now...(now + window + Self.maximumDebt)).contains(due[lane]) ? due[lane] : now
        }

        /// Uses `count` of the rate in `lane`, even if that is more than is left. The debt is bounded by
        /// ``maximumDebt``.
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

    /// The number of entries in which a holder can be (set associativity).
    private static let ways = 8

    private var entries: [Entry]

    /// - Parameter capacity: The number of holders, a power of two, 8 or more.
    init(capacity: Int) { entries = Array(repeating: Entry(), count: capacity) }

    /// Changes the entry of `id`. A new entry replaces the one in its set that recovers first.
    mutating func update<Result>(_ id: UInt64, _ body: (inout Entry) -> Result) -> Result {
        let first = Int(truncatingIfNeeded: id) & (entries.count - 1) & ~(Self.ways - 1)
        var victim = first
        for index in first..<(first + Self.ways) {
            if entries[index].id == id { return body(&entries[index]) }
            if entries[index].due.max() < entries[victim].due.max() { victim = index }
        }
        entries[victim] = Entry(id: id)
        return body(&entries[victim])
    }

    /// The number of holders that are remembered.
    var count: Int { entries.count { $0.id != 0 } }

    /// The id of an address.
    static func id(of address: ClientAddress) -> UInt64 {
        var hasher = Hasher()
        hasher.combine(address.high)
        hasher.combine(address.low)
        return id(hasher)
    }

    /// The id of an account, or of a peer whose text is not an address.
    static func id(of text: String) -> UInt64 {
        var hasher = Hasher()
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        return id(hasher)
    }

    private static func id(_ hasher: Hasher) -> UInt64 { max(1, UInt64(truncatingIfNeeded: hasher.finalize())) }
}
