/// A JSON value with its path, for decoders that report the place of an error.
package struct JSONReader: Sendable {
    package let value: JSONValue
    /// The path of the value, for example `products[3].duration`; empty for the whole document.
    package let path: String

    package init(_ value: JSONValue, path: String = "") {
        self.value = value
        self.path = path
    }

    package func error(_ reason: String) -> InputError {
        InputError(path: path, reason: reason)
    }

    package func array() throws(InputError) -> [JSONReader] {
        guard case .array(let elements) = value else { throw error("an array is expected, not \(value.typeName)") }
        return elements.enumerated().map { JSONReader($1, path: "\(path)[\($0)]") }
    }

    package func object() throws(InputError) -> JSONObjectReader {
        guard case .object(let members) = value else { throw error("an object is expected, not \(value.typeName)") }
        return JSONObjectReader(members: members, path: path)
    }

    package func string() throws(InputError) -> String {
        guard case .string(let text) = value else { throw error("a string is expected, not \(value.typeName)") }
        return text
    }

    /// The id, which some systems write as a number.
    ///
    /// Many JSON implementations round numbers from 2^53 on, which could turn two ids into one, so these are rejected.
    package func identifier() throws(InputError) -> String {
        switch value {
        case .integer(let number) where (0..<(1 << 53)).contains(number): return String(number)
        case .integer(let number): throw inexactIdentifier("\(number)")
        case .number(let text): throw inexactIdentifier(text)
        default: return try string()
        }
    }

    private func inexactIdentifier(_ text: String) -> InputError {
        error("an id is a text, or a whole number below 2^53 that no program rounds, not \(text.singleLine)")
    }

    package func integer() throws(InputError) -> Int64 {
        guard case .integer(let number) = value else {
            throw error("a whole number is expected, not \(value.typeName)")
        }
        return number
    }

    package func bool() throws(InputError) -> Bool {
        guard case .bool(let flag) = value else { throw error("true or false is expected, not \(value.typeName)") }
        return flag
    }

    package func timestamp() throws(InputError) -> Timestamp {
        let text = try string()
        do { return try Timestamp(text) } catch { throw self.error("\(error)") }
    }

    package func duration() throws(InputError) -> CalendarDuration {
        let text = try string()
        do { return try CalendarDuration(text) } catch { throw self.error("\(error)") }
    }
}

/// The members of a JSON object. Unknown names are errors, because they are usually misspellings.
package struct JSONObjectReader: Sendable {
    private let members: [String: JSONValue]
    private let path: String

    fileprivate init(members: [String: JSONValue], path: String) {
        self.members = members
        self.path = path
    }

    /// Rejects members other than `known`.
    package func allow(_ known: String...) throws(InputError) {
        guard let unknown = members.keys.sorted().first(where: { !known.contains($0) }) else { return }
        throw InputError(
            path: memberPath(unknown),
            reason: "unknown member (known: \(known.joined(separator: ", ")))")
    }

    /// The member; `nil` if it is missing or null.
    package subscript(name: String) -> JSONReader? {
        guard let value = members[name], value != .null else { return nil }
        return JSONReader(value, path: memberPath(name))
    }

    /// Returns `true` if there is a member, even if it is null.
    package func contains(_ name: String) -> Bool { members[name] != nil }

    /// Returns the member.
    ///
    /// - Throws: ``InputError`` if it is missing or null.
    package func required(_ name: String) throws(InputError) -> JSONReader {
        guard let reader = self[name] else { throw InputError(path: memberPath(name), reason: "this is missing") }
        return reader
    }

    /// All members, in ascending order of their names.
    package var all: [(name: String, value: JSONReader)] {
        members.keys.sorted().compactMap { name in
            members[name].map { (name, JSONReader($0, path: memberPath(name))) }
        }
    }

    private func memberPath(_ name: String) -> String {
        path.isEmpty ? name.singleLine : "\(path).\(name.singleLine)"
    }
}
