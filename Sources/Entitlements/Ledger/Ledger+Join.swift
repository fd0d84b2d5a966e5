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
    /// Looks at no clock, no configuration and no catalogue, and refuses nothing. Records are copied, never decoded or
    /// written anew. Linear in the bytes of both.
    public func joined(with other: Ledger) -> Ledger {
        Ledger.join(self, other).ledger
    }

    /// The union of both ledgers, and which of them lacked something.
    public static func join(_ left: Ledger, _ right: Ledger) -> Join {
        if left.run == right.run { return Join(ledger: left, leftLacks: false, rightLacks: false) }
        if right.isEmpty { return Join(ledger: left, leftLacks: false, rightLacks: true) }
        if left.isEmpty { return Join(ledger: right, leftLacks: true, rightLacks: false) }
        return left.run.withUnsafeBytes { leftBytes in
            right.run.withUnsafeBytes { rightBytes in
                merge(leftBytes, rightBytes, capacity: left.count + right.count)
            }
        }
    }

    private static func merge(_ leftBytes: UnsafeRawBufferPointer, _ rightBytes: UnsafeRawBufferPointer, capacity: Int)
        -> Join
    {
        var count = 0
        var leftLacks = false
        var rightLacks = false
        let run = [UInt8](unsafeUninitializedCapacity: leftBytes.count + rightBytes.count) { output, used in
            var writer = RunWriter(output: output)
            var left = RecordRun(checked: leftBytes)
            var right = RecordRun(checked: rightBytes)
            while !left.isAtEnd, !right.isAtEnd {
                count += 1
                if left.holdsSameRecord(as: right) {
                    writer.take(left, from: leftBytes)
                    left.advance()
                    right.advance()
                    continue
                }
                let order = RecordRun.compare(left.key, right.key)
                if order < 0 {
                    rightLacks = true
                    writer.take(left, from: leftBytes)
                    left.advance()
                } else if order > 0 {
                    leftLacks = true
                    writer.take(right, from: rightBytes)
                    right.advance()
                } else {
                    let larger = RecordRun.compare(left.order, right.order)
                    if larger > 0 || (larger == 0 && RecordRun.compare(left.payload, right.payload) > 0) {
                        rightLacks = true
                        writer.take(left, from: leftBytes)
                    } else {
                        leftLacks = true
                        writer.take(right, from: rightBytes)
                    }
                    left.advance()
                    right.advance()
                }
            }
            while !left.isAtEnd {
                (count, rightLacks) = (count + 1, true)
                writer.take(left, from: leftBytes)
                left.advance()
            }
            while !right.isAtEnd {
                (count, leftLacks) = (count + 1, true)
                writer.take(right, from: rightBytes)
                right.advance()
            }
            used = writer.finish()
        }
        return Join(
            ledger: Ledger(checkedRun: run, count: count), leftLacks: leftLacks, rightLacks: rightLacks)
    }
}

/// Copies records to the output, neighbours from one side in a single copy.
private struct RunWriter {
    private let output: UnsafeMutableBufferPointer<UInt8>
    private var written = 0
    private var pending: UnsafeRawBufferPointer

    init(output: UnsafeMutableBufferPointer<UInt8>) {
        self.output = output
        pending = UnsafeRawBufferPointer(start: nil, count: 0)
    }

    @inline(__always)
    mutating func take(_ record: RecordRun, from bytes: UnsafeRawBufferPointer) {
        guard let base = bytes.baseAddress else { return }
        let address = base + record.start
        let size = record.end - record.start
        if let begun = pending.baseAddress, begun + pending.count == address {
            pending = UnsafeRawBufferPointer(start: begun, count: pending.count + size)
        } else {
            flush()
            pending = UnsafeRawBufferPointer(start: address, count: size)
        }
    }

    private mutating func flush() {
        guard let source = pending.baseAddress, let target = output.baseAddress else { return }
        UnsafeMutableRawPointer(target + written).copyMemory(from: source, byteCount: pending.count)
        written += pending.count
    }

    mutating func finish() -> Int {
        flush()
        return written
    }
}
