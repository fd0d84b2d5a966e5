package import Entitlements
import SyncService
package import WrittenDates

/// The configuration of the façade.
package struct ParseConfiguration: Sendable {
    /// The form in which a field holds the end of a group.
    package enum Shape: String, Hashable, Sendable, CaseIterable {
        /// One date.
        case date
        /// An array of dates, the last of which is the end.
        case dates
    }

    /// A field of the user that holds the end of a group.
    package struct ExpiryField: Sendable {
        /// The form of the field.
        package var shape: Shape
        /// The group.
        package var group: GroupID
        /// The rules for written dates.
        package var rules: ExpiryRules
    }

    /// The application id, which every request must name.
    package var applicationID: String
    /// The path of the API, without a slash at the end.
    package var path: String
    /// The fields that hold the end of a group.
    package private(set) var fields: [String: ExpiryField] = [:]
    /// The classes whose objects are kept.
    package private(set) var classes: Set<String> = []

    /// The error of a wrong value.
    package struct ValueError: Error, CustomStringConvertible {
        /// The reason, and how to correct the value.
        package var description: String
    }

    /// A configuration without fields.
    ///
    /// - Throws: ``ValueError`` for a wrong application id or path.
    package init(applicationID: String, path: String = "/parse") throws(ValueError) {
        guard (1...128).contains(applicationID.utf8.count),
            applicationID.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else {
            throw ValueError(description: "the application id must be 1 to 128 visible ASCII characters without spaces")
        }
        let parts = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
        guard path.hasPrefix("/"),
            parts.allSatisfy({ !$0.isEmpty && $0.utf8.allSatisfy { $0.isASCIIAlphanumeric(or: "-_") } }),
            parts.first != "v1"
        else {
            throw ValueError(
                description: "the path must be like /parse or /api/parse, without a slash at the end and not under "
                    + "/v1, not \"\(path.singleLine)\"")
        }
        (self.applicationID, self.path) = (applicationID, path)
    }

    /// Adds a field: `ExpirationDate=date:random`.
    ///
    /// - Throws: ``ValueError`` for a malformed text, a reserved name, and a group without non-renewing products.
    package mutating func addField(_ text: String, catalog: Catalog?) throws(ValueError) {
        let parts = text.split(separator: "=", maxSplits: 1).map(String.init)
        let value = parts.last?.split(separator: ":", maxSplits: 1).map(String.init) ?? []
        guard parts.count == 2, value.count == 2, let shape = Shape(rawValue: value[0]) else {
            throw ValueError(
                description: "must be NAME=date:GROUP or NAME=dates:GROUP, such as ExpirationDate=date:random, not "
                    + "\"\(text.singleLine)\"")
        }
        let name = parts[0]
        guard ParseName.isField(name), !ParseName.reserved.contains(name) else {
            throw ValueError(description: "\"\(name.singleLine)\" cannot be the name of a field")
        }
        guard let catalog else { throw ValueError(description: "needs a catalogue with the products: pass --catalog") }
        let group = GroupID(value[1])
        guard let rules = ExpiryRules(catalog, group: group) else {
            let groups = catalog.groups.map(\.rawValue).joined(separator: ", ")
            throw ValueError(
                description: "the catalogue has no non-renewing products in the group \"\(value[1].singleLine)\"; its "
                    + "groups are \(groups)")
        }
        guard fields[name] == nil, !fields.values.contains(where: { $0.group == group }) else {
            throw ValueError(description: "each field and each group can be given once, not \"\(text.singleLine)\"")
        }
        fields[name] = ExpiryField(shape: shape, group: group, rules: rules)
    }

    /// Adds classes whose objects are kept.
    ///
    /// - Throws: ``ValueError`` for a malformed or reserved name.
    package mutating func addClass(_ name: String) throws(ValueError) {
        guard ParseName.isField(name) else {
            throw ValueError(
                description: "must be names of letters, digits and _ that begin with a letter, not "
                    + "\"\(name.singleLine)\"")
        }
        classes.insert(name)
    }
}

/// The names of fields and classes.
enum ParseName {
    /// Members of a user that an app cannot set, or that have a meaning of their own.
    static let reserved: Set = [
        "objectId", "createdAt", "updatedAt", "ACL", "sessionToken", "className", "__type", "username", "password",
        "email", "authData", "emailVerified", "originalData",
    ]

    /// Returns `true` for a letter, followed by letters, digits and underscores.
    static func isField(_ name: String) -> Bool {
        (1...64).contains(name.utf8.count) && name.utf8.first?.isASCIILetter == true
            && name.utf8.allSatisfy { $0.isASCIIAlphanumeric(or: "_") }
    }
}
