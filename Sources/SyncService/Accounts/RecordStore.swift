import EntitlementSync
package import SyncCore

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The server's own records as JSON, read and written by compare-and-swap.
package struct RecordStore: Sendable {
    package let backend: any KeyValueBackend

    /// The records in `backend`.
    package init(backend: any KeyValueBackend) { self.backend = backend }

    /// A record and its version.
    package struct Versioned<Value: Sendable>: Sendable {
        package var value: Value
        package var version: EntryVersion
    }

    /// Checks that the store is that of a server, and not of a device.
    ///
    /// - Throws: ``SupportError`` of kind `notAServer`, or the store's error.
    func checkServer() async throws {
        let page = try await backend.list(prefix: KeyScope.serverPrefix, after: nil, limit: 1).outcome
        guard !page.items.isEmpty else {
            throw SupportError(.notAServer, "this store is not that of a server: it has no keys of a server")
        }
    }

    /// The record under `key`; `nil` if there is none.
    package func read<Value: Codable & Sendable>(
        _ key: EntryKey, as type: Value.Type = Value.self
    ) async throws(BackendError) -> Versioned<Value>? {
        guard case .found(let entry) = try await backend.read(key).outcome else { return nil }
        return Versioned(value: try decode(entry, key), version: entry.version)
    }

    func decode<Value: Codable>(_ entry: Entry, _ key: EntryKey) throws(BackendError) -> Value {
        do { return try JSONDecoder().decode(Value.self, from: Data(entry.value)) } catch {
            throw BackendError(
                .damaged, operation: .read, key: key, message: "the server's record cannot be read", cause: error)
        }
    }

    /// Writes `value`, or deletes the record if it is `nil`, provided that the key still holds `version`.
    ///
    /// - Returns: `false` if the key holds another version. An unknown outcome is resolved by reading the record.
    func replace<Value: Codable & Sendable & Equatable>(
        _ key: EntryKey, with value: Value?, if version: EntryVersion?
    ) async throws(BackendError) -> Bool {
        let precondition = version.map(Precondition.matches) ?? .absent
        do throws(BackendError) {
            guard let value else {
                if case .conflict = try await backend.delete(key, if: precondition).outcome { return false }
                return true
            }
            if case .written = try await backend.write(try bytes(of: value), to: key, if: precondition).outcome {
                return true
            }
            return false
        } catch {
            guard error.disposition == .outcomeUnknown else { throw error }
            let now = try await read(key, as: Value.self)
            if now?.version == version { throw error }
            return now?.value == value
        }
    }

    /// Changes the record under `key` by compare-and-swap. Retries when other writers interfere.
    ///
    /// - Parameter change: Computes the new record from the current one; `nil` leaves it unchanged.
    /// - Returns: The new record; `nil` if `change` returned `nil`.
    package func update<Value: Codable & Sendable & Equatable>(
        _ key: EntryKey, _ change: (Value?) async throws(BackendError) -> Value?
    ) async throws(BackendError) -> Value? {
        var isChanged = false
        let stored = try await backend.update(key) { (entry) async throws(BackendError) in
            let held: Value? = try entry.map { (entry) throws(BackendError) in try decode(entry, key) }
            let value = try await change(held)
            isChanged = value != nil
            // Compared as bytes, because two spellings of a name may be equal as text.
            let new = try value.map { (new) throws(BackendError) in try bytes(of: new) }
            return new == entry?.value ? nil : new
        }
        // After an unknown outcome an earlier value of this call may be stored.
        guard isChanged, let stored else { return nil }
        return try decode(stored, key)
    }

    /// Deletes the record under `key` if `condition` holds for it.
    package func remove<Value: Codable & Sendable>(
        _ key: EntryKey, as type: Value.Type = Value.self, if condition: (Value) -> Bool
    ) async throws(BackendError) {
        try await backend.remove(key) { (entry) throws(BackendError) in condition(try decode(entry, key)) }
    }

    func bytes(of value: some Encodable) throws(BackendError) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do { return Array(try encoder.encode(value)) } catch {
            throw BackendError(.other, operation: .write, message: "a record cannot be written as JSON", cause: error)
        }
    }

    /// The records under `prefix`, page by page. A page is read at once.
    ///
    /// - Parameters:
    ///   - cursor: The key after which to begin.
    ///   - isIncluded: Returns `false` for the keys of other records, which are not read.
    ///   - onError: Receives the error of a record that cannot be decoded. The record is left out unless it throws.
    package func forEach<Value: Codable & Sendable>(
        under prefix: String, as type: Value.Type = Value.self, after cursor: EntryKey? = nil,
        where isIncluded: (EntryKey) -> Bool = { _ in true },
        onError: (BackendError) throws(BackendError) -> Void = { (error) throws(BackendError) in throw error },
        _ body: (EntryKey, Versioned<Value>) async throws(BackendError) -> Void
    ) async throws(BackendError) {
        try await backend.forEachPage(under: prefix, after: cursor, limit: 500) { (page) async throws(BackendError) in
            let items = page.items.filter { isIncluded($0.key) }
            guard !items.isEmpty else { return }
            let answers = try await backend.read(items.map { ReadRequest($0.key) }).outcome
            for (item, answer) in zip(items, answers) {
                guard case .found(let entry) = try answer.get() else { continue }
                let value: Value
                do throws(BackendError) { value = try decode(entry, item.key) } catch {
                    try onError(error)
                    continue
                }
                try await body(item.key, Versioned(value: value, version: entry.version))
            }
        }
    }

    /// The record of the account called `name`; `nil` if there is none.
    func account(_ name: String) async throws(BackendError) -> Versioned<AccountRecord>? {
        try await read(try AccountRecord.key(of: name))
    }

    /// Returns `true` if this incarnation of the account exists and is not being erased.
    func isActive(_ account: Account) async throws(BackendError) -> Bool {
        guard let name = account.name else { return false }
        return try await self.account(name)?.value.activeAccount == account
    }

    /// The credential epoch of this incarnation of the account; `nil` if it does not exist or is being erased.
    func epoch(of account: Account) async throws(BackendError) -> Int64? {
        guard let name = account.name, let record = try await self.account(name)?.value,
            record.activeAccount == account
        else { return nil }
        return record.epoch
    }

    /// Changes the record of the account called `name`, see ``update(_:_:)``.
    func updateAccount(
        _ name: String, _ change: (AccountRecord?) async throws(BackendError) -> AccountRecord?
    ) async throws(BackendError) -> AccountRecord? {
        try await update(try AccountRecord.key(of: name), change)
    }
}

