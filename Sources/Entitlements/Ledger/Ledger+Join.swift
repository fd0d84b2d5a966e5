extension Ledger {
    /// What joining two ledgers gave.
    public struct Join: Sendable {
        /// The union of both.
        public let ledger: Ledger
        /// Whether the union has a record that the left ledger lacks.
        public let leftLacks: Bool
        /// Whether the union has a record that the right ledger lacks.
        public let rightLacks: Bool
    }

    /// The union of both ledgers: for each key the record with the larger order, then the larger payload.
    ///
    /// The marker of an erased account absorbs the other side. Looks at no clock, no configuration and no catalogue,
    /// and refuses nothing. Records are copied, never decoded or
    /// written anew. Linear in the bytes of both.
    public func joined(with other: Ledger) -> Ledger {
        Ledger.join(self, other).ledger
    }

    /// The union of both ledgers, and which of them lacked something.
    public static func join(_ left: Ledger, _ right: Ledger) -> Join {
        if left == right { return Join(ledger: left, leftLacks: false, rightLacks: false) }
        if left.isErased || right.isErased {
            return Join(ledger: .erased, leftLacks: !left.isErased, rightLacks: !right.isErased)
        }
        let union = left.run.withUnsafeBytes { leftBytes in
            right.run.withUnsafeBytes { rightBytes in merge(leftBytes, rightBytes) }
        }
        // A union differs from a side by what that side lacks, and by nothing else.
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

/// Copies records to the output, neighbours from one side at once.
private struct RunWriter {
    /// Where the next record goes. The caller has room for both sides.
    private(set) var target: UnsafeMutableRawPointer
    /// The records so far.
    private(set) var count = 0
    /// What was taken and not copied yet.
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
        // Of equal records the one that follows what is pending: half of all changes of side are spared.
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
