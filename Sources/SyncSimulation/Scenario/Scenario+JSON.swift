public import Entitlements

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

extension Scenario {
    /// The scenario that ``json`` wrote, or somebody else did.
    ///
    /// ```swift
    /// let scenario = try Scenario(json: bytes)
    /// let outcome = Simulation(scenario).run()
    /// ```
    ///
    /// - Throws: `InputError` with the place, for text that is no JSON, for what is missing or of another type, and
    ///   for what no run can do, such as a step on a device that there is not.
    public init(json: [UInt8]) throws(InputError) {
        do {
            self = try JSONDecoder().decode(Scenario.self, from: Data(json))
        } catch let error as DecodingError {
            throw InputError(error)
        } catch {
            throw InputError(path: "", reason: "not JSON")
        }
        try check()
    }

    /// The scenario as JSON in UTF-8, indented, members in the order of their names: equal scenarios give equal bytes.
    public var json: [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        do {
            return Array(try encoder.encode(self)) + [0x0A]
        } catch {
            preconditionFailure("numbers, names and lists can be written as JSON: \(error)")
        }
    }
}

extension InputError {
    fileprivate init(_ error: DecodingError) {
        switch error {
        case .dataCorrupted(let context):
            let path = Self.path(context.codingPath)
            self.init(path: path, reason: path.isEmpty ? "not JSON" : Self.reason(context))
        case .keyNotFound(let key, let context):
            self.init(path: Self.path(context.codingPath + [key]), reason: "missing")
        case .typeMismatch(_, let context): self.init(path: Self.path(context.codingPath), reason: Self.reason(context))
        case .valueNotFound(_, let context): self.init(path: Self.path(context.codingPath), reason: "null, or missing")
        @unknown default: self.init(path: "", reason: "no scenario")
        }
    }

    private static func reason(_ context: DecodingError.Context) -> String {
        // What Foundation says of an enumeration with a case that is not known.
        context.debugDescription.hasPrefix("Invalid number of keys")
            ? "no such case, or several" : context.debugDescription.singleLine
    }

    private static func path(_ keys: [any CodingKey]) -> String {
        var path = ""
        for key in keys {
            if let index = key.intValue {
                path += "[\(index)]"
            } else {
                path += (path.isEmpty ? "" : ".") + key.stringValue.singleLine
            }
        }
        return path
    }
}
