extension Ledger {
    /// The result of joining two ledgers.
    public struct Join: Sendable {
        /// The union of both ledgers.
        public let ledger: Ledger
        /// A Boolean value that indicates whether the left ledger differs from the union.
        public let leftLacks: Bool
        /// A Boolean value that indicates whether the right ledger differs from the union.
        public let rightLacks: Bool
    }

    /// Returns the union of both ledgers.
    ///
    /// For each key, the record with the larger order is kept; if the orders are equal, the record with the larger
    /// payload. Orders and payloads compare byte by byte.
    ///
    /// The marker of an erased account absorbs the other ledger. Joining depends on no clock, configuration or
    /// catalogue, and rejects nothing. Records are copied and never decoded or re-encoded.
    ///
    /// - Complexity: O(*n*) in the bytes of both ledgers.
    public func joined(with other: Ledger) -> Ledger {
        Ledger.join(self, other).ledger
    }

    /// Returns the union of both ledgers, and which of them differed from it.
    ///
    /// - Complexity: O(*n*) in the bytes of both ledgers.
    public static func join(_ left: Ledger, _ right: Ledger) -> Join {
        if left == right { return Join(ledger: left, leftLacks: false, rightLacks: false) }
        if left.isErased || right.isErased {
            return Join(ledger: .erased, leftLacks: !left.isErased, rightLacks: !right.isErased)
        }
        if right.isEmpty { return Join(ledger: left, leftLacks: false, rightLacks: true) }
        if left.isEmpty { return Join(ledger: right, leftLacks: true, rightLacks: false) }
        let union = left.run.withUnsafeBytes { leftBytes in
            right.run.withUnsafeBytes { rightBytes in merge(leftBytes, rightBytes) }
        }
        // The union differs from a side only by what that side lacks.
        return Join(ledger: union, leftLacks: union != left, rightLacks: union != right)
    }

    private static func merge(_ leftBytes: UnsafeRawBufferPointer, _ rightBytes: UnsafeRawBufferPointer) -> Ledger {
        var count = 0
        let run = [UInt8](unsafeUninitializedCapacity: leftBytes.count + rightBytes.count) { output, used in
            guard let base = output.baseAddress else { return }
            var writer = RunWriter(target: UnsafeMutableRawPointer(base))
            writer.merge(RecordRun(checked: leftBytes), RecordRun(checked: rightBytes))
            used = writer.target - UnsafeMutableRawPointer(base)
            count = writer.count
        }
        return Ledger(checkedRun: run, count: count)
    }
}

/// Copies records to the output, adjacent records of one side in one step.
private struct RunWriter {
    /// The position of the next record. The caller provides room for both sides.
    private(set) var target: UnsafeMutableRawPointer
    /// The number of records written.
    private(set) var count = 0
    /// The bytes that were taken but not yet copied.
    private var pendingStart: UnsafeRawPointer
    private var pendingEnd: UnsafeRawPointer

    init(target: UnsafeMutableRawPointer) {
        self.target = target
        pendingStart = UnsafeRawPointer(target)
        pendingEnd = pendingStart
    }

    mutating func merge(_ left: RecordRun?, _ right: RecordRun?) {
        if var left, var right {
            while !left.isAtEnd, !right.isAtEnd { takeSmaller(&left, &right) }
            takeAll(left)
            takeAll(right)
        } else {
            takeAll(left ?? right)
        }
        flush()
    }

    @inline(__always)
    private mutating func takeSmaller(_ left: inout RecordRun, _ right: inout RecordRun) {
        let order = RecordRun.compare(left.key, right.key)
        if order < 0 { return take(&left) }
        if order > 0 { return take(&right) }
        let difference = left.compareContent(with: right)
        // Of equal records, take the one that follows the pending bytes. This halves the number of side changes.
        if difference < 0 || (difference == 0 && right.start == pendingEnd) {
            take(&right)
            left.advance()
        } else {
            take(&left)
            right.advance()
        }
    }

    private mutating func takeAll(_ rest: RecordRun?) {
        guard var rest else { return }
        while !rest.isAtEnd { take(&rest) }
    }

    @inline(__always)
    private mutating func take(_ record: inout RecordRun) {
        if record.start != pendingEnd {
            flush()
            pendingStart = record.start
        }
        count += 1
        pendingEnd = record.next
        record.advance()
    }

    @inline(__always)
    private mutating func flush() {
        let byteCount = pendingEnd - pendingStart
        target.copyMemory(from: pendingStart, byteCount: byteCount)
        target += byteCount
    }
}
