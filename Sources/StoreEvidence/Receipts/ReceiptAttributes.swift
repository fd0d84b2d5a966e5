#if Evidence
import Entitlements
import SwiftASN1

/// The attributes of a receipt, or of one of its purchases: a set of numbered values.
struct ReceiptAttributes {
    /// The number of the attribute that holds one purchase. It is the only one that may be repeated.
    static let inAppPurchase: Int64 = 17

    private var values: [Int64: ArraySlice<UInt8>] = [:]
    /// The values of the attribute 17, in the order of the receipt.
    private(set) var purchases: [ArraySlice<UInt8>] = []
    private let name: String

    /// Parses a set of attributes. `name` is its name in messages.
    init(_ bytes: ArraySlice<UInt8>, _ name: String) throws(EvidenceError) {
        self.name = name
        var set = try DERFields(try DERDocument.parse(bytes, name), .set, name)
        for node in set.all() {
            var fields = try DERFields(node, .sequence, "an attribute of \(name)")
            let type = try fields.next("type").integer("an attribute type of \(name)")
            _ = try fields.next("version").integer("the version of \(place(type))")
            let value = try fields.next("value").octets("the value of \(place(type))")
            try fields.end()
            if type == Self.inAppPurchase {
                purchases.append(value)
            } else if values.updateValue(value, forKey: type) != nil {
                throw EvidenceError(.format, "\(place(type)) is repeated")
            }
        }
    }

    /// The value as written; `nil` if the attribute is missing.
    func bytes(_ type: Int64) -> ArraySlice<UInt8>? { values[type] }

    /// The text; `nil` if the attribute is missing or its text is empty.
    func text(_ type: Int64, _ check: EvidenceError.Check = .content) throws(EvidenceError) -> String? {
        guard let value = values[type] else { return nil }
        let node = try DERDocument.parse(value, place(type))
        guard node.identifier == .utf8String || node.identifier == .ia5String,
            case .primitive(let content) = node.content, let text = String(validating: content, as: UTF8.self)
        else { throw EvidenceError(check, "\(place(type)) is not a text") }
        return text.isEmpty ? nil : text
    }

    /// The number; `nil` if the attribute is missing.
    func integer(_ type: Int64) throws(EvidenceError) -> Int64? {
        guard let value = values[type] else { return nil }
        return try DERDocument.parse(value, place(type)).integer(place(type))
    }

    /// The date; `nil` if the attribute is missing or its text is empty.
    func date(_ type: Int64, _ check: EvidenceError.Check = .content) throws(EvidenceError) -> Timestamp? {
        guard let text = try text(type, check) else { return nil }
        do {
            return try Timestamp(text)
        } catch {
            throw EvidenceError(check, "\(place(type)): \(error)")
        }
    }

    /// The place of an attribute in messages.
    func place(_ type: Int64) -> String { "attribute \(type) of \(name)" }
}
#endif
