/// A ledger document as the oracles read it: by a reader of their own, which shares nothing with the one it judges.
/// Slow and plain.
struct ModelLedger: Equatable {
    struct Record: Equatable {
        var key: [UInt8]
        var order: [UInt8]
        var payload: [UInt8]
    }

    var isErased = false
    /// In ascending order of their keys.
    var records: [Record] = []

    init() {}

    /// Reads a document as `Docs/ledger.proto` and the layout of the file describe it; `nil` when it is none of this
    /// format, or ends too early.
    init?(document bytes: [UInt8]) {
        func number(at offset: Int, count: Int) -> Int {
            (0..<count).reduce(0) { $0 | Int(bytes[offset + $1]) << (8 * $1) }
        }
        guard bytes.count >= 44, Array(bytes[0..<4]) == Array("ESLG".utf8), number(at: 4, count: 2) == 1 else {
            return nil
        }
        isErased = number(at: 6, count: 2) == 1
        let end = 44 + number(at: 12, count: 4)
        guard end + number(at: 16, count: 4) == bytes.count else { return nil }
        var position = 44
        while position < end {
            var lengths: [Int] = []
            for _ in 0..<3 {
                var (value, shift) = (0, 0)
                while true {
                    guard position < end, shift < 35 else { return nil }
                    let byte = Int(bytes[position])
                    position += 1
                    value |= (byte & 0x7F) << shift
                    shift += 7
                    if byte < 0x80 { break }
                }
                lengths.append(value)
            }
            guard position + lengths[0] + lengths[1] + lengths[2] <= end else { return nil }
            var parts: [[UInt8]] = []
            for length in lengths {
                parts.append(Array(bytes[position..<(position + length)]))
                position += length
            }
            records.append(Record(key: parts[0], order: parts[1], payload: parts[2]))
        }
        guard records.count == number(at: 8, count: 4) else { return nil }
    }

    /// The record under `key`.
    subscript(key: [UInt8]) -> Record? {
        var (low, high) = (0, records.count)
        while low < high {
            let middle = (low + high) / 2
            if records[middle].key.lexicographicallyPrecedes(key) { low = middle + 1 } else { high = middle }
        }
        return low < records.count && records[low].key == key ? records[low] : nil
    }

    /// Whether this ledger says `record`, or something stronger under its key.
    func covers(_ record: Record) -> Bool {
        guard let own = self[record.key] else { return false }
        return !own.precedes(record)
    }

    /// The first record of `other` that this ledger does not say; `nil` when it says all.
    func missing(of other: ModelLedger) -> Record? {
        isErased ? nil : other.records.first { !covers($0) }
    }

    /// The union of both.
    func joined(with other: ModelLedger) -> ModelLedger {
        guard !isErased else { return self }
        guard !other.isErased else { return other }
        var union = self
        for record in other.records where !covers(record) {
            union.records.removeAll { $0.key == record.key }
            union.records.append(record)
        }
        union.records.sort { $0.key.lexicographicallyPrecedes($1.key) }
        return union
    }
}

extension ModelLedger.Record {
    func precedes(_ other: ModelLedger.Record) -> Bool {
        order == other.order
            ? payload.lexicographicallyPrecedes(other.payload) : order.lexicographicallyPrecedes(other.order)
    }
}

/// Where a ledger lies in a store, read off its key.
struct LedgerPlace: Hashable {
    enum Kind: Hashable {
        /// An account's ledger: what is synced.
        case account
        /// The part of it that stays on the device.
        case device
        /// What the device noted of the remote.
        case note
    }

    var kind: Kind
    /// `nil` for nobody.
    var name: String?
    var incarnation = ""

    /// `nil` for what is no ledger.
    init?(_ key: String) {
        var parts = key.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        let isOnDevice = parts.first == "device"
        if isOnDevice { parts.removeFirst() }
        if parts.first == "anonymous" {
            parts.removeFirst()
        } else {
            guard parts.count >= 4, parts[0] == "accounts" else { return nil }
            (name, incarnation) = (parts[1], parts[2])
            parts.removeFirst(3)
        }
        switch parts.first {
        case "ledger": kind = isOnDevice ? .device : .account
        case "remote": kind = .note
        default: return nil
        }
        // An account's ledger may lie in parts, one for each replica.
        guard parts.count == 1 || (parts.count == 2 && kind == .account && !isOnDevice && name != nil) else { return nil }
    }

    /// Whose it is, in words.
    var owner: String { name.map { "\($0) (\(incarnation))" } ?? "nobody" }
}
