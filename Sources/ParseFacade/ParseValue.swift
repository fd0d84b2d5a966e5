import Entitlements

extension JSON {
    /// The value of a number; `nil` for any other value.
    var double: Double? {
        switch self {
        case .number(let number): Double(number)
        case .decimal(let text): Double(text)
        default: nil
        }
    }

    /// A date as Parse writes it.
    static func date(_ date: Timestamp) -> JSON {
        .object(["__type": .string("Date"), "iso": .string(date.iso)])
    }

    /// The date of a value of the type `Date`; `nil` for any other value.
    var date: Timestamp? {
        guard self["__type"] == .string("Date"), let text = self["iso"]?.string else { return nil }
        return try? Timestamp(text)
    }
}

extension Timestamp {
    /// The text with exactly three digits of milliseconds.
    var iso: String {
        let text = "\(self)"
        // The description may leave out a zero fraction.
        guard let point = text.lastIndex(of: ".") else { return String(text.dropLast()) + ".000Z" }
        let fraction = text[text.index(after: point)...].dropLast()
        return text[..<point] + "." + fraction + String(repeating: "0", count: max(0, 3 - fraction.count)) + "Z"
    }
}

/// A refusal as Parse answers it.
struct ParseError: Error {
    var code: Int
    var message: String
    var status: Int
    var retryAfter: Int64?

    init(_ code: Int, _ message: String, status: Int? = nil, retryAfter: Int64? = nil) {
        (self.code, self.message, self.retryAfter) = (code, message, retryAfter)
        self.status = status ?? (code == 101 ? 404 : code == 1 ? 500 : 400)
    }

    var json: JSON { .object(["code": .number(Int64(code)), "error": .string(message)]) }

    static let wrongCredentials = ParseError(101, "Invalid username/password.")
    static let notFound = ParseError(101, "Object not found.")
    static let invalidSession = ParseError(209, "Invalid session token")
    static let mailTaken = ParseError(203, "Account already exists for this email address.")
    static let malformedMail = ParseError(125, "Email address format is invalid.")
    static let unsupportedProvider = ParseError(252, "This authentication method is unsupported.")
    static let nameTaken = ParseError(202, "Account already exists for this username.")
}
