import EntitlementSync
import SyncCore

/// The record of an account name, stored under `server/accounts/NAME`.
struct AccountRecord: Hashable, Sendable, Codable {
    /// The name, as in a token.
    var name: String
    /// The current incarnation; `nil` after an erasure. During an erasure it is listed in ``erased`` as well.
    var incarnation: String?
    /// The erased incarnations, and those that can never be created because their sign-ups lost the name.
    var erased: [String] = []
    /// The hash of the password; `nil` for an account of another issuer.
    var password: String?
    /// The issuer of its tokens; `nil` for this server.
    var issuer: String?
    /// The digests of unused recovery codes, in hexadecimal.
    var recoveryCodes: [String] = []
    /// The credential epoch. A password change, a recovery and a log-out everywhere increment it. That ends all
    /// sessions of earlier epochs and voids every credential check that is still in progress.
    var epoch: Int64 = 0
    /// The time up to which another issuer's tokens are invalid, in milliseconds since 1970 UTC; `nil` for none.
    var tokensSince: Int64?
    /// The beginning of this incarnation, in milliseconds since 1970 UTC.
    var created: Int64

    /// The current incarnation, also during its erasure; `nil` after it.
    var account: Account? { incarnation.flatMap { try? Account(name, incarnation: $0) } }

    /// The current incarnation, unless it is being erased.
    var activeAccount: Account? { account.flatMap { isErased($0.incarnation) ? nil : $0 } }

    /// True if no account has ever had this name: the record only lists incarnations whose sign-ups lost it.
    var isUnused: Bool { incarnation == nil && issuer == nil && created == 0 && epoch == 0 }

    /// Returns `true` if an incarnation was erased, or is being erased.
    func isErased(_ incarnation: String) -> Bool { erased.contains { $0.utf8.elementsEqual(incarnation.utf8) } }

    static func key(of name: String) throws(BackendError) -> EntryKey {
        try EntryKey(prefix + LedgerKeys.escaped(name))
    }

    /// The escaped name in the key of an account's record; `nil` for other keys.
    static func escapedName(of key: EntryKey) -> String? {
        key.hasPrefix(prefix) ? String(key.text.dropFirst(prefix.count)) : nil
    }

    /// The name of the account whose record is stored under `key`; `nil` for any other key.
    static func name(of key: EntryKey) -> String? { escapedName(of: key).flatMap(LedgerKeys.unescaped) }

    /// The prefix of the keys of all accounts' records.
    static let prefix = KeyScope.serverPrefix + "accounts/"
}

/// A session of one device, stored under `server/sessions/NAME/ID`.
struct SessionRecord: Hashable, Sendable, Codable {
    /// The id: 32 hexadecimal digits.
    var id: String
    /// The name of the account.
    var account: String
    /// The incarnation of the account.
    var incarnation: String
    /// The credential epoch of the account in which the session began. The session is void in any other epoch.
    var epoch: Int64
    /// The digest of the current refresh secret, in hexadecimal.
    var secret: String
    /// The digest of the previous secret, which is still accepted for a while, because the answer with its successor
    /// may have been lost.
    var formerSecret: String?
    /// The number of secrets before the current one.
    var generation: Int64 = 0
    /// The time of the last refresh, in milliseconds since 1970 UTC.
    var rotated: Int64
    /// The server whose clock showed `rotated`: random for each process; `nil` in sessions that older servers wrote.
    var rotatedBy: String?
    /// The time at which the session began, in milliseconds since 1970 UTC.
    var created: Int64
    /// The time at which the session ends unless it is refreshed, in milliseconds since 1970 UTC.
    var expires: Int64

    /// The largest difference between the clocks of two servers that ends no session, in milliseconds.
    static let skew: Int64 = 7_200_000

    /// Returns `true` if the session has ended: it was not refreshed in time, or its dates come from a clock that was
    /// ahead by more than ``skew``.
    ///
    /// - Parameters:
    ///   - now: The time, in milliseconds since 1970 UTC.
    ///   - lifetime: The lifetime of a session without refresh, in milliseconds.
    func isOver(at now: Int64, lifetime: Int64) -> Bool {
        expires <= now || now - rotated >= lifetime || max(rotated, created) - now > Self.skew
    }

    /// Returns `true` if the session belongs to this incarnation of the account.
    func isOf(_ other: Account) -> Bool { (try? Account(account, incarnation: incarnation)) == other }

    /// The prefix of the keys of all sessions.
    static let prefix = KeyScope.serverPrefix + "sessions/"

    static func prefix(of name: String) -> String { prefix + LedgerKeys.escaped(name) + "/" }

    /// The id of the session under `key`; `nil` for any other key.
    static func id(of key: EntryKey) -> String? {
        guard key.hasPrefix(prefix) else { return nil }
        return key.text.split(separator: "/").last.map(String.init)
    }

    /// The name of the account whose session is stored under `key`; `nil` for any other key.
    static func account(of key: EntryKey) -> String? {
        let parts = key.text.split(separator: "/", omittingEmptySubsequences: false)
        return parts.count == 4 && key.hasPrefix(prefix) ? LedgerKeys.unescaped(String(parts[2])) : nil
    }

    static func key(_ id: String, of name: String) throws(BackendError) -> EntryKey {
        try EntryKey(prefix(of: name) + id)
    }
}
