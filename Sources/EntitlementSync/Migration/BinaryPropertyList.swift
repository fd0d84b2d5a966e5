import Entitlements

/// A reader for the top level of a binary property list.
///
/// The layout is that of CFBinaryPList.c in swift-corelibs-foundation: magic bytes, objects, a table of their offsets,
/// and a trailer of 32 bytes. Numbers are big-endian; the trailer contains their widths.
struct BinaryPropertyList {
    static let magic: [UInt8] = Array("bplist0".utf8)
    private static let trailerByteCount = 32
    /// The seconds from 1970 to 2001, the reference date of the format.
    private static let referenceDate = 978_307_200.0

    private let bytes: [UInt8]
    private let offsetWidth: Int
    private let referenceWidth: Int
    private let objectCount: Int
    private let top: Int
    /// The offset of the offset table. Objects precede it.
    private let table: Int

    init(_ bytes: [UInt8]) throws(InputError) {
        self.bytes = bytes
        let trailer = bytes.count - Self.trailerByteCount
        guard trailer >= 9 else { throw Self.damaged(at: bytes.count, "it ends before its trailer") }
        offsetWidth = Int(bytes[trailer + 6])
        referenceWidth = Int(bytes[trailer + 7])
        guard (1...8).contains(offsetWidth), (1...8).contains(referenceWidth) else {
            throw Self.damaged(at: trailer + 6, "the trailer is invalid; the file may be truncated")
        }
        func number(at offset: Int) -> Int? {
            Int(exactly: bytes[offset..<offset + 8].reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
        }
        guard let count = number(at: trailer + 8), let top = number(at: trailer + 16),
            let table = number(at: trailer + 24), top < count, table >= 8, table <= trailer,
            count <= (trailer - table) / offsetWidth
        else { throw Self.damaged(at: trailer + 8, "the trailer is invalid; the file may be truncated") }
        (objectCount, self.top, self.table) = (count, top, table)
    }

    mutating func root() throws(InputError) -> [ProductID: PropertyList.Value] {
        let (kind, _, position, count) = try object(top)
        guard kind == 0xD else {
            throw InputError(path: "", reason: "user defaults must be a dictionary, not \(Self.name(of: kind))")
        }
        guard count <= (table - position) / referenceWidth / 2 else {
            throw Self.damaged(at: position, "a dictionary is longer than the file")
        }
        var values: [ProductID: PropertyList.Value] = [:]
        for index in 0..<count {
            let key = ProductID(try text(of: try reference(at: position + index * referenceWidth)))
            let value = try value(of: try reference(at: position + (count + index) * referenceWidth))
            guard values.updateValue(value, forKey: key) == nil else {
                throw InputError(path: key.rawValue.singleLine, reason: "duplicate key")
            }
        }
        return values
    }

    /// Returns the object's kind and the low bits of its marker, the offset of its content, and its length.
    private func object(_ index: Int) throws(InputError) -> (kind: UInt8, low: UInt8, position: Int, count: Int) {
        guard (0..<objectCount).contains(index) else {
            throw Self.damaged(at: table, "an object lies outside of the file")
        }
        let entry = table + index * offsetWidth
        guard let offset = number(at: entry, width: offsetWidth), offset >= 8, offset < table
        else { throw Self.damaged(at: entry, "an object lies outside of the file") }
        let (kind, low) = (bytes[offset] >> 4, bytes[offset] & 0xF)
        guard low == 0xF, kind >= 0x4 else { return (kind, low, offset + 1, Int(low)) }
        // The length is a separate integer object.
        guard offset + 1 < table, bytes[offset + 1] >> 4 == 0x1 else {
            throw Self.damaged(at: offset + 1, "the length of an object is expected here")
        }
        let width = 1 << Int(bytes[offset + 1] & 0xF)
        guard width <= 8, let count = number(at: offset + 2, width: width) else {
            throw Self.damaged(at: offset + 1, "the length of an object is invalid")
        }
        return (kind, low, offset + 2 + width, count)
    }

    private func reference(at position: Int) throws(InputError) -> Int {
        guard let reference = number(at: position, width: referenceWidth) else {
            throw Self.damaged(at: position, "an object reference is invalid")
        }
        return reference
    }

    private func number(at position: Int, width: Int) -> Int? {
        guard position >= 0, position + width <= bytes.count - Self.trailerByteCount else { return nil }
        return Int(exactly: bytes[position..<position + width].reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
    }

    private func text(of index: Int) throws(InputError) -> String {
        let (kind, _, position, count) = try object(index)
        let unitWidth = kind == 0x6 ? 2 : 1
        guard [0x5, 0x6, 0x7].contains(kind) else {
            throw Self.damaged(at: position, "a key must be a string, not \(Self.name(of: kind))")
        }
        guard count <= (table - position) / unitWidth else {
            throw Self.damaged(at: position, "a string is longer than the file")
        }
        let content = bytes[position..<position + count * unitWidth]
        let text: String?
        if kind == 0x6 {
            let units = (0..<count).map { UInt16(bytes[position + $0 * 2]) << 8 | UInt16(bytes[position + $0 * 2 + 1]) }
            text = String(validating: units, as: UTF16.self)
        } else {
            text = String(validating: content, as: UTF8.self)
        }
        guard let text else { throw Self.damaged(at: position, "a string has an invalid encoding") }
        return text
    }

    private func value(of index: Int) throws(InputError) -> PropertyList.Value {
        let (kind, low, position, _) = try object(index)
        switch (kind, low) {
        case (0x0, 0x8): return .bool(false)
        case (0x0, 0x9): return .bool(true)
        case (0x3, 0x3):
            guard position + 8 <= table else { throw Self.damaged(at: position, "a date is truncated") }
            let bits = bytes[position..<position + 8].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            return Self.date(Double(bitPattern: bits))
        default: return .other(Self.name(of: kind))
        }
    }

    static func date(_ secondsSince2001: Double) -> PropertyList.Value {
        let milliseconds = ((secondsSince2001 + referenceDate) * 1_000).rounded()
        let range = Double(Timestamp.earliest.milliseconds)...Double(Timestamp.latest.milliseconds)
        guard range.contains(milliseconds) else {
            return .badDate("\(secondsSince2001) seconds after 2001 is outside the years 1 to 9999")
        }
        return .date(Timestamp(milliseconds: Int64(milliseconds)))
    }

    private static func name(of kind: UInt8) -> String {
        switch kind {
        case 0x0: "true, false or null"
        case 0x1, 0x2: "a number"
        case 0x3: "a date"
        case 0x4: "data"
        case 0x5, 0x6, 0x7: "a string"
        case 0xA, 0xB, 0xC: "an array"
        case 0xD: "a dictionary"
        default: "an object of an unknown kind"
        }
    }

    private static func damaged(at offset: Int, _ reason: String) -> InputError {
        InputError(path: "byte \(offset)", reason: "the binary property list is damaged: \(reason)")
    }
}
