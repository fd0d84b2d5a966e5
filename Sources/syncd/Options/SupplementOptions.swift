import ArgumentParser
import Entitlements

/// What a `.storekit` file does not say.
struct SupplementOptions: ParsableArguments {
    @Option(
        name: .customLong("duration"),
        help: ArgumentHelp(
            "How long a non-renewing subscription of a .storekit file lasts; once for each.", valueName: "ID=P3M"))
    var durations: [String] = []

    @Option(
        name: .customLong("group-of"),
        help: ArgumentHelp(
            "The group of a non-renewing subscription of a .storekit file; one of its own when not given.",
            valueName: "ID=GROUP"))
    var groups: [String] = []

    @Option(
        name: .customLong("units"),
        help: ArgumentHelp(
            "How many units a consumable of a .storekit file gives; 1 when not given.", valueName: "ID=N"))
    var units: [String] = []

    func supplement() throws -> StoreKitSupplement {
        StoreKitSupplement(
            durations: try Self.values(durations, option: "--duration") { try CalendarDuration($0) },
            groups: try Self.values(groups, option: "--group-of") { text in
                let group = GroupID(text)
                try group.validate()
                return group
            },
            units: try Self.values(units, option: "--units") { text in
                guard let number = Int64(text), (1...1_000_000).contains(number) else {
                    throw Failure(.usage, "units are a number from 1 to 1000000, not \"\(text.singleLine)\"")
                }
                return number
            })
    }

    /// Reads `ID=VALUE`, each id once. An id may hold "=", a value does not.
    private static func values<Value>(_ texts: [String], option: String, _ parse: (String) throws -> Value)
        throws -> [ProductID: Value]
    {
        var values: [ProductID: Value] = [:]
        for text in texts {
            guard let sign = text.lastIndex(of: "="), sign > text.startIndex else {
                throw Failure(.usage, "\(option): \"\(text.singleLine)\" is not ID=VALUE")
            }
            let id = ProductID(String(text[..<sign]))
            let value: Value
            do { value = try parse(String(text[text.index(after: sign)...])) } catch {
                throw Failure(.usage, "\(option): \(error)")
            }
            guard values.updateValue(value, forKey: id) == nil else {
                throw Failure(.usage, "\(option): \"\(id.rawValue.singleLine)\" is given twice")
            }
        }
        return values
    }
}