extension ReadOutcome {
    /// The entry, if the outcome carries one.
    var entry: Entry? { if case .found(let entry) = self { entry } else { nil } }
}

extension KeyValueBackend {
    /// Reads two keys in one call.
    func read(
        _ first: ReadRequest, _ second: ReadRequest
    ) async throws(BackendError) -> (ReadOutcome, ReadOutcome) {
        let results = try await read([first, second]).outcome
        guard results.count == 2 else { throw LedgerRules.incomplete }
        return (try results[0].get(), try results[1].get())
    }

    /// Deletes all keys under `prefix` but `kept`.
    func removeAll(under prefix: String, except kept: EntryKey? = nil) async throws(BackendError) {
        try await forEachPage(under: prefix, limit: 1_000) { (page) async throws(BackendError) in
            for item in page.items where item.key != kept {
                try await remove(item.key) { (_) throws(BackendError) in true }
            }
        }
    }

    /// Lists the keys under `prefix`, page by page.
    ///
    /// - Parameters:
    ///   - cursor: The key after which to begin.
    ///   - limit: The number of keys of a page.
    func forEachPage(
        under prefix: String, after cursor: EntryKey? = nil, limit: Int,
        _ body: (KeyPage) async throws(BackendError) -> Void
    ) async throws(BackendError) {
        var after = cursor
        repeat {
            let page = try await list(prefix: prefix, after: after, limit: limit).outcome
            try await body(page)
            after = page.next
        } while after != nil
    }
}
