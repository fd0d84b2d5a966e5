/// A count that a ``BoundedTable`` holds.
protocol Expiring: Sendable {
    /// A count of nothing.
    init()
    /// The time from which the count is that of nothing again, or another measure of how soon it can be forgotten.
    var expires: Int64 { get }
}

/// Counts for a fixed number of addresses, accounts or other holders.
///
/// The size is fixed regardless of the number of holders: a new holder replaces one of eight, the one whose count
/// expires first. Holders are identified by a hash with a random key of the process, so that clients can neither choose
/// an entry to share nor crowd one part of the table.
struct BoundedTable<Count: Expiring>: Sendable {
    /// The number of entries in which a holder can be (set associativity).
    private static var ways: Int { 8 }

    /// The holders with their counts. The id of an empty entry is 0.
    private var entries: [(id: UInt64, count: Count)]

    /// - Parameter capacity: The number of holders, a power of two, 8 or more.
    init(capacity: Int) { entries = Array(repeating: (0, Count()), count: capacity) }

    /// Changes the count of a holder. A new holder replaces the one in its set whose count expires first.
    mutating func update<Result>(_ id: UInt64, _ body: (inout Count) -> Result) -> Result {
        let first = Int(truncatingIfNeeded: id) & (entries.count - 1) & ~(Self.ways - 1)
        var victim = first
        for index in first..<(first + Self.ways) {
            if entries[index].id == id { return body(&entries[index].count) }
            if entries[index].count.expires < entries[victim].count.expires { victim = index }
        }
        entries[victim] = (id, Count())
        return body(&entries[victim].count)
    }

    /// The number of holders that are remembered.
    var count: Int { entries.count { $0.id != 0 } }
}

/// The ids of holders in a ``BoundedTable``.
enum HolderID {
    /// The id of an account, or of a peer whose text is not an address.
    static func of(_ text: String) -> UInt64 {
        var hasher = Hasher()
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        return id(hasher)
    }

    /// The id of any other holder.
    static func of(_ holder: some Hashable) -> UInt64 {
        var hasher = Hasher()
        hasher.combine(holder)
        return id(hasher)
    }

    /// The id of the client at `peer`: an IPv6 address counts with its /64. `nil` for a loopback address, which has no
    /// limits: it belongs to the operator, or to a proxy that does not name its clients.
    static func of(peer: String) -> UInt64? {
        guard let address = ClientAddress(peer) else { return of(peer) }
        return address.isLoopback ? nil : of(address.network)
    }

    private static func id(_ hasher: Hasher) -> UInt64 { max(1, UInt64(truncatingIfNeeded: hasher.finalize())) }
}
