import Entitlements

// Literals for the results of commands. The members of an object keep the order of the literal.
extension JSON: ExpressibleByDictionaryLiteral, ExpressibleByStringInterpolation {
    init(dictionaryLiteral members: (String, JSON)...) { self = .object(members) }

    init(stringLiteral text: String) { self = .string(text) }

    static func number(_ count: Int) -> JSON { .number(Int64(count)) }
}
