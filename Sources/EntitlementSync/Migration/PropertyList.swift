import Entitlements

/// The top level of a property list, in the XML form or the binary one: what user defaults are kept in.
///
/// Our own reader, because it is given files of strangers: it looks at the top level only and descends into nothing,
/// so that no nesting and no object that is referred to a billion times can hurt, and it says where a file is wrong.
struct PropertyList {
    /// What stands behind a key.
    enum Value: Hashable {
        case bool(Bool)
        case date(Timestamp)
        /// A date that cannot be one.
        case badDate(String)
        /// Anything else, named for a message.
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

    /// Keys are ids: compared byte by byte.
    let values: [ProductID: Value]

    static let maximumByteCount = 16 << 20

    init(_ bytes: [UInt8]) throws(InputError) {
        guard bytes.count <= Self.maximumByteCount else {
            throw InputError(
                path: "", reason: "user defaults of \(bytes.count) bytes are not read, at most \(Self.maximumByteCount)"
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
