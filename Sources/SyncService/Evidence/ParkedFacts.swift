public import Entitlements
public import SyncCore
import Synchronization

/// Verified facts about lines that have no owner yet: one ledger document per line, `server/parked/STORE/ENV/LINE`.
///
/// A store forgets a notification that was answered, so its facts are kept until the owner appears. Facts about one
/// line are merged, so that replays need no room. The total size is bounded. Each process counts it at the start and
/// then follows its own changes.
public final class ParkedFacts: Sendable {
    /// The facts about one line.
    public struct Item: Hashable, Sendable {
        /// The line.
        public var line: TransactionReference
        /// The facts.
        public var facts: [Fact]
        /// The size of the stored document, in bytes.
        public var byteCount: Int
    }

    private let records: RecordStore
    private let limit: Int
    private let total = Mutex(0)

    private static let prefix = KeyScope.serverPrefix + "parked/"
    private static let waitingPrefix = KeyScope.serverPrefix + "waiting/"

    /// The parked facts in `store`.
    ///
    /// - Parameter limit: The largest total size, in bytes.
    public init(store: any KeyValueBackend, limit: Int) {
        (records, self.limit) = (RecordStore(backend: store), limit)
    }

    /// The total size, in bytes, as this process counts it.
    var byteCount: Int { total.withLock { $0 } }

    /// Counts the total size.
    func load() async throws(BackendError) {
        var count = 0
        var after: EntryKey?
        repeat {
            let page = try await records.backend.list(prefix: Self.prefix, after: after, limit: 1_000).outcome
            for item in page.items {
                if let known = item.byteCount {
                    count += known
                } else if case .found(let entry) = try await records.backend.read(item.key).outcome {
                    count += entry.value.count
                }
            }
            after = page.next
        } while after != nil
        let sum = count
        total.withLock { $0 = sum }
    }

    /// The parked lines after `line`, at most `limit`.
    public func items(
        after line: TransactionReference? = nil, limit: Int = 1_000
    ) async throws(BackendError) -> [Item] {
        let cursor: EntryKey? = if let line { try Self.key(of: line) } else { nil }
        let page = try await records.backend.list(prefix: Self.prefix, after: cursor, limit: limit).outcome
        var items: [Item] = []
        for item in page.items {
            let parts = item.key.text.dropFirst(Self.prefix.count).split(separator: "/").map {
                String($0).replacing("%2F", with: "/").replacing("%25", with: "%")
            }
            guard parts.count == 3, case .found(let entry) = try await records.backend.read(item.key).outcome else {
                continue
            }
            let line = LineName(store: parts[0], environment: parts[1], id: parts[2]).reference
            items.append(
                Item(line: line, facts: try Self.facts(in: entry, item.key), byteCount: entry.value.count))
        }
        return items
    }

    /// Keeps `facts` about `line`. Without facts, only the token is noted.
    ///
    /// - Parameter token: The token of the evidence, if it may belong to an account later.
    /// - Throws: `BackendError.Kind.full` if there is no room. The sender must try again later.
    func park(_ facts: [Fact], of line: TransactionReference, token: String?) async throws(BackendError) {
        if let token = token.flatMap(AccountTokens.normalized) {
            // The key decides the value, so an entry that exists is the same.
            let bytes = try records.bytes(of: LineName(line))
            _ = try await records.backend.write(bytes, to: try Self.waitingKey(token, line), if: .absent)
        }
        guard !facts.isEmpty else { return }
        let key = try Self.key(of: line)
        let new = Ledger(facts.map(\.record))
        for _ in 0..<32 {
            let stored = try await entry(key)
            let known = try stored.map { (entry) throws(BackendError) in try LedgerRules.stored(entry, key) }
            let joined = (known ?? Ledger()).joined(with: new)
            if joined == known { return }
            let bytes = LedgerDocument(ledger: joined).encoded()
            let growth = bytes.count - (stored?.value.count ?? 0)
            guard reserve(growth) else {
                throw BackendError(
                    .full, operation: .write, key: key, disposition: .transient,
                    message: "the room for facts without an owner is full (\(limit) bytes); see syncd notifications",
                    cause: ParkingFull())
            }
            do throws(BackendError) {
                let condition = stored.map { Precondition.matches($0.version) } ?? .absent
                if case .written = try await records.backend.write(bytes, to: key, if: condition).outcome { return }
                release(growth)
            } catch {
                // After an unknown outcome the room stays reserved. The next start counts it again.
                if error.disposition != .outcomeUnknown { release(growth) }
                throw error
            }
        }
        throw BackendError(.busy, operation: .write, key: key, message: "these facts keep changing; try again")
    }

    /// The facts about `line` and their version; `nil` if there are none.
    func facts(of line: TransactionReference) async throws(BackendError) -> (facts: [Fact], version: EntryVersion)? {
        let key = try Self.key(of: line)
        guard let entry = try await entry(key) else { return nil }
        return (try Self.facts(in: entry, key), entry.version)
    }

    /// Removes the facts about `line` if they still have `version`, or in any version if it is `nil`.
    ///
    /// - Returns: `false` if there are other facts now.
    func remove(_ line: TransactionReference, if version: EntryVersion?) async throws(BackendError) -> Bool {
        let key = try Self.key(of: line)
        guard let entry = try await entry(key) else { return true }
        guard version == nil || entry.version == version else { return false }
        guard case .deleted = try await records.backend.delete(key, if: .matches(entry.version)).outcome else {
            return false
        }
        release(entry.value.count)
        return true
    }

    /// The lines that wait for the account with `token`.
    func lines(waitingFor token: String) async throws(BackendError) -> [TransactionReference] {
        guard let token = AccountTokens.normalized(token) else { return [] }
        var lines: [TransactionReference] = []
        try await records.forEach(under: Self.waitingPrefix + token + "/", as: LineName.self) {
            (_, held) in lines.append(held.value.reference)
        }
        return lines
    }

    /// Ends the wait of `line` for `token`.
    func endWaiting(_ line: TransactionReference, for token: String) async throws(BackendError) {
        guard let token = AccountTokens.normalized(token) else { return }
        _ = try await records.backend.delete(try Self.waitingKey(token, line), if: .any)
    }

    private func reserve(_ count: Int) -> Bool {
        total.withLock { total in
            guard count <= 0 || total + count <= limit else { return false }
            total += count
            return true
        }
    }

    private func release(_ count: Int) { total.withLock { $0 = max(0, $0 - count) } }

    private func entry(_ key: EntryKey) async throws(BackendError) -> Entry? {
        guard case .found(let entry) = try await records.backend.read(key).outcome else { return nil }
        return entry
    }

    private static func facts(in entry: Entry, _ key: EntryKey) throws(BackendError) -> [Fact] {
        try LedgerRules.stored(entry, key).records.map { Fact($0) }
    }

    private static func key(of line: TransactionReference) throws(BackendError) -> EntryKey {
        try EntryKey(prefix + line.path)
    }

    private static func waitingKey(_ token: String, _ line: TransactionReference) throws(BackendError) -> EntryKey {
        try EntryKey(waitingPrefix + token + "/" + line.path)
    }
}

/// The cause of the error of facts for which there is no room.
struct ParkingFull: Error {}
