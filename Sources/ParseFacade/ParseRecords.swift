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
    var applied: [RequestMark] = []
    /// The sign-up, so that it can be repeated; `nil` for a user that was created otherwise.
    var signUp: RequestMark?
    /// True for a user of an import that is not complete.
    var isPending: Bool?

    /// The largest size of all fields, in bytes.
    static let byteLimit = 64 << 10

    static func key(of account: Account) throws(BackendError) -> EntryKey {
        try EntryKey(Holdings.prefix(of: account) + "parse/user")
    }
}

/// The identity of a request, by which a repetition of it is recognized.
struct RequestMark: Codable, Hashable, Sendable {
    /// The digest of the installation, the method, the path and the body.
    var digest: String
    /// A digest of the request id; `nil` without one.
    var id: String?
    /// The time of the request or of its last repetition, in milliseconds since 1970 UTC.
    var at: Int64
    /// The time of the request, if it was repeated; `nil` if it was not, or if an earlier version wrote the mark.
    var first: Int64?

    /// The time for which an equal request is a repetition, in milliseconds. The SDK of iOS repeats a request up to 62
    /// seconds after it began: it waits 60 seconds for the answer, and up to two seconds more. The remaining 3 s allow
    /// for the network.
    static let window: Int64 = 65_000
    /// The time for which an equal request with the same id of its own is a repetition, in milliseconds: five attempts.
    /// Without an id, a series of repetitions ends after this time too, so that a regular request counts again.
    static let windowWithID: Int64 = 5 * window
    /// The number of requests that are kept: more than a batch has.
    static let capacity = 64

    /// Returns `true` if an equal request at the time of `mark` may be a repetition of this one.
    func isRepeated(by mark: RequestMark, within window: Int64) -> Bool {
        mark.at - at <= window && mark.at - (first ?? at) <= Self.windowWithID
    }

    /// Adds a repetition at `time`.
    mutating func addRepetition(at time: Int64) { (first, at) = (first ?? at, time) }
}

extension [RequestMark] {
    /// The position of the latest request that a request with this mark repeats; `nil` if it is new.
    ///
    /// An id that came with another request is ignored, and only the request itself is compared.
    func index(repeatedBy mark: RequestMark) -> Index? {
        let isMeaningful = mark.id != nil && !contains { $0.id == mark.id && $0.digest != mark.digest }
        let window = isMeaningful ? RequestMark.windowWithID : RequestMark.window
        return indices.last { index in
            let known = self[index]
            return known.digest == mark.digest && (!isMeaningful || known.id == mark.id)
                && known.isRepeated(by: mark, within: window)
        }
    }

    /// Remembers a request, or the time of its repetition, and forgets those that are too old to be repeated.
    mutating func remember(_ mark: RequestMark) {
        var newest = mark
        if let index = index(repeatedBy: mark) {
            newest = remove(at: index)
            newest.addRepetition(at: mark.at)
        }
        removeAll { mark.at - $0.at > RequestMark.windowWithID }
        self = suffix(RequestMark.capacity - 1) + [newest]
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
        /// The id of that request, as in its mark.
        var request: String?
        /// The time of the last repetition of that request; `nil` if there was none.
        var repeatedAt: Int64?
        /// A JSON object.
        var fields: String

        /// The mark of the request that created it.
        var mark: RequestMark {
            RequestMark(digest: digest, id: request, at: repeatedAt ?? createdAt, first: createdAt)
        }
    }

    var items: [Item] = []
    /// The relative changes that were applied last; `nil` if there were none.
    var applied: [RequestMark]?

    /// The largest size of all objects of a class and an account, in bytes.
    static let byteLimit = 256 << 10

    /// The size of the objects, with an allowance for what is kept beside the fields.
    var byteCount: Int { items.reduce(0) { $0 + $1.fields.utf8.count + 192 } }

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
    /// The installation that began the session; `nil` if it is not known.
    var installation: String?
    /// The request that began the session, `login` or `signup`; `nil` if it is not known.
    var action: String?
    /// The anonymous id with which the session began, in hexadecimal. It can be read with the session's token only.
    var sealedID: String?

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
