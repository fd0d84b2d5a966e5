import Entitlements
package import SyncCore

/// What a store knows of one account name: which life of the account is the current one, and which were erased.
struct DirectoryEntry: Hashable, Sendable {
    /// The current incarnation; `nil` after an erasure.
    var incarnation: String?
    /// Incarnations that were erased, ascending.
    var erased: [String] = []

    private static let head = "entitlementsync account 1"

    /// The entry as text: a head, a line for the current incarnation, one for each erased one, and an end, so that a
    /// shortened entry is noticed.
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

    /// Reads an entry; `nil` when it is none.
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

/// The accounts of a store: where their current lives are noted, for every device to find.
package struct AccountDirectory: Sendable {
    let backend: any KeyValueBackend

    /// The directory in `backend`.
    package init(backend: any KeyValueBackend) { self.backend = backend }

    /// The entry of a name of which nothing is known but that this life was erased.
    package static func entry(ofErased account: Account) -> [UInt8] {
        DirectoryEntry(incarnation: nil, erased: [account.incarnation]).bytes
    }

    /// What is known of `name`; `nil` when nothing is.
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

    /// Whether anything is known of this life of the account.
    package func isKnown(_ account: Account) async throws(BackendError) -> Bool {
        guard let name = account.name else { return false }
        if let entry = try await entry(of: name)?.entry {
            let lives = entry.erased + [entry.incarnation].compactMap { $0 }
            if lives.contains(where: { $0.utf8.elementsEqual(account.incarnation.utf8) }) { return true }
        }
        return try await isLedgerErased(of: account) != nil
    }

    /// Whether a ledger stands under `account`'s key, and whether it was erased; `nil` when none does.
    func isLedgerErased(of account: Account) async throws(BackendError) -> Bool? {
        let key = try LedgerKeys(account).ledger
        guard case .found(let found) = try await backend.read(key).outcome else { return nil }
        do { return try LedgerDocument(decoding: found.value).ledger.isErased } catch {
            throw BackendError(.damaged, operation: .read, key: key, message: "the ledger cannot be read \(error)")
        }
    }

    /// The current life of `name`; `nil` when there is none. An account that was used before there was a directory has
    /// its initial incarnation.
    func current(_ name: String) async throws(BackendError) -> Account? {
        try await current(name, told: try await entry(of: name)?.entry)
    }

    /// As ``current(_:)``, by an entry that was just read.
    func current(_ name: String, told entry: DirectoryEntry?) async throws(BackendError) -> Account? {
        if let entry {
            guard let incarnation = entry.incarnation else { return nil }
            let account = try Self.account(name, incarnation)
            return try await isLedgerErased(of: account) == true ? nil : account
        }
        let initial = try Self.account(name, Account.initialIncarnation)
        return try await isLedgerErased(of: initial) == false ? initial : nil
    }

    /// Makes the account `name`, unless it is there. Two devices that do so at once make one. After an erasure the new
    /// life is `incarnation`.
    func create(_ name: String, incarnation: String) async throws(BackendError) -> Account {
        for _ in 0..<LedgerEntries.maximumAttempts {
            // One look at the entry decides, and is what the write is conditional on: a life that another device makes
            // in between is none that was erased.
            let known = try await entry(of: name)
            var erased = Set(known?.entry.erased ?? [])
            if let current = known?.entry.incarnation {
                let account = try Self.account(name, current)
                guard try await isLedgerErased(of: account) == true else { return account }
                // Its erasure was interrupted before the directory heard of it.
                erased.insert(current)
            }
            let isInitialErased = try await isLedgerErased(of: Self.account(name, Account.initialIncarnation))
            if known == nil, isInitialErased == false {
                try await write(DirectoryEntry(incarnation: Account.initialIncarnation), of: name, if: .absent)
                continue
            }
            if isInitialErased == true { erased.insert(Account.initialIncarnation) }
            // The first life has the incarnation that a store takes which is opened for the name alone.
            let isFirst = known?.entry.incarnation == nil && erased.isEmpty
            try await write(
                DirectoryEntry(
                    incarnation: isFirst ? Account.initialIncarnation : incarnation, erased: erased.sorted()),
                of: name,
                if: known.map { .matches($0.version) } ?? .absent)
        }
        throw BackendError(.busy, operation: .write, message: "the account's entry keeps changing, try again")
    }

    /// Notes that `account` is the current life of its name, by the word of a store that knows.
    package func adopt(_ account: Account) async throws(BackendError) {
        guard let name = account.name else { return }
        for _ in 0..<LedgerEntries.maximumAttempts {
            let known = try await entry(of: name)
            if known?.entry.incarnation == account.incarnation { return }
            var entry = known?.entry ?? DirectoryEntry(incarnation: nil)
            entry.incarnation = account.incarnation
            try await write(entry, of: name, if: known.map { .matches($0.version) } ?? .absent)
        }
        throw BackendError(.busy, operation: .write, message: "the account's entry keeps changing, try again")
    }

    /// Notes that this life of the account was erased.
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
        throw BackendError(.busy, operation: .write, message: "the account's entry keeps changing, try again")
    }

    /// Tries to write; the caller looks again, whatever came of it.
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
