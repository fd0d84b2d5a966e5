import Entitlements

/// The results that a find returns: `limit`, `skip`, `order` and `count`, and the members that are shown.
struct FindSelection: Sendable {
    /// The largest number of objects.
    var limit = 100
    /// The number of objects to leave out first.
    var skip = 0
    /// The names of the members by which the objects are ordered, and the directions.
    var order: [(name: String, isDescending: Bool)] = []
    /// True if the number of all matching objects is returned too.
    var counts = false
    /// The members that are shown; `nil` for all.
    var keys: Set<String>?
    /// The members that are not shown.
    var excludedKeys: Set<String> = []

    /// Members that are always shown, as Parse Server does.
    private static let alwaysShown: Set = ["objectId", "createdAt", "updatedAt", "ACL"]

    /// The answer with the selected ones of all matching objects.
    func answer(_ found: [[String: JSON]]) -> JSON {
        let ordered = order.isEmpty ? found : found.sorted(by: precedes)
        let some = ordered.dropFirst(skip).prefix(limit)
        var members: [String: JSON] = ["results": .array(some.map { .object(shown($0)) })]
        if counts { members["count"] = .number(Int64(found.count)) }
        return .object(members)
    }

    /// Returns `true` if the member `name` is shown.
    func shows(_ name: String) -> Bool {
        Self.alwaysShown.contains(name) || (keys?.contains(name) ?? true) && !excludedKeys.contains(name)
    }

    /// The members that are shown.
    func shown(_ members: [String: JSON]) -> [String: JSON] { members.filter { shows($0.key) } }

    private func precedes(_ left: [String: JSON], _ right: [String: JSON]) -> Bool {
        for (name, isDescending) in order + [("objectId", false)] {
            let (first, second) = isDescending ? (right[name], left[name]) : (left[name], right[name])
            if Self.precedes(first, second) { return true }
            if Self.precedes(second, first) { return false }
        }
        return false
    }

    /// Objects without the member come first, then numbers, texts, flags and dates. Other values come last, in no
    /// order.
    private static func precedes(_ left: JSON?, _ right: JSON?) -> Bool {
        let ranks = (rank(of: left), rank(of: right))
        guard ranks.0 == ranks.1 else { return ranks.0 < ranks.1 }
        if let left = left?.double, let right = right?.double { return left < right }
        if let left = left?.string, let right = right?.string { return left < right }
        if let left = left?.date, let right = right?.date { return left < right }
        if case (.bool(let left)?, .bool(let right)?) = (left, right) { return !left && right }
        return false
    }

    private static func rank(of value: JSON?) -> Int {
        switch value {
        case nil, .null?: 0
        case .number?, .decimal?: 1
        case .string?: 2
        case .bool?: 3
        default: value?.date == nil ? 5 : 4
        }
    }
}

extension ParseRequest {
    /// The selection of a find.
    ///
    /// - Throws: ``ParseError`` with the code 102 for a parameter that is malformed or not supported.
    func selection() throws(ParseError) -> FindSelection {
        try checkParameters(["where", "limit", "skip", "order", "count", "keys", "excludeKeys", "include"])
        var selection = try shownMembers()
        if let limit = try number("limit") { selection.limit = limit }
        if let skip = try number("skip") { selection.skip = skip }
        selection.counts = try flag("count")
        for name in try names("order") {
            let isDescending = name.hasPrefix("-")
            selection.order.append((isDescending ? String(name.dropFirst()) : name, isDescending))
        }
        guard selection.order.count <= 8 else {
            throw ParseError(102, "order can have at most 8 names, not \(selection.order.count)")
        }
        try check(selection.order.map(\.name), of: "order")
        return selection
    }

    /// The members that the answer to the read of one object shows.
    ///
    /// - Throws: ``ParseError`` with the code 102 for a parameter that is malformed or not supported.
    func objectSelection() throws(ParseError) -> FindSelection {
        try checkParameters(["keys", "excludeKeys", "include"])
        return try shownMembers()
    }

    private func shownMembers() throws(ParseError) -> FindSelection {
        guard try names("include").isEmpty else {
            throw ParseError(102, "include is not supported; fetch the object of a pointer by its id")
        }
        var selection = FindSelection()
        let (keys, excludedKeys) = (try names("keys"), try names("excludeKeys"))
        try check(keys, of: "keys")
        try check(excludedKeys, of: "excludeKeys")
        if !keys.isEmpty { selection.keys = Set(keys) }
        selection.excludedKeys = Set(excludedKeys)
        return selection
    }

    private func checkParameters(_ supported: Set<String>) throws(ParseError) {
        for (name, value) in parameters.sorted(by: { $0.key < $1.key }) where value != .null {
            guard supported.contains(name) else {
                throw ParseError(
                    102,
                    "Invalid parameter for query: \(name.prefix(64)); only "
                        + "\(supported.sorted().joined(separator: ", ")) are supported")
            }
        }
    }

    private func check(_ names: [String], of parameter: String) throws(ParseError) {
        for name in names where !ParseName.isField(name) {
            throw ParseError(
                102,
                "\(parameter) must be names of fields between commas, or an array of them; \"\(name.prefix(64))\" "
                    + "is not a field name")
        }
    }

    /// The value of a parameter, which may be sent as a text of JSON.
    private func value(_ name: String) -> JSON {
        let value = parameters[name] ?? .null
        guard let text = value.string, let parsed = try? JSON(parsing: text.utf8) else { return value }
        return parsed
    }

    /// The names in a parameter: a text with commas, or an array of such texts.
    private func names(_ name: String) throws(ParseError) -> [String] {
        let texts: [JSON]
        switch (parameters[name] ?? .null, value(name)) {
        case (.null, _): texts = []
        case (_, .array(let elements)): texts = elements
        case (_, .string(let text)), (.string(let text), _): texts = [.string(text)]
        case (let other, _): texts = [other]
        }
        var names: [String] = []
        for text in texts {
            guard let text = text.string else {
                throw ParseError(102, "\(name) must be a text or an array of texts, not \(text.typeName)")
            }
            names += text.split(separator: ",").map { $0.filter { $0 != " " } }
        }
        return names
    }

    /// The value of a numeric parameter.
    private func number(_ name: String) throws(ParseError) -> Int? {
        switch value(name) {
        case .null: return nil
        case .number(let number) where number >= 0: return Int(number)
        default: throw ParseError(102, "\(name) must be a whole number, 0 or more")
        }
    }

    /// The value of a parameter that is true or false. Numbers other than 0 are true.
    private func flag(_ name: String) throws(ParseError) -> Bool {
        switch value(name) {
        case .null: return false
        case .bool(let flag): return flag
        case .number(let number): return number != 0
        default: throw ParseError(102, "\(name) must be true, false or a number")
        }
    }
}
