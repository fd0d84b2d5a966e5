package import Entitlements

/// The value of a member of a JSON object that tests sign.
package enum SignedField: Hashable, Sendable, ExpressibleByStringLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByBooleanLiteral
{
    case text(String)
    case number(Int64)
    case truth(Bool)
    /// JSON that is written without checks.
    case json(String)

    package init(stringLiteral value: String) { self = .text(value) }
    package init(integerLiteral value: Int64) { self = .number(value) }
    package init(booleanLiteral value: Bool) { self = .truth(value) }

    /// A date in milliseconds since 1970, as Apple writes dates.
    package static func date(_ date: Timestamp) -> SignedField { .number(date.milliseconds) }

    /// An object.
    package static func object(_ fields: SignedFields) -> SignedField { .json(fields.json) }

    fileprivate var json: String {
        switch self {
        case .text(let text): SignedFields.quoted(text)
        case .number(let number): "\(number)"
        case .truth(let value): "\(value)"
        case .json(let json): json
        }
    }
}

/// The members of a JSON object that tests sign. A member that is `nil` is left out, also if there is a default.
package struct SignedFields: Hashable, Sendable, ExpressibleByDictionaryLiteral {
    package private(set) var members: [String: SignedField?]

    package init(dictionaryLiteral elements: (String, SignedField?)...) {
        members = Dictionary(elements) { $1 }
    }

    package subscript(name: String) -> SignedField? {
        get { members[name] ?? nil }
        set { members[name] = .some(newValue) }
    }

    /// Returns these members with those of `other` instead of members of the same name.
    package func replacing(with other: SignedFields) -> SignedFields {
        var fields = self
        fields.members.merge(other.members) { $1 }
        return fields
    }

    /// The object, in ascending order of names, so that equal fields give equal texts.
    package var json: String {
        let texts = members.sorted { $0.key < $1.key }.compactMap { name, value in
            value.map { "\(Self.quoted(name)):\($0.json)" }
        }
        return "{\(texts.joined(separator: ","))}"
    }

    fileprivate static func quoted(_ text: String) -> String { JSON(text).text() }
}
