import EntitlementSync
import SyncCore

/// The keys that a caller can reach. Requests for other keys are refused in the same way, whether the keys exist or
/// not.
///
/// All requests of a caller share one scope object.
package final class KeyScope: Sendable {
    /// The prefix of the keys that the caller may write, list and follow.
    let prefix: String
    /// The prefix of the keys that are excluded from those under ``prefix``.
    let exclusion: String?
    /// Further keys that the caller may read.
    let readable: Set<EntryKey>
    /// The keys under ``prefix`` that the caller may only read.
    let readOnly: Set<EntryKey>
    /// True if the account was erased. Then only ``readable`` and ``ledger``, which has the marker of the erasure, can
    /// be read, and nothing can be written.
    let isErased: Bool
    /// The account's ledger, which has its own limit.
    let ledger: EntryKey?

    /// The prefix of the server's own keys: accounts, sessions and signing keys.
    package static let serverPrefix = "server/"

    /// The scope of the operator: every key except the server's own.
    package static let everything = KeyScope(
        prefix: "", exclusion: serverPrefix, readable: [], readOnly: [], isErased: false, ledger: nil)

    /// The keys of `account`, its entry in the directory, and the markers of its erased incarnations.
    ///
    /// - Parameter erased: The erased incarnations of the account. If `account` is one of them, only its own marker and
    ///   the directory entry can be reached, as ``ErasedAccountView`` shows it. The marker is also listed and followed,
    ///   because the streams of the account's devices end when the erasure begins, before the marker is written.
    static func account(
        _ account: Account, _ keys: LedgerKeys, erased: [String]
    ) throws(BackendError) -> KeyScope {
        guard let name = account.name else {
            throw BackendError(.permissionDenied, message: "an anonymous account has no keys on a server")
        }
        var readable: Set = [try LedgerKeys.directoryEntry(of: name)]
        let isErased = erased.contains { $0.utf8.elementsEqual(account.incarnation.utf8) }
        for incarnation in erased where !isErased {
            guard let account = try? Account(name, incarnation: incarnation) else { continue }
            readable.insert(try LedgerKeys(account).ledger)
        }
        return KeyScope(
            prefix: keys.prefix, exclusion: nil, readable: readable, readOnly: [keys.serverLedger], isErased: isErased,
            ledger: keys.ledger)
    }

    private init(
        prefix: String, exclusion: String?, readable: Set<EntryKey>, readOnly: Set<EntryKey>, isErased: Bool,
        ledger: EntryKey?
    ) {
        (self.prefix, self.exclusion, self.readable) = (prefix, exclusion, readable)
        (self.readOnly, self.isErased, self.ledger) = (readOnly, isErased, ledger)
    }

    /// Returns `true` if the caller may read `key`.
    func mayRead(_ key: EntryKey) -> Bool { contains(key) || readable.contains(key) }

    /// Returns `true` if the caller may write or delete `key`.
    func mayWrite(_ key: EntryKey) -> Bool { !isErased && contains(key) && !readOnly.contains(key) }

    /// Returns `true` if `key` is listed and followed.
    func contains(_ key: EntryKey) -> Bool {
        if isErased { return key == ledger }
        guard key.hasPrefix(prefix) else { return false }
        guard let exclusion else { return true }
        return !key.hasPrefix(exclusion)
    }

    /// The ``prefix`` of the account whose quota counts `key`; `nil` for keys that no quota counts.
    static func countedPrefix(of key: EntryKey) -> String? {
        guard key.hasPrefix(LedgerKeys.accountPrefix) else { return nil }
        let parts = key.text.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 4, parts[3] != "ledger", parts[3] != "decisions" else { return nil }
        return parts[..<3].joined(separator: "/") + "/"
    }

    /// Returns `true` if the value of `key` counts towards the account's quota.
    func isCounted(_ key: EntryKey) -> Bool { key != ledger && mayWrite(key) }

    /// The prefix to list in order to find all reachable keys that begin with `asked`; `nil` if none can be reached.
    func listing(of asked: String) -> String? {
        if asked.utf8.starts(with: prefix.utf8) { return asked }
        return prefix.utf8.starts(with: asked.utf8) ? prefix : nil
    }
}
