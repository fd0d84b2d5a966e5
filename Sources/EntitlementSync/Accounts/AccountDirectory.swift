import Entitlements
package import SyncCore

/// The directory entry of an account name: its current incarnation and those that were erased.
struct DirectoryEntry: Hashable, Sendable {
    /// The current incarnation; `nil` after an erasure.
    var incarnation: String?
    /// The erased incarnations, in ascending order.
    var erased: [String] = []

    private static let head = "entitlementsync account 1"

    /// The encoded entry: a header line, a line for the current incarnation, one for each erased incarnation, and an
    /// end line. The end line makes a truncated entry detectable.
    var bytes: [UInt8] {
        let lines =
            [Self.head] + (incarnation.map { ["incarnation \($0)"] } ?? []) + erased.sorted().map { "erased \($0)" }
            + ["end", ""]
        return Array(lines.joined(separator: "\n").utf8)
    }

    init(incarnation: String?, erased: [String] = []) {
        self.incarnation = incarnation
        self.erased = erased
    }

    /// Decodes an entry; `nil` if the bytes are malformed.
    init?(_ bytes: [UInt8]) {
        guard let text = String(validating: bytes, as: UTF8.self) else { return nil }
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        guard lines.count >= 3, lines.first == Self.head, Array(lines.suffix(2)) == ["end", ""] else { return nil }
        for line in lines[1..<(lines.count - 2)] {
            if line.hasPrefix("incarnation "), incarnation == nil {
                incarnation = String(line.dropFirst("incarnation ".count))
            } else if line.hasPrefix("erased ") {
                erased.append(String(line.dropFirst("erased ".count)))
            } else {
                return nil
            }
        }
    }
}

