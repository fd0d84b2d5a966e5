import Entitlements
import SyncService

// Values as mongoexport writes them: extended JSON of versions 1 and 2.
extension JSON {
    /// The value as Parse's API writes it.
    ///
    /// - Throws: `InputError` for a date that is none, or that is outside of the years 1 to 9999.
    func plain(_ path: String) throws(InputError) -> JSON {
        switch self {
        case .array(let elements):
            var plain: [JSON] = []
            for element in elements { plain.append(try element.plain(path)) }
            return .array(plain)
        case .object:
            let members = members ?? [:]
            if let date = members["$date"] { return .date(try Self.date(date, path)) }
            if let typed = Self.typed(members) { return typed }
            var plain: [String: JSON] = [:]
            for (name, value) in members { plain[name] = try value.plain("\(path).\(name)") }
            return .object(plain)
        default: return self
        }
    }

    /// The value of an object with a type; `nil` for any other object.
    private static func typed(_ members: [String: JSON]) -> JSON? {
        if let text = (members["$numberLong"] ?? members["$numberInt"])?.string, let number = Int64(text) {
            return .number(number)
        }
        if let text = (members["$numberDouble"] ?? members["$numberDecimal"])?.string {
            // Infinity and NaN are no numbers in JSON.
            return (try? JSON(parsing: text.utf8)) ?? .null
        }
        if let id = members["$oid"]?.string { return .string(id) }
        if let binary = members["$binary"], let text = binary.string ?? binary["base64"]?.string {
            return .object(["__type": .string("Bytes"), "base64": .string(text)])
        }
        return members["$undefined"] == nil ? nil : .null
    }

    /// The date of `$date`: a text, milliseconds, or `$numberLong`.
    private static func date(_ value: JSON, _ path: String) throws(InputError) -> Timestamp {
        let wrong = InputError(path: path, reason: "a date is expected, in the years 1 to 9999")
        switch value {
        case .string(let text):
            guard let date = try? Timestamp(withColon(text)) else { throw wrong }
            return date
        case .number(let milliseconds): return try checked(milliseconds, wrong)
        case .object:
            guard let text = value["$numberLong"]?.string, let milliseconds = Int64(text) else { throw wrong }
            return try checked(milliseconds, wrong)
        default: throw wrong
        }
    }

    private static func checked(_ milliseconds: Int64, _ wrong: InputError) throws(InputError) -> Timestamp {
        let range = Timestamp.earliest.milliseconds...Timestamp.latest.milliseconds
        guard range.contains(milliseconds) else { throw wrong }
        return Timestamp(milliseconds: milliseconds)
    }

    /// Old versions of mongoexport write offsets as `+0000`.
    private static func withColon(_ text: String) -> String {
        let end = Array(text.utf8.suffix(5))
        guard end.count == 5, [UInt8(ascii: "+"), UInt8(ascii: "-")].contains(end[0]),
            end.dropFirst().allSatisfy(\.isASCIIDigit)
        else { return text }
        return "\(text.dropLast(2)):\(text.suffix(2))"
    }
}

/// The members of an exported object, under the names of Parse's API.
struct ExportedMembers: Sendable {
    let id: String
    let created: Timestamp
    let updated: Timestamp
    /// The members that an app sets, and `sessionToken`, `authData` and the hash of the password.
    private(set) var fields: [String: JSON] = [:]

    /// Names of MongoDB's documents that differ from those of the API.
    private static let names = [
        "_session_token": "sessionToken", "_expiresAt": "expiresAt", "_hashed_password": "bcryptPassword",
    ]
    /// Members with a meaning of their own, in MongoDB and in exports of parse.com.
    private static let own: Set = ["_id", "objectId", "_created_at", "createdAt", "_updated_at", "updatedAt"]

    /// Reads an object.
    ///
    /// - Parameter now: The time for missing dates.
    /// - Throws: `InputError` for an object without an id, and for wrong dates.
    init(_ value: JSON, now: Timestamp) throws(InputError) {
        let members = value.members ?? [:]
        guard let id = try (members["_id"] ?? members["objectId"])?.plain("_id").string, !id.isEmpty else {
            throw InputError(path: "", reason: "the object has no _id (or objectId) that is a text")
        }
        self.id = id
        let updated = try Self.date(members, "_updated_at", "updatedAt")
        created = try Self.date(members, "_created_at", "createdAt") ?? updated ?? now
        self.updated = updated ?? created
        var linked: [String: JSON] = [:]
        for (name, value) in members where !Self.own.contains(name) {
            if name.hasPrefix("_p_") {
                fields[String(name.dropFirst(3))] = Self.pointer(value)
            } else if name.hasPrefix("_auth_data_") {
                if value != .null { linked[String(name.dropFirst(11))] = try value.plain(name) }
            } else if let known = Self.names[name] {
                fields[known] = try value.plain(name)
            } else if !name.hasPrefix("_") {
                fields[name] = try value.plain(name)
            }
        }
        if !linked.isEmpty { fields["authData"] = .object(linked) }
    }

    /// Takes a member out.
    mutating func take(_ name: String) -> JSON? { fields.removeValue(forKey: name) }

    /// The user that a pointer names; `nil` for any other value.
    static func user(_ value: JSON?) -> String? {
        guard let value, value["__type"] == .string("Pointer"), value["className"] == .string("_User") else {
            return nil
        }
        return value["objectId"]?.string
    }

    /// `_User$abc` as the API writes it; `nil` for a value without `$`.
    private static func pointer(_ value: JSON) -> JSON? {
        let parts = (value.string ?? "").split(separator: "$", maxSplits: 1).map(String.init)
        guard parts.count == 2 else { return nil }
        return .object([
            "__type": .string("Pointer"), "className": .string(parts[0]), "objectId": .string(parts[1]),
        ])
    }

    private static func date(
        _ members: [String: JSON], _ names: String...
    ) throws(InputError) -> Timestamp? {
        for name in names {
            guard let value = try members[name]?.plain(name), value != .null else { continue }
            guard let date = value.timestamp else { throw InputError(path: name, reason: "a date is expected") }
            return date
        }
        return nil
    }
}

extension JSON {
    /// The date of a value of the type `Date`, or of a text; `nil` for any other value.
    var timestamp: Timestamp? { date ?? string.flatMap { try? Timestamp($0) } }
}
