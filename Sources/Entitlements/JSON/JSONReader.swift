/// A JSON value with its path, for decoders that report the place of an error.
package struct JSONReader: Sendable {
    package let value: JSON
    /// The path of the value, for example `products[3].duration`; empty for the whole document.
    package let path: String

    package init(_ value: JSON, path: String = "") {
        self.value = value
        self.path = path
    }

    /// Parses a whole document. Throws like ``JSON/init(parsing:firstLine:)``.
    package init(parsing bytes: some Collection<UInt8>) throws(InputError) { self.init(try JSON(parsing: bytes)) }

    package func error(_ reason: String) -> InputError {
        InputError(path: path, reason: reason)
    }

    package func array() throws(InputError) -> [JSONReader] {
        guard case .array(let elements) = value else { throw error("an array is expected, not \(value.typeName)") }
        return elements.enumerated().map { JSONReader($1, path: "\(path)[\($0)]") }
    }

    package func object() throws(InputError) -> JSONObjectReader {
        guard case .object = value else { throw error("an object is expected, not \(value.typeName)") }
        return JSONObjectReader(value: value, path: path)
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
        case .number(let number) where (0..<(1 << 53)).contains(number): return String(number)
        case .number, .decimal:
            throw error(
                "an id is a text, or a whole number below 2^53 that no program rounds, not \(value.line.singleLine)")
        default: return try string()
        }
    }

    package func integer() throws(InputError) -> Int64 {
        guard case .number(let number) = value else {
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
    fileprivate let value: JSON
    fileprivate let path: String

    /// Rejects members other than `known`.
    package func allow(_ known: String...) throws(InputError) {
        guard let unknown = value.members?.keys.filter({ !known.contains($0) }).min() else { return }
        throw InputError(
            path: memberPath(unknown),
            reason: "unknown member (known: \(known.joined(separator: ", ")))")
    }

    /// The member; `nil` if it is missing or null.
    package subscript(name: String) -> JSONReader? {
        guard let member = value[name], member != .null else { return nil }
        return JSONReader(member, path: memberPath(name))
    }

    /// Returns `true` if there is a member, even if it is null.
    package func contains(_ name: String) -> Bool { value[name] != nil }

    /// Returns the member.
    ///
    /// - Throws: ``InputError`` if it is missing or null.
    package func required(_ name: String) throws(InputError) -> JSONReader {
        guard let reader = self[name] else { throw InputError(path: memberPath(name), reason: "this is missing") }
        return reader
    }

    /// All members, in ascending order of their names.
    package var all: [(name: String, value: JSONReader)] {
        (value.members ?? [:]).sorted { $0.key < $1.key }.map { ($0, JSONReader($1, path: memberPath($0))) }
    }

    private func memberPath(_ name: String) -> String {
        path.isEmpty ? name.singleLine : "\(path).\(name.singleLine)"
    }
}
