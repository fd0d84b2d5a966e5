/// The error for an unreadable record, which counts for nothing.
struct ModelUnreadable: Error {}

/// A protobuf message as a list of fields, in the order of the bytes.
struct ModelMessage {
    enum Value {
        case number(UInt64)
        case bytes([UInt8])
        /// A fixed-width value, which no message of a ledger uses.
        case fixed
    }

    var fields: [(number: UInt64, value: Value)] = []
    /// True for the canonical form that keys use: each field once, in ascending order, without padded numbers or
    /// default values.
    var isCanonical = true
    /// The bytes of each field, its tag among them.
    private(set) var parts: [[UInt8]] = []

    private let bytes: [UInt8]
    private var position = 0

    init(_ bytes: [UInt8]) throws(ModelUnreadable) {
        self.bytes = bytes
        while position < bytes.count {
            let start = position
            let tag = try varint()
            let number = tag / 8
            guard number >= 1, number < 1 << 29 else { throw ModelUnreadable() }
            if let last = fields.last, last.number >= number { isCanonical = false }
            switch tag % 8 {
            case 0:
                let value = try varint()
                if value == 0 { isCanonical = false }
                fields.append((number, .number(value)))
            case 1:
                _ = try take(8)
                fields.append((number, .fixed))
            case 2: fields.append((number, .bytes(try take(try varint()))))
            case 5:
                _ = try take(4)
                fields.append((number, .fixed))
            default: throw ModelUnreadable()
            }
            parts.append(Array(bytes[start..<position]))
        }
    }

    private mutating func varint() throws(ModelUnreadable) -> UInt64 {
        var value: UInt64 = 0
        for index in 0..<10 {
            guard position < bytes.count else { throw ModelUnreadable() }
            let byte = UInt64(bytes[position])
            position += 1
            // Nine bytes hold 63 bits; the tenth holds the last one.
            if index == 9, byte > 1 { throw ModelUnreadable() }
            value |= (byte % 128) << (7 * UInt64(index))
            if byte < 128 {
                if byte == 0, index > 0 { isCanonical = false }
                return value
            }
        }
        throw ModelUnreadable()
    }

    private mutating func take(_ count: UInt64) throws(ModelUnreadable) -> [UInt8] {
        guard count <= UInt64(bytes.count - position) else { throw ModelUnreadable() }
        defer { position += Int(count) }
        return Array(bytes[position..<position + Int(count)])
    }

    /// The numbers of all fields.
    var numbers: [UInt64] { fields.map(\.number) }

    /// Reads the field with this number, or the last one of several; `nil` if there is none. Reads all of them, so
    /// that a malformed one is rejected.
    func last<Result>(_ number: UInt64, _ read: (Value) throws(ModelUnreadable) -> Result) throws(ModelUnreadable)
        -> Result?
    {
        var last: Result?
        for field in fields where field.number == number { last = try read(field.value) }
        return last
    }
}

extension ModelMessage.Value {
    func number() throws(ModelUnreadable) -> UInt64 {
        guard case .number(let number) = self else { throw ModelUnreadable() }
        return number
    }

    func bytes() throws(ModelUnreadable) -> [UInt8] {
        guard case .bytes(let bytes) = self else { throw ModelUnreadable() }
        return bytes
    }

    func flag() throws(ModelUnreadable) -> Bool { try number() != 0 }

    /// A quantity or a number of time units.
    func count() throws(ModelUnreadable) -> Int64 {
        let number = try number()
        guard number <= UInt64(Int64.max) else { throw ModelUnreadable() }
        return Int64(number)
    }

    /// A `sint64`: 0, -1, 1, -2, … are written as 0, 1, 2, 3, ….
    func date() throws(ModelUnreadable) -> Int64 {
        let number = try number()
        let half = Int64(number / 2)
        return ModelCalendar.clamped(number % 2 == 0 ? half : -half - 1)
    }

    func message() throws(ModelUnreadable) -> ModelMessage { try ModelMessage(bytes()) }

    func text() throws(ModelUnreadable) -> String {
        let bytes = try bytes()
        let text = String(decoding: bytes, as: UTF8.self)
        guard Array(text.utf8) == bytes else { throw ModelUnreadable() }
        return text
    }

    /// An id: 1 to 255 bytes of text without control characters.
    func id() throws(ModelUnreadable) -> ModelID {
        let id = ModelID(try text())
        guard (1...255).contains(id.bytes.count), !id.bytes.contains(where: { $0 < 0x20 || $0 == 0x7F }) else {
            throw ModelUnreadable()
        }
        return id
    }

    func replica() throws(ModelUnreadable) -> [UInt8] {
        let bytes = try bytes()
        guard bytes.count == 16 else { throw ModelUnreadable() }
        return bytes
    }
}

extension ModelMessage {
    // Each of these reads the field with this number; `nil` if there is none.

    func date(_ number: UInt64) throws(ModelUnreadable) -> Int64? {
        try last(number) { value throws(ModelUnreadable) in try value.date() }
    }

    func count(_ number: UInt64) throws(ModelUnreadable) -> Int64? {
        try last(number) { value throws(ModelUnreadable) in try value.count() }
    }

    func number(_ number: UInt64) throws(ModelUnreadable) -> UInt64? {
        try last(number) { value throws(ModelUnreadable) in try value.number() }
    }

    func text(_ number: UInt64) throws(ModelUnreadable) -> String? {
        try last(number) { value throws(ModelUnreadable) in try value.text() }
    }

    func id(_ number: UInt64) throws(ModelUnreadable) -> ModelID? {
        try last(number) { value throws(ModelUnreadable) in try value.id() }
    }

    func duration(_ number: UInt64) throws(ModelUnreadable) -> ModelDuration? {
        try last(number) { value throws(ModelUnreadable) in
            let parts = try value.message()
            return ModelDuration(
                months: try parts.count(1) ?? 0, days: try parts.count(2) ?? 0, seconds: try parts.count(3) ?? 0,
                isForever: try parts.flag(4))
        }
    }

    /// `false` if there is no such field.
    func flag(_ number: UInt64) throws(ModelUnreadable) -> Bool {
        try last(number) { value throws(ModelUnreadable) in try value.flag() } ?? false
    }

    /// A required field.
    func replica(_ number: UInt64) throws(ModelUnreadable) -> [UInt8] {
        guard let replica = try last(number, { value throws(ModelUnreadable) in try value.replica() }) else {
            throw ModelUnreadable()
        }
        return replica
    }
}
