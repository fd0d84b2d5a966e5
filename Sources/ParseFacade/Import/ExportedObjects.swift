package import Entitlements
import SyncService

/// A user of an export.
package struct ExportedUser: Sendable {
    /// The way in which the user logs in.
    package enum Access: Hashable, Sendable {
        /// With the password, of which the export has a hash by bcrypt.
        case password(String)
        /// With an anonymous id, a UUID.
        case anonymous(String)
        /// With a new password only: the export has no hash.
        case reset
    }

    /// The object id.
    package let id: String
    /// The name.
    package let username: String
    /// The way in which the user logs in.
    package let access: Access
    /// The dates in the fields of groups, in ascending order.
    package private(set) var ends: [GroupID: [Timestamp]] = [:]
    let created: Timestamp
    let updated: Timestamp
    /// The token of a session of an old SDK, which Parse kept in the user.
    let token: String?
    /// The other fields, a JSON object.
    let fields: String

    /// The number of dates of a field that are kept, the latest ones.
    static let dateLimit = 64

    /// Reads a user.
    ///
    /// - Parameter now: The time for missing dates.
    /// - Throws: `InputError` for a user that cannot be imported.
    package init(_ value: JSON, _ configuration: ParseConfiguration, now: Timestamp) throws(InputError) {
        var members = try ExportedMembers(value, now: now)
        (id, created, updated) = (members.id, members.created, members.updated)
        guard let name = members.take("username")?.string, !name.isEmpty else {
            throw InputError(path: "username", reason: "the user has no name")
        }
        username = name
        token = members.take("sessionToken")?.string
        access = try Self.access(members.take("bcryptPassword"), members.take("authData"))
        for (name, field) in configuration.fields {
            guard let value = members.take(name), value != .null else { continue }
            ends[field.group] = try Self.dates(value, name)
        }
        for name in members.fields.keys where ParseName.reserved.contains(name) && name != "email" {
            _ = members.take(name)
        }
        fields = try text(of: members.fields, atMost: ParseUser.byteLimit, "a user")
    }

    private static func access(_ hash: JSON?, _ linked: JSON?) throws(InputError) -> Access {
        if let text = hash?.string, !text.isEmpty {
            do throws(BcryptHash.Objection) { _ = try BcryptHash(text) } catch {
                throw InputError(path: "_hashed_password", reason: error.description)
            }
            return .password(text)
        }
        guard hash == nil || hash == .null || hash == .string("") else {
            throw InputError(path: "_hashed_password", reason: "the password hash must be a text")
        }
        // Only a UUID is long enough to be a password.
        guard let id = linked?["anonymous"]?["id"]?.string, id.utf8.count == 36 else { return .reset }
        return .anonymous(id)
    }

    private static func dates(_ value: JSON, _ name: String) throws(InputError) -> [Timestamp] {
        var values = [value]
        if case .array(let elements) = value { values = elements }
        var dates: Set<Timestamp> = []
        for value in values {
            guard let date = value.timestamp else {
                throw InputError(path: name, reason: "a date or an array of dates is expected")
            }
            dates.insert(date)
        }
        return Array(dates.sorted().suffix(dateLimit))
    }
}

/// A session of an export.
package struct ExportedSession: Sendable {
    /// The object id of the user.
    package let user: String
    let token: String
    /// The end; `nil` for a session without one.
    let expires: Timestamp?
    /// True for a session that may not change the user. The façade has none of these.
    let isRestricted: Bool

    /// Reads a session.
    ///
    /// - Throws: `InputError` for a session without a user or token.
    package init(_ value: JSON, now: Timestamp) throws(InputError) {
        var members = try ExportedMembers(value, now: now)
        guard let user = ExportedMembers.user(members.fields["user"]) else {
            throw InputError(path: "_p_user", reason: "the session has no user")
        }
        guard let token = members.take("sessionToken")?.string, token.utf8.count >= 16 else {
            throw InputError(path: "_session_token", reason: "the session has no token of at least 16 bytes")
        }
        let end = members.take("expiresAt")
        expires = end?.timestamp
        guard expires != nil || end == nil || end == .null else {
            throw InputError(path: "expiresAt", reason: "a date is expected")
        }
        (self.user, self.token) = (user, token)
        isRestricted = members.take("restricted") == .bool(true)
    }

    /// Returns `true` if the session gives access at `now`, in milliseconds since 1970 UTC.
    package func isUsable(at now: Int64) -> Bool { !isRestricted && (expires?.milliseconds ?? .max) > now }
}

/// An object of another class of an export.
package struct ExportedObject: Sendable {
    /// The object id of the owner.
    package let user: String
    let id: String
    let created: Timestamp
    let updated: Timestamp
    /// A JSON object.
    let fields: String

    /// Reads an object. Its owner is the user in the field `user`, or else the only user that a field points to.
    ///
    /// - Throws: `InputError` for an object without an owner, or with a field that an app could not have set.
    package init(_ value: JSON, now: Timestamp) throws(InputError) {
        let members = try ExportedMembers(value, now: now)
        let users = Set(members.fields.values.compactMap { ExportedMembers.user($0) })
        guard let user = ExportedMembers.user(members.fields["user"]) ?? (users.count == 1 ? users.first : nil) else {
            throw InputError(path: "", reason: "no field, or more than one, points to a user, so it has no owner")
        }
        (self.user, id, created, updated) = (user, members.id, members.created, members.updated)
        let fields = members.fields.filter { $0.key != "ACL" && $0.key != "className" && $0.key != "__type" }
        self.fields = try text(of: fields, atMost: ParseObjects.byteLimit, "an object")
    }
}

/// The fields of an object as JSON.
private func text(
    of fields: [String: JSON], atMost limit: Int, _ owner: String
) throws(InputError) -> String {
    if let wrong = fields.keys.sorted().first(where: { !ParseName.isField($0) }) {
        throw InputError(path: String(wrong.prefix(64)), reason: "this cannot be the name of a field")
    }
    let text = JSON.object(fields).canonicalText
    guard text.utf8.count <= limit else {
        throw InputError(
            path: "", reason: "the fields of \(owner) can have at most \(limit) bytes, not \(text.utf8.count)")
    }
    return text
}
