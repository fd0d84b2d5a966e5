import StoreEvidence
package import SyncCore

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The append-only list of what support did in the server's name, and of transfers between accounts.
///
/// The entries `server/audit/000000000001` and so on are JSON. Each contains the SHA-256 digest of the one before, so
/// that ``verify()`` finds an entry that was changed, inserted or removed. An entry is created only if its key is
/// absent, and nothing deletes it. The list alone cannot show that its last entries are missing or changed: keep the
/// digest that ``verify()`` returns elsewhere.
package struct AuditLog: Sendable {
    /// One act.
    package struct Entry: Codable, Hashable, Sendable {
        /// The number of the entry, from 1.
        package internal(set) var number: Int
        /// The date by the server's clock, in RFC 3339.
        package var date: String
        /// The act: `record`, `import`, `transfer`, `grant` and so on.
        package var act: String
        /// The name of the account that the act concerned.
        package var account: String
        /// The line that the act concerned, as `store/environment/id`; empty for none.
        package var line: String
        /// The program or person that acted.
        package var actor: String
        /// Details on one line.
        package var detail: String
        /// The reason of an operator's act; `nil` for entries that have it in ``detail``, or have none.
        package var reason: String?
        /// The part of the customer's state that the act changes, before it and after it, as JSON; `nil` for other
        /// entries.
        package var before: String?
        package var after: String?
        /// The id of an operator's act, which makes its entry unique; `nil` for other entries.
        package var id: String?
        /// The digest of the previous entry, in hexadecimal; 64 zeros in the first entry.
        package internal(set) var previous: String

        /// An act that is not in the list yet.
        package init(
            date: String, act: String, account: String, line: String = "", actor: String, detail: String = ""
        ) {
            (number, previous) = (0, "")
            (self.date, self.act, self.account, self.line) = (date, act, account, line)
            (self.actor, self.detail) = (actor, detail)
        }
    }

    /// The result of a verification.
    package enum Verification: Hashable, Sendable {
        /// All entries are as they were written. `digest` is that of the last one.
        case intact(count: Int, digest: String)
        /// The first entry that is not as it was written.
        case broken(number: Int, reason: String)
    }

    private let records: RecordStore
    /// The prefix of the keys of all entries.
    static let prefix = KeyScope.serverPrefix + "audit/"
    private static let start = String(repeating: "0", count: 64)

    /// The list in `store`.
    package init(store: any KeyValueBackend) { records = RecordStore(backend: store) }

    /// Appends an entry. Several processes may append at the same time.
    ///
    /// - Parameter start: The number after which an equal entry may be in the list already. Nothing is appended then.
    ///   `nil` for an act that was not begun before.
    /// - Returns: The entry with its number.
    @discardableResult
    package func append(_ entry: Entry, unlessAfter start: Int? = nil) async throws(BackendError) -> Entry {
        var last = try await lastNumber()
        var checked = start ?? .max
        for _ in 0..<1_000 {
            while checked < last {
                checked += 1
                let key = try Self.key(of: checked)
                guard let held = try await records.read(key, as: Entry.self)?.value else { continue }
                var known = held
                (known.number, known.previous) = (entry.number, entry.previous)
                if known == entry { return held }
            }
            var entry = entry
            entry.previous = Self.start
            if last > 0 { entry.previous = text(of: try await bytes(of: last)) }
            entry.number = last + 1
            if try await records.replace(try Self.key(of: last + 1), with: entry, if: nil) { return entry }
            last += 1
        }
        throw BackendError(
            .busy, operation: .write, key: try Self.key(of: last + 1),
            message: "other processes keep appending to the audit list; try again")
    }

    /// At most `limit` entries after number `after`.
    package func entries(after: Int = 0, limit: Int = 1_000) async throws(BackendError) -> [Entry] {
        let page = try await page(after: after, limit: limit)
        var entries: [Entry] = []
        for item in page.items {
            if let held = try await records.read(item.key, as: Entry.self) { entries.append(held.value) }
        }
        return entries
    }

    /// Verifies the whole list, one page at a time.
    package func verify() async throws(BackendError) -> Verification {
        var (count, previous) = (0, Self.start)
        while true {
            let page = try await page(after: count, limit: 1_000)
            for item in page.items {
                let number = count + 1
                guard item.key == (try Self.key(of: number)) else {
                    return .broken(number: number, reason: "it is missing; the next entry is \(item.key)")
                }
                let bytes = try await bytes(of: number)
                guard let entry = try? JSONDecoder().decode(Entry.self, from: Data(bytes)) else {
                    return .broken(number: number, reason: "it cannot be read")
                }
                guard entry.number == number else {
                    return .broken(number: number, reason: "it states the number \(entry.number)")
                }
                guard entry.previous == previous else {
                    return .broken(
                        number: max(1, number - 1),
                        reason: number == 1
                            ? "it does not begin the list" : "its digest differs from the one in entry \(number)")
                }
                (count, previous) = (number, text(of: bytes))
            }
            guard page.next != nil else { return .intact(count: count, digest: previous) }
        }
    }

    private func text(of bytes: [UInt8]) -> String { hexadecimalDigest(of: bytes) }

    private func bytes(of number: Int) async throws(BackendError) -> [UInt8] {
        let key = try Self.key(of: number)
        guard case .found(let entry) = try await records.backend.read(key).outcome else {
            throw BackendError(
                .damaged, operation: .read, key: key, message: "entry \(number) of the audit list is missing")
        }
        return entry.value
    }

    private func page(after number: Int, limit: Int) async throws(BackendError) -> KeyPage {
        let cursor: EntryKey? = number > 0 ? try Self.key(of: number) : nil
        return try await records.backend.list(prefix: Self.prefix, after: cursor, limit: limit).outcome
    }

    /// The number of the last entry; 0 for an empty list. Doubles and then halves the step, so that a long list costs
    /// few reads.
    func lastNumber() async throws(BackendError) -> Int {
        var (known, step) = (0, 1)
        while try await !page(after: known + step - 1, limit: 1).items.isEmpty {
            known += step
            step *= 2
        }
        while step > 1 {
            step /= 2
            if try await !page(after: known + step - 1, limit: 1).items.isEmpty { known += step }
        }
        return known
    }

    /// The number of the entry under `key`; `nil` for any other key.
    static func number(of key: EntryKey) -> Int? {
        key.hasPrefix(prefix) ? Int(key.text.dropFirst(prefix.count)) : nil
    }

    static func key(of number: Int) throws(BackendError) -> EntryKey {
        let digits = String(number)
        return try EntryKey(prefix + String(repeating: "0", count: max(0, 12 - digits.count)) + digits)
    }
}
