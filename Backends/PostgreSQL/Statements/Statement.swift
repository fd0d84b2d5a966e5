#if PostgreSQL
/// A prepared statement with its parameters.
struct Statement: Sendable {
    enum Parameter: Sendable {
        case bytes([UInt8])
        case integer(Int64)
        case null

        var byteCount: Int {
            switch self {
            case .bytes(let bytes): bytes.count
            case .integer: 8
            case .null: 0
            }
        }
    }

    let query: Query
    let parameters: [Parameter]

    init(_ query: Query, _ parameters: Parameter...) {
        (self.query, self.parameters) = (query, parameters)
    }

    var byteCount: Int { parameters.byteCount }
}

extension [Statement.Parameter] {
    var byteCount: Int { reduce(0) { $0 + $1.byteCount } }

    /// Calls `body` with the arrays that libpq expects: a pointer to each parameter (NULL for a null), and its length.
    func withPointers<Result>(
        _ body: (UnsafePointer<UnsafePointer<CChar>?>?, UnsafePointer<Int32>?) -> Result
    ) -> Result {
        // An empty value needs an address as well, because NULL is another value.
        var buffer: [UInt8] = [0]
        buffer.reserveCapacity(byteCount + 1)
        var offsets: [Int?] = []
        for parameter in self {
            switch parameter {
            case .bytes(let bytes):
                offsets.append(buffer.count - 1)
                buffer.removeLast()
                buffer += bytes
                buffer.append(0)
            case .integer(let number):
                offsets.append(buffer.count - 1)
                buffer.removeLast()
                Swift.withUnsafeBytes(of: number.bigEndian) { buffer += $0 }
                buffer.append(0)
            case .null:
                offsets.append(nil)
            }
        }
        let lengths = map { Int32($0.byteCount) }
        return buffer.withUnsafeBytes { bytes in
            let start = bytes.baseAddress?.assumingMemoryBound(to: CChar.self)
            let values = offsets.map { offset in offset.flatMap { start?.advanced(by: $0) } }
            return values.withUnsafeBufferPointer { values in
                lengths.withUnsafeBufferPointer { body(values.baseAddress, $0.baseAddress) }
            }
        }
    }
}
#endif
