import Entitlements

/// The results that a find returns: `limit`, `skip`, `order` and `count`.
struct FindSelection: Sendable {
    /// The largest number of objects, 0 to 1,000.
    var limit = 100
    /// The number of objects to leave out first.
    var skip = 0
    /// The names of the members by which the objects are ordered, and the directions.
    var order: [(name: String, isDescending: Bool)] = []
    /// True if the number of all matching objects is returned too.
    var counts = false

    /// The answer with the selected ones of all matching objects.
    func answer(_ found: [[String: JSONValue]]) -> JSONValue {
        let ordered = order.isEmpty ? found : found.sorted(by: precedes)
        let some = ordered.dropFirst(skip).prefix(limit)
        var members: [String: JSONValue] = ["results": .array(some.map(JSONValue.object))]
        if counts { members["count"] = .integer(Int64(found.count)) }
        return .object(members)
    }

    private func precedes(_ left: [String: JSONValue], _ right: [String: JSONValue]) -> Bool {
        for (name, isDescending) in order + [("objectId", false)] {
            let (first, second) = isDescending ? (right[name], left[name]) : (left[name], right[name])
            if Self.precedes(first, second) { return true }
            if Self.precedes(second, first) { return false }
        }
        return false
    }

    /// Objects without the member come first, then numbers, texts and dates. Other values come last, in no order.
    private static func precedes(_ left: JSONValue?, _ right: JSONValue?) -> Bool {
        let ranks = (rank(of: left), rank(of: right))
        guard ranks.0 == ranks.1 else { return ranks.0 < ranks.1 }
        if let left = left?.double, let right = right?.double { return left < right }
        if let left = left?.string, let right = right?.string { return left < right }
        if let left = left?.date, let right = right?.date { return left < right }
        return false
    }

    private static func rank(of value: JSONValue?) -> Int {
        switch value {
        case nil, .null?: 0
        case .integer?, .number?: 1
        case .string?: 2
        default: value?.date == nil ? 4 : 3
        }
    }
}

extension ParseRequest {
    /// The selection of a find.
    ///
    /// - Throws: ``ParseError`` with the code 102 for a malformed parameter.
    func selection() throws(ParseError) -> FindSelection {
        var selection = FindSelection()
        if let limit = try number("limit") { selection.limit = min(limit, 1_000) }
        if let skip = try number("skip") { selection.skip = skip }
        selection.counts = try number("count") == 1
        let names = parameters["order"]?.string?.split(separator: ",") ?? []
        guard names.count <= 8 else { throw ParseError(102, "order can have at most 8 names, not \(names.count)") }
        selection.order = names.map { name in
            let isDescending = name.hasPrefix("-")
            return (String(isDescending ? name.dropFirst() : name), isDescending)
        }
        return selection
    }

    /// The value of a numeric parameter, which may be sent as a string.
    private func number(_ name: String) throws(ParseError) -> Int? {
        switch parameters[name] {
        case nil, .null?: return nil
        case .integer(let number)? where number >= 0: return Int(number)
        case .bool(let flag)? where name == "count": return flag ? 1 : 0
        case .string(let text)?:
            if let number = Int(text), number >= 0 { return number }
        default: break
        }
        throw ParseError(102, "\(name) must be a whole number, 0 or more")
    }
}
