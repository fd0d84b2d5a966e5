extension ModelLedger {
    /// Decodes a document; `nil` if it is not a document of format 1, or its lengths, flags or key order are damaged.
    ///
    /// Checksums are not verified, and the local section is skipped.
    init?(document bytes: [UInt8]) {
        guard bytes.count >= 44, Array(bytes[0..<4]) == Array("ESLG".utf8), Self.number(bytes, at: 4, width: 2) == 1
        else { return nil }
        let flags = Self.number(bytes, at: 6, width: 2)
        let recordCount = Self.number(bytes, at: 8, width: 4)
        let end = 44 + Self.number(bytes, at: 12, width: 4)
        guard flags <= 1, end + Self.number(bytes, at: 16, width: 4) == bytes.count else { return nil }
        isErased = flags == 1

        var position = 44
        while position < end {
            guard let keyCount = Self.length(bytes, &position, end),
                let orderCount = Self.length(bytes, &position, end),
                let payloadCount = Self.length(bytes, &position, end),
                keyCount > 0, position + keyCount + orderCount + payloadCount <= end
            else { return nil }
            let (orderStart, payloadStart) = (position + keyCount, position + keyCount + orderCount)
            let record = ModelRecord(
                key: Array(bytes[position..<orderStart]), order: Array(bytes[orderStart..<payloadStart]),
                payload: Array(bytes[payloadStart..<payloadStart + payloadCount]))
            position = payloadStart + payloadCount
            if let last = records.last, !last.key.lexicographicallyPrecedes(record.key) { return nil }
            records.append(record)
        }
        guard records.count == recordCount, !isErased || records.isEmpty else { return nil }
    }

    /// A little-endian number of at most four bytes.
    private static func number(_ bytes: [UInt8], at offset: Int, width: Int) -> Int {
        var number = 0
        for index in (0..<width).reversed() { number = number * 256 + Int(bytes[offset + index]) }
        return number
    }

    /// Decodes a length: seven bits a byte, lowest first; `nil` if it is padded, exceeds 1 MiB or runs past `end`.
    private static func length(_ bytes: [UInt8], _ position: inout Int, _ end: Int) -> Int? {
        var (value, factor) = (0, 1)
        while position < end, value <= 1 << 20, factor <= 1 << 21 {
            let byte = Int(bytes[position])
            position += 1
            value += byte % 128 * factor
            if byte < 128 { return (byte == 0 && factor > 1) || value > 1 << 20 ? nil : value }
            factor *= 128
        }
        return nil
    }
}
