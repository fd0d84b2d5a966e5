/// What is remembered of addresses, or of accounts: how much of each of four rates is used up, and how much is under
/// way. It has a fixed size, whoever comes: many who come at once push each other out, those first of whom nothing has
/// to be known.
///
/// Whom an entry belongs to is known by a hash whose key is the process's own, so that nobody can choose whose entry
/// he shares, or make one place of the table fuller than another.
struct LimitTable: Sendable {
    struct Entry: Sendable {
        /// 0 for nobody.
        var id: UInt64 = 0
        /// When each of the rates has its whole burst again, in microseconds since 1970 UTC.
        var due = SIMD4<Int64>.zero
        /// How many requests are under way.
        var requests: Int32 = 0
        /// How many streams are open.
        var streams: Int32 = 0

        var isBusy: Bool { requests > 0 || streams > 0 }

        /// The longest debt beyond the burst, in microseconds.
        static let maximumDebt: Int64 = 60_000_000

        /// The time at which the rate in `lane` has its whole burst again, or `now` if that is past.
        private func start(of rate: Rate, lane: Int, now: Int64, window: Int64) -> Int64 {
            // A later time means that the clock was set back.
            (now...(now + window + Self.maximumDebt)).contains(due[lane]) ? due[lane] : now
        }

        /// Uses up `count` of the rate in `lane`, even if that is more than is left. The debt is bounded by
        /// ``maximumDebt``.
        mutating func charge(_ count: Int, of rate: Rate, lane: Int, now: Int64) {
            let window = rate.interval * Int64(rate.burst)
            let (cost, overflow) = rate.interval.multipliedReportingOverflow(by: Int64(count))
            let most = now + window + Self.maximumDebt
            let start = start(of: rate, lane: lane, now: now, window: window)
            due[lane] = overflow || cost > most - start ? most : start + cost
        }

        /// Uses up `count` of the rate in `lane`; more than the burst counts as the burst.
        ///
        /// - Returns: The time to wait when that is too much, in microseconds; then nothing is used up.
        mutating func take(_ count: Int, of rate: Rate, lane: Int, now: Int64) -> Int64? {
            let window = rate.interval * Int64(rate.burst)
            let start = start(of: rate, lane: lane, now: now, window: window)
            let next = start + rate.interval * Int64(min(count, rate.burst))
            guard next - now <= window else { return next - now - window }
            due[lane] = next
            return nil
        }
    }

    /// How many entries a place has.
    private static let ways = 8

    private var entries: [Entry]

    /// - Parameter capacity: how many are remembered, a power of two, 8 or more.
    init(capacity: Int) { entries = Array(repeating: Entry(), count: capacity) }

    /// Does something with the entry of `id`, a new one where there is none; `nil` where all that could give way are
    /// busy.
    mutating func update<Result>(_ id: UInt64, _ body: (inout Entry) -> Result) -> Result? {
        let first = start(of: id)
        var victim: Int?
        for index in first..<(first + Self.ways) {
            if entries[index].id == id { return body(&entries[index]) }
            guard !entries[index].isBusy else { continue }
            if let known = victim, entries[known].due.max() <= entries[index].due.max() { continue }
            victim = index
        }
        guard let victim else { return nil }
        entries[victim] = Entry(id: id)
        return body(&entries[victim])
    }

    /// As ``update(_:_:)``, and `nil` where there is no entry.
    mutating func updateKnown(_ id: UInt64, _ body: (inout Entry) -> Void) {
        let first = start(of: id)
        for index in first..<(first + Self.ways) where entries[index].id == id { body(&entries[index]) }
    }

    private func start(of id: UInt64) -> Int { Int(truncatingIfNeeded: id) & (entries.count - 1) & ~(Self.ways - 1) }

    /// How many entries are somebody's.
    var count: Int { entries.count { $0.id != 0 } }

    /// The name of an address.
    static func id(of address: ClientAddress) -> UInt64 {
        var hasher = Hasher()
        hasher.combine(address.high)
        hasher.combine(address.low)
        return named(hasher)
    }

    /// The name of whoever is called `text`.
    static func id(of text: String) -> UInt64 {
        var hasher = Hasher()
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        return named(hasher)
    }

    private static func named(_ hasher: Hasher) -> UInt64 {
        max(1, UInt64(truncatingIfNeeded: hasher.finalize()))
    }
}
