package import EntitlementSync
package import SyncCore

/// The entries of an account elsewhere in the store: further names, sessions of a façade. An erasure deletes them.
///
/// Each entry is a record with the members of ``AccountIdentity``. The account's own list is written first, so that an
/// erasure finds every entry.
package struct AccountEntries: Sendable {
    private let records: RecordStore

    package init(records: RecordStore) { self.records = records }

    private struct List: Codable, Hashable, Sendable { var keys: [String] = [] }

    /// Adds an entry that is about to be written.
    ///
    /// - Parameters:
    ///   - key: The entry's key.
    ///   - prefix: The prefix of the entries of its kind.
    ///   - limit: The number of entries of that kind. The oldest ones are deleted.
    package func add(
        _ key: EntryKey, of account: Account, under prefix: String, atMost limit: Int = 100
    ) async throws(BackendError) {
        var surplus: [String] = []
        _ = try await records.update(try Self.key(of: account)) { (known: List?) in
            var list = known ?? List()
            surplus = []
            guard !list.keys.contains(key.text) else { return nil }
            list.keys.append(key.text)
            let kind = list.keys.filter { $0.hasPrefix(prefix) }
            surplus = Array(kind.prefix(max(0, kind.count - limit)))
            list.keys.removeAll { surplus.contains($0) }
            return list
        }
        for text in surplus { try await remove(text, of: account) }
    }

    /// Adds entries that are about to be written, as many as there is room for. None is deleted.
    ///
    /// - Returns: The entries that are in the list, also those that were before.
    package func add(
        _ keys: [EntryKey], of account: Account, under prefix: String, withRoomFor limit: Int = 100
    ) async throws(BackendError) -> [EntryKey] {
        var added: [EntryKey] = []
        _ = try await records.update(try Self.key(of: account)) { (known: List?) in
            var list = known ?? List()
            let before = list.keys.count
            var room = limit - list.keys.count { $0.hasPrefix(prefix) }
            added = []
            for key in keys {
                if !list.keys.contains(key.text) {
                    guard room > 0 else { continue }
                    room -= 1
                    list.keys.append(key.text)
                }
                added.append(key)
            }
            return list.keys.count == before ? nil : list
        }
        return added
    }

    /// Adds an entry that is about to be written, or moves it to the end.
    func append(_ key: EntryKey, of account: Account) async throws(BackendError) {
        _ = try await records.update(try Self.key(of: account)) { (known: List?) in
            var list = known ?? List()
            list.keys.removeAll { $0.utf8.elementsEqual(key.text.utf8) }
            list.keys.append(key.text)
            return list
        }
    }

    /// The keys of the entries of one kind, in the order in which they were added.
    package func keys(of account: Account, under prefix: String) async throws(BackendError) -> [EntryKey] {
        try await keys(of: [account], under: prefix)[0]
    }

    /// The keys of the entries of one kind for each account. Reads all accounts at once.
    func keys(of accounts: [Account], under prefix: String) async throws(BackendError) -> [[EntryKey]] {
        var requests: [ReadRequest] = []
        for account in accounts { requests.append(ReadRequest(try Self.key(of: account))) }
        guard !requests.isEmpty else { return [] }
        let answers = try await records.backend.read(requests).outcome
        guard answers.count == requests.count else { throw LedgerRules.incomplete }
        var keys: [[EntryKey]] = []
        for (request, answer) in zip(requests, answers) {
            var list = List()
            if case .found(let entry) = try answer.get() { list = try records.decode(entry, request.key) }
            var own: [EntryKey] = []
            for text in list.keys {
                let key = try EntryKey(text)
                if key.hasPrefix(prefix) { own.append(key) }
            }
            keys.append(own)
        }
        return keys
    }

    /// Deletes all entries of `account`, and their list.
    func discard(_ account: Account) async throws(BackendError) {
        try await erase(account)
        try await records.remove(try Self.key(of: account), as: List.self) { _ in true }
    }

    /// Deletes an entry.
    package func remove(_ key: EntryKey, of account: Account) async throws(BackendError) {
        try await remove(key.text, of: account)
        _ = try await records.update(try Self.key(of: account)) { (known: List?) in
            guard var list = known else { return nil }
            // By bytes, because two external ids may be equal as text.
            list.keys.removeAll { $0.utf8.elementsEqual(key.text.utf8) }
            return list
        }
    }

    /// Deletes all entries of `account`, and ends the reservation of its own name.
    func erase(_ account: Account) async throws(BackendError) {
        if let name = account.name { try await remove(try AccountAliases.key(of: name).text, of: account) }
        guard let list = try await records.read(try Self.key(of: account), as: List.self)?.value else { return }
        for text in list.keys { try await remove(text, of: account) }
    }

    private func remove(_ text: String, of account: Account) async throws(BackendError) {
        if text.hasPrefix(AccountAliases.prefix) {
            return try await AccountAliases(records: records).end(try EntryKey(text), of: account)
        }
        try await records.remove(try EntryKey(text), as: AccountIdentity.self) { $0.account == account }
    }

    static func key(of account: Account) throws(BackendError) -> EntryKey {
        try EntryKey(Holdings.prefix(of: account) + "entries")
    }
}
