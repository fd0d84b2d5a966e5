import EntitlementSync
import SyncCore

/// Which keys a caller reaches. What is outside of it is refused alike, whether it is there or not.
///
/// One object for all requests of a caller.
public final class KeyScope: Sendable {
    /// What every key begins with that may be written, listed and followed.
    let prefix: String
    /// What no key may begin with all the same.
    let exclusion: String?
    /// What may be read besides.
    let readable: Set<EntryKey>
    /// What may only be read, although it begins with the prefix.
    let readOnly: Set<EntryKey>
    /// Whether there is anything but ``readable``.
    let isEmpty: Bool
    /// The account's ledger, which is bounded by itself.
    let ledger: EntryKey?

    /// What the server keeps to itself: accounts, sessions and keys.
    static let serverPrefix = "server/"

    /// Every key but the server's own: the operator's.
    public static let everything = KeyScope(
        prefix: "", exclusion: serverPrefix, readable: [], readOnly: [], isEmpty: false, ledger: nil)

    /// The keys of `account`, of its entry in the directory and of the marker that stands for each erased life.
    ///
    /// - Parameter erased: lives of the account that were erased; when `account` is one of them, its own marker is all
    ///   that is reached, and the entry, as ``ErasedAccountView`` shows it.
    static func account(
        _ account: Account, _ keys: LedgerKeys, erased: [String]
    ) throws(BackendError) -> KeyScope {
        guard let name = account.name else {
            throw BackendError(.permissionDenied, message: "nobody's ledger is on no server")
        }
        var readable: Set = [try LedgerKeys.directoryEntry(of: name)]
        let isErased = erased.contains { $0.utf8.elementsEqual(account.incarnation.utf8) }
        if isErased { readable.insert(keys.ledger) }
        for incarnation in erased where !isErased {
            guard let life = try? Account(name, incarnation: incarnation) else { continue }
            readable.insert(try LedgerKeys(life).ledger)
        }
        return KeyScope(
            prefix: keys.prefix, exclusion: nil, readable: readable, readOnly: [keys.decisions], isEmpty: isErased,
            ledger: keys.ledger)
    }

    private init(
        prefix: String, exclusion: String?, readable: Set<EntryKey>, readOnly: Set<EntryKey>, isEmpty: Bool,
        ledger: EntryKey?
    ) {
        (self.prefix, self.exclusion, self.readable) = (prefix, exclusion, readable)
        (self.readOnly, self.isEmpty, self.ledger) = (readOnly, isEmpty, ledger)
    }

    /// Whether `key` may be read.
    func mayRead(_ key: EntryKey) -> Bool { contains(key) || readable.contains(key) }

    /// Whether `key` may be written or deleted.
    func mayWrite(_ key: EntryKey) -> Bool { contains(key) && !readOnly.contains(key) }

    /// Whether `key` is listed and followed.
    func contains(_ key: EntryKey) -> Bool {
        guard !isEmpty, key.hasPrefix(prefix) else { return false }
        guard let exclusion else { return true }
        return !key.hasPrefix(exclusion)
    }

    /// Whether what `key` holds counts for how much an account has.
    func isCounted(_ key: EntryKey) -> Bool { key != ledger && mayWrite(key) }

    /// What has to be listed of a store to find all keys that begin with `asked`; `nil` where none can be reached.
    func listing(of asked: String) -> String? {
        if isEmpty { return nil }
        if asked.utf8.starts(with: prefix.utf8) { return asked }
        return prefix.utf8.starts(with: asked.utf8) ? prefix : nil
    }
}
