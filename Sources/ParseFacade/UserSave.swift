import Entitlements
import WrittenDates

/// A save of a user, checked: the written dates of groups, and the change of the other fields.
struct UserSave: Sendable {
    /// The dates that a save writes to one field.
    struct Dates: Sendable {
        var name: String
        var field: ParseConfiguration.ExpiryField
        var dates: [Timestamp]
        /// True if the field is changed by an operation, so that the answer shows its value.
        var isOperation: Bool
    }

    /// The start of 2999-12-31 (UTC), which stands for an end that never comes. Apps that add months to it get a year
    /// of four digits.
    static let dateLimit = Timestamp(milliseconds: 32_503_593_600_000)

    /// The dates, in the order of the names of their fields.
    private(set) var dates: [Dates] = []
    /// The change of the other fields.
    let change: FieldChange
    /// The mail address that is set; `nil` if none is.
    let mail: String?
    /// True if the mail address is set or deleted.
    let changesMail: Bool

    /// Reads the members of a save, without name and password.
    ///
    /// - Throws: ``ParseError`` for a malformed name, date or mail address.
    init(_ body: [String: JSON], _ configuration: ParseConfiguration) throws(ParseError) {
        for name in body.keys where !ParseName.isField(name) {
            throw ParseError(105, "Invalid field name: \(name.prefix(64)).")
        }
        for (name, field) in configuration.fields.sorted(by: { $0.key < $1.key }) {
            guard let value = body[name], let dates = try Self.dates(in: value, name) else { continue }
            let isOperation = value["__op"] != nil
            self.dates.append(Dates(name: name, field: field, dates: dates, isOperation: isOperation))
        }
        change = FieldChange(
            body.filter { name, _ in
                configuration.fields[name] == nil && (!ParseName.reserved.contains(name) || name == "email")
            })
        changesMail = body["email"] != nil
        switch body["email"] {
        case nil, .null?, .string("")?: mail = nil
        case let value? where value["__op"] == .string("Delete"): mail = nil
        case .string(let text)? where Self.isAddress(text): mail = text
        default: throw ParseError.malformedMail
        }
    }

    /// True if there is nothing to save.
    var isEmpty: Bool { dates.isEmpty && change.isEmpty }

    /// Checks that the change can be applied to `fields`.
    ///
    /// - Throws: ``ParseError`` for a wrong operation, and if the fields would be too large.
    func check(against fields: [String: JSON], isRepeated: Bool = false) throws(ParseError) {
        var fields = fields
        _ = try apply(to: &fields, isRepeated: isRepeated)
    }

    /// Applies the change of the other fields.
    ///
    /// - Returns: The new values of fields with operations.
    /// - Throws: Like ``check(against:)``.
    func apply(to fields: inout [String: JSON], isRepeated: Bool) throws(ParseError) -> [String: JSON] {
        let answer = try change.apply(to: &fields, isRepeated: isRepeated)
        guard JSON.object(fields).canonicalText.utf8.count <= ParseUser.byteLimit else {
            throw ParseError(116, "the fields of a user can have at most \(ParseUser.byteLimit) bytes")
        }
        return answer
    }

    /// Returns `true` for a text with an `@` that is neither its first nor its last character.
    private static func isAddress(_ text: String) -> Bool {
        text.utf8.count <= 254 && text.dropFirst().dropLast().contains("@")
    }

    /// The dates that a save writes to an expiry field, without those from ``dateLimit`` on, which add nothing to an
    /// end that never comes; `nil` for a deletion, which is never obeyed.
    private static func dates(in value: JSON, _ name: String) throws(ParseError) -> [Timestamp]? {
        let mismatch = ParseError(111, "schema mismatch for _User.\(name); expected Date")
        if let date = date(in: value) { return [date].filter { $0 < dateLimit } }
        var elements: [JSON]
        switch value {
        case .null: return nil
        case .array(let list): elements = list
        case .object:
            switch value["__op"]?.string {
            case "Delete", "Remove": return nil
            case "Add", "AddUnique":
                guard let list = value["objects"]?.elements else { throw mismatch }
                elements = list
            default: throw mismatch
            }
        default: throw mismatch
        }
        guard elements.count <= SeenDates.capacity else {
            throw ParseError(111, "\(name) can have at most \(SeenDates.capacity) dates at once")
        }
        var dates: [Timestamp] = []
        for element in elements {
            guard let date = date(in: element) else { throw mismatch }
            dates.append(date)
        }
        return dates.filter { $0 < dateLimit }
    }

    /// The date of a value of the type `Date`; `nil` for any other value.
    ///
    /// An app that adds months to 9999-12-31 writes a year of five digits. It is read as the year 9996.
    private static func date(in value: JSON) -> Timestamp? {
        if let date = value.date { return date }
        guard var members = value.members, let text = members["iso"]?.string else { return nil }
        let signed = text.hasPrefix("+") ? text.dropFirst() : text[...]
        let year = signed.prefix { ("0"..."9").contains($0) }
        guard (5...9).contains(year.drop { $0 == "0" }.utf8.count) else { return nil }
        // A leap year, so that all days exist.
        members["iso"] = .string("9996" + String(signed.dropFirst(year.count)))
        return JSON.object(members).date
    }
}