/// The directory of a store's accounts, which holds the current incarnation of each name for all devices.
package struct AccountDirectory: Sendable {
    let backend: any KeyValueBackend

    /// Creates the directory of the store in `backend`.
    package init(backend: any KeyValueBackend) { self.backend = backend }

    /// Returns an encoded entry that records only the erasure of this incarnation of the account.
    package static func entry(ofErased account: Account) -> [UInt8] {
        DirectoryEntry(incarnation: nil, erased: [account.incarnation]).bytes
    }

    /// Returns the entry of `name`; `nil` if there is none.
    func entry(of name: String) async throws(BackendError) -> DirectoryEntry? {
        let key = try LedgerKeys.directoryEntry(of: name)
        guard case .found(let entry) = try await backend.read(key).outcome else { return nil }
        return try Self.decode(entry, key)
    }

    /// Returns `true` if the directory or a ledger shows that this incarnation of the account exists or existed.
    package func isKnown(_ account: Account) async throws(BackendError) -> Bool {
        guard let name = account.name else { return false }
        if let entry = try await entry(of: name) {
            let incarnations = entry.erased + [entry.incarnation].compactMap { $0 }
            if incarnations.contains(where: { $0.utf8.elementsEqual(account.incarnation.utf8) }) { return true }
        }
        return try await isLedgerErased(of: account) != nil
    }

    /// Returns `true` if `account`'s ledger was erased, `false` if it is in use, and `nil` if there is none.
    func isLedgerErased(of account: Account) async throws(BackendError) -> Bool? {
        let key = try LedgerKeys(account).ledger
        guard case .found(let found) = try await backend.read(key).outcome else { return nil }
        do { return try LedgerDocument(decoding: found.value).ledger.isErased } catch {
            throw BackendError(.damaged, operation: .read, key: key, message: "the ledger cannot be read \(error)")
        }
    }

    /// Returns the current incarnation of `name`; `nil` if there is none. An account without a directory entry but with
    /// a ledger has the initial incarnation.
    func current(_ name: String) async throws(BackendError) -> Account? {
        try await current(name, basedOn: try await entry(of: name))
    }

    /// Returns the result of ``current(_:)`` for an entry that was just read.
    func current(_ name: String, basedOn entry: DirectoryEntry?) async throws(BackendError) -> Account? {
        if let entry {
            guard let incarnation = entry.incarnation else { return nil }
            let account = try Self.account(name, incarnation)
            return try await isLedgerErased(of: account) == true ? nil : account
        }
        let initial = try Self.account(name, Account.initialIncarnation)
        return try await isLedgerErased(of: initial) == false ? initial : nil
    }

    /// Creates the account `name` unless it exists. Two devices that do so concurrently create one account. After an
    /// erasure the new account has the given `incarnation`.
    func create(_ name: String, incarnation: String) async throws(BackendError) -> Account {
        let entry = try await update(name) { (known) async throws(BackendError) in
            // The decision and the write's precondition are based on a single read of the entry, so that an account
            // created concurrently is never treated as erased.
            var erased = Set(known?.erased ?? [])
            if let current = known?.incarnation {
                guard try await isLedgerErased(of: Self.account(name, current)) == true else { return nil }
                // An interrupted erasure has not reached the directory yet.
                erased.insert(current)
            }
            let isInitialErased = try await isLedgerErased(of: Self.account(name, Account.initialIncarnation))
            if known == nil, isInitialErased == false {
                return DirectoryEntry(incarnation: Account.initialIncarnation)
            }
            if isInitialErased == true { erased.insert(Account.initialIncarnation) }
            // The first account of a name gets the initial incarnation, which a store opened by name alone assumes.
            let isFirst = known?.incarnation == nil && erased.isEmpty
            return DirectoryEntry(
                incarnation: isFirst ? Account.initialIncarnation : incarnation, erased: erased.sorted())
        }
        return try Self.account(name, entry?.incarnation ?? incarnation)
    }

    /// Records `account` as the current incarnation of its name, on the authority of another store.
    ///
    /// - Parameter isRevivable: False to leave the entry as it is if it names the incarnation as erased. A device
    ///   follows its server, which may have been restored. A server does not revive an incarnation.
    package func adopt(_ account: Account, isRevivable: Bool = true) async throws(BackendError) {
        guard let name = account.name else { return }
        try await update(name) { (known) throws(BackendError) in
            if known?.incarnation == account.incarnation { return nil }
            if !isRevivable, known?.erased.contains(account.incarnation) == true { return nil }
            return DirectoryEntry(incarnation: account.incarnation, erased: known?.erased ?? [])
        }
    }

    /// Removes the entry of an account that has no data. Any other incarnation stays.
    package func forget(_ account: Account) async throws(BackendError) {
        guard let name = account.name else { return }
        let key = try LedgerKeys.directoryEntry(of: name)
        try await backend.remove(key) { (entry) throws(BackendError) in
            try Self.decode(entry, key) == DirectoryEntry(incarnation: account.incarnation)
        }
    }

    /// Records that this incarnation of the account was erased.
    package func erase(_ account: Account) async throws(BackendError) {
        guard let name = account.name else { return }
        try await update(name) { (known) throws(BackendError) in
            var entry = known ?? DirectoryEntry(incarnation: nil)
            if entry.incarnation != account.incarnation, entry.erased.contains(account.incarnation) { return nil }
            if entry.incarnation == account.incarnation { entry.incarnation = nil }
            entry.erased = Set(entry.erased + [account.incarnation]).sorted()
            return entry
        }
    }

    /// Replaces the entry of `name` with the one that `change` returns; `nil` leaves it as it is. Returns the entry
    /// after the call.
    @discardableResult
    private func update(
        _ name: String, _ change: (DirectoryEntry?) async throws(BackendError) -> DirectoryEntry?
    ) async throws(BackendError) -> DirectoryEntry? {
        let key = try LedgerKeys.directoryEntry(of: name)
        let stored = try await backend.update(key) { (entry) async throws(BackendError) in
            let known = try entry.map { (entry) throws(BackendError) in try Self.decode(entry, key) }
            return try await change(known)?.bytes
        }
        return try stored.map { (entry) throws(BackendError) in try Self.decode(entry, key) }
    }

    private static func decode(_ entry: Entry, _ key: EntryKey) throws(BackendError) -> DirectoryEntry {
        guard let decoded = DirectoryEntry(entry.value) else {
            throw BackendError(.damaged, operation: .read, key: key, message: "the account's entry cannot be read")
        }
        return decoded
    }

    static func account(_ name: String, _ incarnation: String) throws(BackendError) -> Account {
        do { return try Account(name, incarnation: incarnation) } catch {
            throw BackendError(.damaged, operation: .read, message: "the account's entry: \(error)")
        }
    }
}
