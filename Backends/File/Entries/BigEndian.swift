extension [UInt8] {
    mutating func append(bigEndian number: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: number.bigEndian) { append(contentsOf: $0) }
    }
}

extension FixedWidthInteger {
    init(bigEndianAt offset: Int, in bytes: [UInt8]) {
        precondition(offset >= 0 && offset + MemoryLayout<Self>.size <= bytes.count, "the number exceeds the bytes")
        self = bytes.withUnsafeBytes { Self(bigEndian: $0.loadUnaligned(fromByteOffset: offset, as: Self.self)) }
    }
}
