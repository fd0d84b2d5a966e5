package import SyncCore

/// The keys of an account in a store. Keys that start with `device/` are never synced.
package struct LedgerKeys: Sendable {
    /// The account's ledger, which is synced under the same key on every side.
    package let ledger: EntryKey
    /// The ledger that stays on this device: units under `ConsumableScope.deviceLocal`, and pending purchases.
    let device: EntryKey
    /// The server ledger. Only the account's server writes it; every device reads it.
    package let serverLedger: EntryKey
    /// The prefix of the account's keys on every side; empty for the anonymous account.
    package let prefix: String
    /// This device's copy of the server ledger.
    let knownServerLedger: EntryKey
    /// The remote's ledger at the last sync, for rules that depend on it.
    let remote: EntryKey
    /// The remotes with which this device has synced this account.
    let knownRemotes: EntryKey
    /// The prefix of the grants that the account's server has signed for this device, one for each environment.
    let grants: String
    /// The id of this device in grants. It never changes, unlike the replica id.
    let grantDevice: EntryKey
    /// The replica id under which this store writes facts.
    let replica: EntryKey
    /// The marks of this device's clock.
    static let clock = "device/clock"
    /// The account that is logged in on this device.
    static let session = "device/session"
    /// True for the keys of the anonymous account.
    let isAnonymous: Bool

    package init(_ account: Account) throws(BackendError) {
        let base = account.name.map { Self.accountPrefix + Self.escaped($0) + "/" + Self.escaped(account.incarnation) }
        let path = base ?? Self.anonymousPath
        ledger = try EntryKey(path + "/ledger")
        serverLedger = try EntryKey(path + "/decisions")
        prefix = base.map { $0 + "/" } ?? ""
        device = try EntryKey("device/" + path + "/ledger")
        remote = try EntryKey("device/" + path + "/remote")
        knownServerLedger = try EntryKey("device/" + path + "/decisions")
        isAnonymous = account.isAnonymous
        knownRemotes = try EntryKey("device/" + path + "/meetings")
        grants = "device/" + path + "/grants/"
        grantDevice = try EntryKey("device/id")
        replica = try EntryKey("device/replica")
    }

    /// The prefix of the keys of all accounts.
    package static let accountPrefix = "accounts/"
    static let anonymousPath = "anonymous"

    /// Returns the account whose ledger or device ledger is stored under `key`; `nil` for any other key.
    static func account(of key: EntryKey) -> Account? {
        var parts = key.text.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        if parts.first == "device" { parts.removeFirst() }
        guard parts.last == "ledger" else { return nil }
        if parts.count == 2, parts[0] == anonymousPath { return .anonymous }
        guard parts.count == 4, parts[0] + "/" == accountPrefix,
            let name = unescaped(parts[1]), let incarnation = unescaped(parts[2])
        else { return nil }
        return try? Account(name, incarnation: incarnation)
    }

    /// Returns the account whose ledger or server ledger is stored under `key` on a server; `nil` for any other key.
    package static func account(ofSynced key: EntryKey) -> Account? {
        let parts = key.text.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 4, parts[0] + "/" == accountPrefix,
            let name = unescaped(parts[1]), let incarnation = unescaped(parts[2]),
            let account = try? Account(name, incarnation: incarnation), let keys = try? LedgerKeys(account)
        else { return nil }
        return [keys.ledger, keys.serverLedger].contains(key) ? account : nil
    }

    /// Returns the key of the directory entry of the account `name`.
    package static func directoryEntry(of name: String) throws(BackendError) -> EntryKey {
        try EntryKey(accountPrefix + escaped(name) + "/account")
    }

    /// Escapes a name for use as one level of a key: slashes separate levels.
    package static func escaped(_ name: String) -> String {
        var text = ""
        for scalar in name.unicodeScalars {
            switch scalar {
            case "/": text += "%2F"
            case "%": text += "%25"
            default: text.unicodeScalars.append(scalar)
            }
        }
        return text
    }

    /// Returns the name that ``escaped(_:)`` turned into `text`; `nil` if there is none.
    package static func unescaped(_ text: String) -> String? {
        var name = ""
        var rest = text.unicodeScalars[...]
        while let scalar = rest.popFirst() {
            guard scalar == "%" else {
                name.unicodeScalars.append(scalar)
                continue
            }
            switch String(String.UnicodeScalarView(rest.prefix(2))) {
            case "2F": name += "/"
            case "25": name += "%"
            default: return nil
            }
            rest = rest.dropFirst(2)
        }
        return name
    }
}
