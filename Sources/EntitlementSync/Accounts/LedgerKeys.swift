package import SyncCore

/// Where things lie in a store. What begins with `device/` never leaves it.
package struct LedgerKeys: Sendable {
    /// The account's ledger: what is synced, under the same key on every side.
    package let ledger: EntryKey
    /// The ledger that this device keeps to itself: units under `ConsumableScope.deviceLocal`, pending purchases.
    let device: EntryKey
    /// What the account's server decided: only the server writes it, every device reads it.
    package let decisions: EntryKey
    /// What the account's keys begin with on every side, empty for nobody's.
    package let prefix: String
    /// This device's copy of what the account's server decided.
    let knownDecisions: EntryKey
    /// What the remote held when it was last met, for rules that ask for it.
    let remote: EntryKey
    /// Which remotes this device has met for this account.
    let knownRemotes: EntryKey
    /// The id under which this store writes facts.
    let replica: EntryKey
    /// What this device knows about time.
    static let clock = "device/clock"
    /// Who is logged in on this device.
    static let session = "device/session"
    /// Whether these are the ledgers of nobody.
    let isAnonymous: Bool

    package init(_ account: Account) throws(BackendError) {
        let base = account.name.map { Self.accountPrefix + Self.escaped($0) + "/" + Self.escaped(account.incarnation) }
        let path = base ?? Self.anonymousPath
        ledger = try EntryKey(path + "/ledger")
        decisions = try EntryKey(path + "/decisions")
        prefix = base.map { $0 + "/" } ?? ""
        device = try EntryKey("device/" + path + "/ledger")
        remote = try EntryKey("device/" + path + "/remote")
        knownDecisions = try EntryKey("device/" + path + "/decisions")
        isAnonymous = account.isAnonymous
        knownRemotes = try EntryKey("device/" + path + "/meetings")
        replica = try EntryKey("device/replica")
    }

    /// What the keys of all accounts begin with.
    package static let accountPrefix = "accounts/"
    static let anonymousPath = "anonymous"

    /// The account whose ledger or device ledger lies under `key`, `nil` for any other key.
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

    /// Where the directory keeps what is known of the account `name`.
    package static func directoryEntry(of name: String) throws(BackendError) -> EntryKey {
        try EntryKey(accountPrefix + escaped(name) + "/account")
    }

    /// A name as one level of a key: a slash would begin another.
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

    private static func unescaped(_ text: String) -> String? {
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
