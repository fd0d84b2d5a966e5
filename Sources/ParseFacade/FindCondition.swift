import Entitlements

/// The condition of a find: the values that members must equal, and a range of ids.
struct FindCondition: Sendable {
    /// The names of the members that the condition restricts.
    var names: Set<String> { Set(equals.map(\.name)).union(ids == nil && after == nil ? [] : ["objectId"]) }

    private var equals: [(name: String, value: JSON)] = []
    /// The ids that an object may have, from `$in`; `nil` for any.
    private var ids: Set<String>?
    /// The id after which the ids of objects come, from `$gt`.
    private var after: String?

    /// The largest number of members of `where`.
    private static let limit = 32

    /// Reads the members of `where`.
    ///
    /// - Throws: ``ParseError`` with the code 102 for an operator that is not supported, and for too many members.
    init(_ members: [String: JSON]) throws(ParseError) {
        guard members.count <= Self.limit else {
            throw ParseError(102, "where can have at most \(Self.limit) names, not \(members.count)")
        }
        for (name, member) in members {
            guard ParseName.isField(name) else {
                throw ParseError(102, "where: \"\(name.prefix(64))\" is not supported; only names of fields are")
            }
            guard let operators = member.members, operators.keys.contains(where: { $0.hasPrefix("$") }) else {
                equals.append((name, member))
                continue
            }
            for (key, value) in operators {
                switch (key, value) {
                case ("$eq", _): equals.append((name, value))
                case ("$in", .array(let elements)) where name == "objectId":
                    ids = Set(elements.compactMap(\.string))
                case ("$gt", .string(let text)) where name == "objectId": after = text
                default:
                    throw ParseError(
                        102,
                        "bad constraint: \(key.prefix(32)) of \(name.prefix(64)) is not supported; only equality, "
                            + "$eq, and $in and $gt of objectId are")
                }
            }
        }
    }

    /// Returns `true` if an object with these members meets the condition.
    func holds(for members: [String: JSON]) -> Bool {
        let id = members["objectId"]?.string ?? ""
        guard ids?.contains(id) ?? true, after.map({ id > $0 }) ?? true else { return false }
        return equals.allSatisfy { Self.equals(members[$0.name], $0.value) }
    }

    /// Compares as MongoDB does: `null` equals a missing member, and an array equals each of its elements.
    private static func equals(_ known: JSON?, _ value: JSON) -> Bool {
        let known = known ?? .null
        if known == value { return true }
        if let left = known.double, let right = value.double { return left == right }
        guard case .array(let elements) = known else { return false }
        return elements.contains { equals($0, value) }
    }
}

extension ParseRequest {
    /// The condition of a find.
    ///
    /// - Throws: ``ParseError`` with the code 102 for a condition that is not supported.
    func condition() throws(ParseError) -> FindCondition {
        var value = parameters["where"] ?? .null
        if let text = value.string {
            guard let parsed = try? JSON(parsing: text.utf8) else {
                throw ParseError(102, "where must be a JSON object")
            }
            value = parsed
        }
        guard let members = value == .null ? [:] : value.members else {
            throw ParseError(102, "where must be a JSON object, not \(value.typeName)")
        }
        return try FindCondition(members)
    }
}
