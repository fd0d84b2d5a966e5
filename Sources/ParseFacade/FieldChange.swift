import Entitlements

/// The change that a save makes to the fields of a user or of an object: values, and the operations of `__op`.
struct FieldChange: Sendable {
    private let body: [String: JSON]

    init(_ body: [String: JSON]) { self.body = body }

    /// True if no field changes.
    var isEmpty: Bool { body.isEmpty }

    /// True if applying the change twice differs from applying it once.
    var isRelative: Bool {
        body.values.contains { ["Add", "Increment"].contains($0["__op"]?.string ?? "") }
    }

    /// Applies the change.
    ///
    /// - Parameter isRepeated: True if the change was applied before, so that relative operations change nothing.
    /// - Returns: The new values of fields with operations.
    func apply(to fields: inout [String: JSON], isRepeated: Bool) throws(ParseError) -> [String: JSON] {
        var results: [String: JSON] = [:]
        for (name, value) in body {
            guard let operation = value["__op"]?.string else {
                fields[name] = value
                continue
            }
            switch operation {
            case "Delete": fields[name] = nil
            case "Increment":
                if !isRepeated { fields[name] = try sum(fields[name], value["amount"], name) }
            case "Add", "AddUnique", "Remove":
                fields[name] = try list(operation, fields[name], value["objects"], name, isRepeated)
            default: throw ParseError(111, "The \(operation.prefix(32)) operator is not supported.")
            }
            results[name] = fields[name]
        }
        return results
    }

    private func sum(_ known: JSON?, _ amount: JSON?, _ name: String) throws(ParseError) -> JSON {
        let known = known == nil || known == .null ? .number(0) : known
        if case (.number(let number)?, .number(let amount)?) = (known, amount) {
            let (sum, overflow) = number.addingReportingOverflow(amount)
            guard !overflow else { throw ParseError(111, "the sum of \(name) is too large") }
            return .number(sum)
        }
        guard let amount = amount?.double else { throw ParseError(111, "the amount of an increment must be a number") }
        guard let number = known?.double else { throw ParseError(111, "schema mismatch for \(name); expected Number") }
        guard (number + amount).isFinite else { throw ParseError(111, "the sum of \(name) is too large") }
        return .decimal("\(number + amount)")
    }

    private func list(
        _ operation: String, _ known: JSON?, _ objects: JSON?, _ name: String, _ isRepeated: Bool
    ) throws(ParseError) -> JSON {
        guard let objects = objects?.elements else { throw ParseError(107, "objects must be an array") }
        var list: [JSON] = []
        switch known {
        case .array(let elements)?: list = elements
        case nil, .null?: break
        default: throw ParseError(111, "schema mismatch for \(name); expected Array")
        }
        switch operation {
        case "Remove": list.removeAll { objects.contains($0) }
        case "AddUnique": for object in objects where !list.contains(object) { list.append(object) }
        default: if !isRepeated { list += objects }
        }
        return .array(list)
    }
}
