/// Validates a run of records before any of it is used.
struct RecordRunChecker {
    /// Counts the records of `bytes`.
    ///
    /// - Throws: ``LedgerFormatError`` with the offset of the first byte that violates the format of a sorted run.
    static func countRecords(in run: [UInt8], at base: Int) throws(LedgerFormatError) -> Int {
        let result: Result<Int, LedgerFormatError> = run.withUnsafeBytes { bytes in
            Result { () throws(LedgerFormatError) in try countRecords(in: bytes, at: base) }
        }
        return try result.get()
    }

    private static func countRecords(in bytes: UnsafeRawBufferPointer, at base: Int) throws(LedgerFormatError) -> Int {
        var offset = 0
        var count = 0
        var previousKey: UnsafeRawBufferPointer?
        while offset < bytes.count {
            let start = offset
            var lengths = (key: 0, order: 0, payload: 0)
            lengths.key = try length(in: bytes, &offset, base: base)
            lengths.order = try length(in: bytes, &offset, base: base)
            lengths.payload = try length(in: bytes, &offset, base: base)
            // Each length is below 2^28, so the sum cannot overflow.
            let size = lengths.key + lengths.order + lengths.payload
            guard size <= bytes.count - offset else {
                throw LedgerFormatError(.damaged, offset: base + start, reason: "a record runs past the end")
            }
            guard max(lengths.key, lengths.order, lengths.payload) <= LedgerLimits.maximumPartByteCount else {
                throw LedgerFormatError(
                    .tooLarge, offset: base + start,
                    reason: "a part of a record is longer than \(LedgerLimits.maximumPartByteCount) bytes")
            }
            guard lengths.key > 0 else {
                throw LedgerFormatError(.damaged, offset: base + start, reason: "a record has an empty key")
            }
            let key = UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + lengths.key])
            if let previousKey, RecordRun.compare(previousKey, key) >= 0 {
                throw LedgerFormatError(.damaged, offset: base + start, reason: "the records are out of order")
            }
            previousKey = key
            offset += size
            count += 1
        }
        return count
    }

    private static func length(in bytes: UnsafeRawBufferPointer, _ offset: inout Int, base: Int)
        throws(LedgerFormatError) -> Int
    {
        let start = offset
        var value = 0
        for shift in stride(from: 0, to: 28, by: 7) {
            guard offset < bytes.count else { break }
            let byte = bytes[offset]
            offset += 1
            value |= Int(byte & 0x7F) << shift
            guard byte < 0x80 else { continue }
            // A padded length would allow two encodings of one record, and replicas would not converge to equal bytes.
            guard byte != 0 || shift == 0 else { break }
            return value
        }
        throw LedgerFormatError(.damaged, offset: base + start, reason: "a record's length is malformed")
    }
}
