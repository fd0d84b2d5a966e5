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
    func entry(of name: String) async throws(BackendError) -> (entry: DirectoryEntry, version: EntryVersion)? {
        let key = try LedgerKeys.directoryEntry(of: name)
        switch try await backend.read(key).outcome {
        case .found(let found):
            guard let entry = DirectoryEntry(found.value) else {
                throw BackendError(
                    .damaged, operation: .read, key: key, message: "the account's entry cannot be read")
            }
            return (entry, found.version)
        case .absent, .unchanged: return nil
        }
    }

    /// Returns `true` if the directory or a ledger shows that this incarnation of the account exists or existed.
    package func isKnown(_ account: Account) async throws(BackendError) -> Bool {
        guard let name = account.name else { return false }
        if let entry = try await entry(of: name)?.entry {
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
        try await current(name, basedOn: try await entry(of: name)?.entry)
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
        for _ in 0..<LedgerEntries.maximumAttempts {
            // The decision and the write's precondition are based on a single read of the entry, so that an account
            // created concurrently is never treated as erased.
            let known = try await entry(of: name)
            var erased = Set(known?.entry.erased ?? [])
            if let current = known?.entry.incarnation {
                let account = try Self.account(name, current)
                guard try await isLedgerErased(of: account) == true else { return account }
                // An interrupted erasure has not reached the directory yet.
                erased.insert(current)
            }
            let isInitialErased = try await isLedgerErased(of: Self.account(name, Account.initialIncarnation))
            if known == nil, isInitialErased == false {
                try await write(DirectoryEntry(incarnation: Account.initialIncarnation), of: name, if: .absent)
                continue
            }
            if isInitialErased == true { erased.insert(Account.initialIncarnation) }
            // The first account of a name gets the initial incarnation, which a store opened by name alone assumes.
            let isFirst = known?.entry.incarnation == nil && erased.isEmpty
            try await write(
                DirectoryEntry(
                    incarnation: isFirst ? Account.initialIncarnation : incarnation, erased: erased.sorted()),
                of: name,
                if: known.map { .matches($0.version) } ?? .absent)
        }
        throw BackendError(.busy, operation: .write, message: "the account's entry keeps changing; try again")
    }

    /// Records `account` as the current incarnation of its name, on the authority of another store.
    package func adopt(_ account: Account) async throws(BackendError) {
        guard let name = account.name else { return }
        for _ in 0..<LedgerEntries.maximumAttempts {
            let known = try await entry(of: name)
            if known?.entry.incarnation == account.incarnation { return }
            var entry = known?.entry ?? DirectoryEntry(incarnation: nil)
            entry.incarnation = account.incarnation
            try await write(entry, of: name, if: known.map { .matches($0.version) } ?? .absent)
        }
        throw BackendError(.busy, operation: .write, message: "the account's entry keeps changing; try again")
    }

    /// Records that this incarnation of the account was erased.
    package func erase(_ account: Account) async throws(BackendError) {
        guard let name = account.name else { return }
        for _ in 0..<LedgerEntries.maximumAttempts {
            let known = try await entry(of: name)
            var entry = known?.entry ?? DirectoryEntry(incarnation: nil)
            if entry.incarnation != account.incarnation, entry.erased.contains(account.incarnation) { return }
            if entry.incarnation == account.incarnation { entry.incarnation = nil }
            entry.erased = Set(entry.erased + [account.incarnation]).sorted()
            try await write(entry, of: name, if: known.map { .matches($0.version) } ?? .absent)
        }
        throw BackendError(.busy, operation: .write, message: "the account's entry keeps changing; try again")
    }

    /// Writes an entry. The caller reads the entry again afterwards, whatever the outcome.
    private func write(_ entry: DirectoryEntry, of name: String, if precondition: Precondition)
        async throws(BackendError)
    {
        do {
            _ = try await backend.write(entry.bytes, to: try LedgerKeys.directoryEntry(of: name), if: precondition)
        } catch let error where error.disposition == .outcomeUnknown {}
    }

    static func account(_ name: String, _ incarnation: String) throws(BackendError) -> Account {
        do { return try Account(name, incarnation: incarnation) } catch {
            throw BackendError(.damaged, operation: .read, message: "the account's entry: \(error)")
        }
    }
}
