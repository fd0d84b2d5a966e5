import EntitlementSync
import Entitlements
import SyncCore
import SyncService
import WrittenDates

/// The façade's record of a user, under the account's holdings.
struct ParseUser: Codable, Hashable, Sendable {
    var objectID: String
    var username: String
    /// Times in milliseconds since 1970 UTC.
    var createdAt: Int64
    var updatedAt: Int64
    /// The other fields, a JSON object.
    var fields = "{}"
    /// The key of the entry of the anonymous id; `nil` for a user with a password.
    var anonymous: String?
    /// The relative changes that were applied last, so that a repeated one is applied once.
    var applied = AppliedRequests()
    /// True for a user of an import that is not complete.
    var isPending: Bool?

    /// The largest size of all fields, in bytes.
    static let byteLimit = 64 << 10

    static func key(of account: Account) throws(BackendError) -> EntryKey {
        try EntryKey(Holdings.prefix(of: account) + "parse/user")
    }
}

/// The requests that were applied last.
struct AppliedRequests: Codable, Hashable, Sendable {
    private struct Item: Codable, Hashable, Sendable {
        var digest: String
        var at: Int64
    }

    private var items: [Item] = []

    /// The number of requests that are kept.
    private static let capacity = 16

    init() {}

    init(from decoder: any Decoder) throws { items = try decoder.singleValueContainer().decode([Item].self) }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(items)
    }

    /// Returns `true` if a request with this digest was applied at most `limit` milliseconds before `now`.
    func contains(_ digest: String, now: Int64, limit: Int64) -> Bool {
        items.contains { $0.digest == digest && now - $0.at <= limit }
    }

    /// Notes a request. The oldest one is dropped.
    mutating func note(_ digest: String, at now: Int64) {
        items = items.suffix(Self.capacity - 1) + [Item(digest: digest, at: now)]
    }
}

/// The objects of one class that a user owns, under the account's holdings.
struct ParseObjects: Codable, Hashable, Sendable {
    struct Item: Codable, Hashable, Sendable {
        var id: String
        var createdAt: Int64
        var updatedAt: Int64
        /// The digest of the request that created it.
        var digest: String
        /// A JSON object.
        var fields: String
    }

    var items: [Item] = []
    /// The relative changes that were applied last; `nil` if there were none.
    var applied: AppliedRequests?

    /// The largest size of all objects of a class and an account, in bytes.
    static let byteLimit = 256 << 10

    /// The size of the objects, with an allowance for what is kept beside the fields.
    var byteCount: Int { items.reduce(0) { $0 + $1.fields.utf8.count + 160 } }

    static func key(of name: String, _ account: Account) throws(BackendError) -> EntryKey {
        try EntryKey(Holdings.prefix(of: account) + "parse/objects/" + name)
    }
}

/// A session or an anonymous id, in the server's own keys: the account that it belongs to.
///
/// It has the members of `AccountIdentity`, so that an erasure finds and deletes it.
struct ParseEntry: Codable, Hashable, Sendable {
    var name: String
    var incarnation: String
    /// The credential epoch in which the session began.
    var epoch: Int64 = 0
    /// The end of the session, in milliseconds since 1970 UTC.
    var expires: Int64 = .max
    /// True for a session of an import. It is kept when it ends, so that another import does not begin it again.
    var isImported: Bool?

    init(_ account: Account, epoch: Int64 = 0, expires: Int64 = .max) {
        (name, incarnation, self.epoch, self.expires) = (account.name ?? "", account.incarnation, epoch, expires)
    }

    var account: Account? { try? Account(name, incarnation: incarnation) }

    static let prefix = KeyScope.serverPrefix + "parse/"

    /// The key of the session with a digest of its token.
    static func sessionKey(_ digest: String) throws(BackendError) -> EntryKey {
        try EntryKey(prefix + "sessions/" + digest)
    }

    /// The key of the anonymous id with a digest.
    static func anonymousKey(_ digest: String) throws(BackendError) -> EntryKey {
        try EntryKey(prefix + "anonymous/" + digest)
    }
}

/// The dates of one installation in one account, by group, under the account's holdings.
struct ParseDates: Codable, Hashable, Sendable {
    var groups: [String: SeenDates] = [:]
    /// The time of the last change, in milliseconds since 1970 UTC.
    var changed: Int64 = 0

    /// The number of installations of an account, and of accounts of an installation.
    static let limit = 32

    static func prefix(of account: Account) -> String { Holdings.prefix(of: account) + "parse/dates/" }
}
