import EntitlementSync
import Entitlements
import Foundation

/// The purchases in a property list of user defaults: the date `ExpirationDate`, and a Boolean for each owned product.
struct UserDefaultsFile {
    private static let expiryKey = "ExpirationDate"
    private static let maximumByteCount = 16 << 20

    private(set) var migration = Migration(expiry: nil, owned: [])
    /// Values that look like purchases and cannot be migrated.
    private(set) var ignored: [(key: String, reason: String)] = []
    /// The number of other values, which are unrelated to purchases.
    private(set) var otherCount = 0

    /// Reads an XML property list of at most 16 MiB.
    ///
    /// `true` means owned. `false` has no effect and revokes nothing.
    ///
    /// - Throws: `InputError` with the line of a syntax error, or the key whose value has the wrong type.
    init(_ bytes: [UInt8], catalog: Catalog) throws(InputError) {
        for (key, value) in try Self.values(in: bytes).sorted(by: { $0.key < $1.key }) {
            if key == Self.expiryKey {
                migration.expiries.append(try Self.expiry(value))
            } else {
                try add(ProductID(key), value, catalog: catalog)
            }
        }
    }

    private static func values(in bytes: [UInt8]) throws(InputError) -> [String: Any] {
        guard bytes.count <= maximumByteCount else {
            throw InputError(
                path: "", reason: "user defaults must be at most \(maximumByteCount) bytes, not \(bytes.count)")
        }
        // On Linux, Foundation crashes on some damaged binary files.
        guard !bytes.starts(with: "bplist".utf8) else {
            throw InputError(
                path: "", reason: "this property list is binary: convert it to XML, on a Mac with plutil -convert xml1")
        }
        // Foundation also reads an older format, which does not begin with a tag.
        let text = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes[3...] : bytes[...]
        guard text.first(where: { ![0x09, 0x0A, 0x0D, 0x20].contains($0) }) == UInt8(ascii: "<") else {
            throw InputError(path: "", reason: "this is not an XML property list")
        }
        let root: Any
        do { root = try PropertyListSerialization.propertyList(from: Data(bytes), format: nil) } catch {
            let reason = (error as NSError).userInfo[NSDebugDescriptionErrorKey] as? String ?? "\(error)"
            throw InputError(path: "", reason: "the property list is damaged: \(reason.singleLine(atMost: 200))")
        }
        guard let values = root as? [String: Any] else {
            throw InputError(path: "", reason: "user defaults must be a dictionary, not \(typeName(of: root))")
        }
        return values
    }

    private static func expiry(_ value: Any) throws(InputError) -> Timestamp {
        guard let date = value as? Date else {
            throw InputError(path: expiryKey, reason: "a date is expected, not \(typeName(of: value))")
        }
        guard date >= Date(.earliest), date <= Date(.latest) else {
            throw InputError(path: expiryKey, reason: "a date in the years 1 to 9999 is expected")
        }
        return Timestamp(date)
    }

    private mutating func add(_ key: ProductID, _ value: Any, catalog: Catalog) throws(InputError) {
        let name = key.rawValue.singleLine
        switch catalog[product: key]?.kind {
        case .nonConsumable:
            guard let isOwned = Self.boolean(value) else {
                throw InputError(path: name, reason: "true or false is expected, not \(Self.typeName(of: value))")
            }
            if isOwned { migration.owned.append(key) }
        case .consumable:
            ignored.append((name, "units without a transaction are not migrated"))
        case .nonRenewing, .autoRenewable:
            ignored.append((name, "a subscription is migrated by its \(Self.expiryKey)"))
        case nil where Self.boolean(value) == nil: otherCount += 1
        case nil: ignored.append((name, "the catalogue has no such product"))
        }
    }

    /// The value if it is a Boolean. A number is none, though Foundation converts it.
    private static func boolean(_ value: Any) -> Bool? {
        guard let number = value as? NSNumber, String(cString: number.objCType) == "c" else { return nil }
        return number.boolValue
    }

    private static func typeName(of value: Any) -> String {
        switch value {
        case _ where boolean(value) != nil: "true or false"
        case is String: "a string"
        case is Date: "a date"
        case is Data: "data"
        case is [Any]: "an array"
        case is [String: Any]: "a dictionary"
        default: "a number"
        }
    }
}
