import ArgumentParser
import Entitlements

/// Values that a `.storekit` file does not contain.
struct SupplementOptions: ParsableArguments {
    @Option(name: .customLong("duration"), help: .setting("duration")) var durations: [String] = []
    @Option(name: .customLong("group-of"), help: .setting("group-of")) var groups: [String] = []
    @Option(name: .customLong("units"), help: .setting("units")) var units: [String] = []

    func supplement() throws -> StoreKitSupplement {
        StoreKitSupplement(
            durations: try Self.values(durations, of: "duration") { try CalendarDuration($0) },
            groups: try Self.values(groups, of: "group-of") { text in
                let group = GroupID(text)
                try group.validate()
                return group
            },
            units: try Self.values(units, of: "units") { text in
                guard let number = Int64(text), (1...1_000_000).contains(number) else {
                    throw Failure(
                        .usage, "--units: units must be a number from 1 to 1,000,000, not \"\(text.singleLine)\"")
                }
                return number
            })
    }

    /// Parses `ID=VALUE` arguments with distinct ids. An id may contain "=", a value may not.
    private static func values<Value>(
        _ texts: [String], of setting: String, _ parse: (String) throws -> Value
    ) throws(Failure) -> [ProductID: Value] {
        var values: [ProductID: Value] = [:]
        try reading(setting, each: texts) { text in
            guard let sign = text.lastIndex(of: "="), sign > text.startIndex else {
                throw Failure(.usage, "--\(setting) must be ID=VALUE, not \"\(text.singleLine)\"")
            }
            let id = ProductID(String(text[..<sign]))
            let value = try parse(String(text[text.index(after: sign)...]))
            guard values.updateValue(value, forKey: id) == nil else {
                throw Failure(.usage, "--\(setting): \"\(id.rawValue.singleLine)\" is set twice")
            }
        }
        return values
    }
}
