import Entitlements

/// The top level of a property list in XML or binary form, the format of user defaults.
///
/// This reader is safe for untrusted files. It reads only the top level, so deep nesting and repeated references cost
/// nothing, and its errors contain the position of the mistake.
///
/// Foundation's readers are no alternative. In Swift 6.3 on Linux, `PropertyListDecoder` overflows the stack on deep
/// nesting, traps on some damaged binary files, and shifts XML dates before 1583 by days. `PropertyListSerialization`
/// crashes on some damaged files too, and needs all of Foundation, which adds 3 to 4 ms to the start of a process.
struct PropertyList {
    /// The value of a key.
    enum Value: Hashable {
        case bool(Bool)
        case date(Timestamp)
        /// A date that is malformed or out of range.
        case badDate(String)
        /// A value of another type, described for an error message.
        case other(String)

        var typeName: String {
            switch self {
            case .bool: "true or false"
            case .date: "a date"
            case .badDate(let reason): "a date that cannot be read: \(reason)"
            case .other(let name): name
            }
        }
    }

    /// The values by key. Keys are compared byte by byte.
    let values: [ProductID: Value]

    static let maximumByteCount = 16 << 20

    init(_ bytes: [UInt8]) throws(InputError) {
        guard bytes.count <= Self.maximumByteCount else {
            throw InputError(
                path: "", reason: "user defaults must be at most \(Self.maximumByteCount) bytes, not \(bytes.count)"
            )
        }
        if bytes.starts(with: BinaryPropertyList.magic) {
            var reader = try BinaryPropertyList(bytes)
            values = try reader.root()
        } else if XMLPropertyList.isXML(bytes) {
            var reader = XMLPropertyList(bytes)
            values = try reader.root()
        } else {
            throw InputError(path: "", reason: "this is neither an XML nor a binary property list")
        }
    }
}
