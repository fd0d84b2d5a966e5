public import Entitlements

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

extension Scenario {
    /// Decodes a scenario, as written by ``json`` or by hand.
    ///
    /// ```swift
    /// let scenario = try Scenario(json: bytes)
    /// let outcome = Simulation(scenario).run()
    /// ```
    ///
    /// - Throws: `InputError` with the path of the error, if the text is not JSON, a member is missing or has another
    ///   type, or a value is not possible, such as a step on a device that does not exist.
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

    /// The scenario as JSON in UTF-8, indented, with sorted members. Equal scenarios give equal bytes.
    public var json: [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        do {
            return Array(try encoder.encode(self)) + [0x0A]
        } catch {
            preconditionFailure("encoding a scenario as JSON failed: \(error)")
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
        case .valueNotFound(_, let context): self.init(path: Self.path(context.codingPath), reason: "missing or null")
        @unknown default: self.init(path: "", reason: "not a scenario")
        }
    }

    private static func reason(_ context: DecodingError.Context) -> String {
        // The start of Foundation's message for an unknown case of an enumeration.
        context.debugDescription.hasPrefix("Invalid number of keys")
            ? "must be exactly one known case" : context.debugDescription.singleLine
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
