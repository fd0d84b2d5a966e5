package import Entitlements
package import SyncCore
import Synchronization

/// Verified facts about lines that have no owner yet, and revocations of lines whose owner was erased: one ledger
/// document per line, `server/parked/STORE/ENV/LINE`.
///
/// A store forgets a notification that was answered, so its facts are kept until the owner appears. Facts about one
/// line are merged, so that replays need no room. The local section of the document lists the tokens whose accounts may
/// own the line, and `server/waiting/TOKEN/LINE` finds the line by a token.
///
/// The total size of both is bounded. Each process counts it at the start, follows its own changes, and counts again
/// before it refuses facts.
package final class ParkedFacts: Sendable {
    /// The facts about one line.
    package struct Item: Hashable, Sendable {
        /// The line.
        package var line: TransactionReference
        /// The facts.
        package var facts: [Fact]
        /// The size of the stored document, in bytes.
        package var byteCount: Int
    }

    private let records: RecordStore
    private let limit: Int
    private let total = Mutex(0)

    private static let prefix = KeyScope.serverPrefix + "parked/"
    private static let waitingPrefix = KeyScope.serverPrefix + "waiting/"

    /// The parked facts in `store`.
    ///
    /// - Parameter limit: The largest total size, in bytes.
    package init(store: any KeyValueBackend, limit: Int) {
        (records, self.limit) = (RecordStore(backend: store), limit)
    }

    /// The total size, in bytes, as this process counts it.
    var byteCount: Int { total.withLock { $0 } }

    /// Counts the total size.
    func load() async throws(BackendError) {
        var count = 0
        for prefix in [Self.prefix, Self.waitingPrefix] {
            try await records.backend.forEachPage(under: prefix, limit: 1_000) { (page) async throws(BackendError) in
                for item in page.items {
                    if let known = item.byteCount {
                        count += known
                    } else {
                        count += try await entry(item.key)?.value.count ?? 0
                    }
                }
            }
        }
        let sum = count
        total.withLock { $0 = sum }
    }

    /// The parked lines after `line`, at most `limit`.
    package func items(
        after line: TransactionReference? = nil, limit: Int = 1_000
    ) async throws(BackendError) -> [Item] {
        let cursor: EntryKey? = if let line { try Self.key(of: line) } else { nil }
        let page = try await records.backend.list(prefix: Self.prefix, after: cursor, limit: limit).outcome
        var items: [Item] = []
        for item in page.items {
            guard let line = Self.line(of: item.key), let entry = try await entry(item.key) else { continue }
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
        let token = token.flatMap(AccountTokens.normalized)
        guard !facts.isEmpty || token != nil else { return }
        let key = try Self.key(of: line)
        let new = Ledger(facts.map(\.record))
        let waiting = try records.bytes(of: LineName(line))
        for _ in 0..<32 {
            let stored = try await entry(key)
            let known = try stored.map { (entry) throws(BackendError) in try Self.document(in: entry, key) }
            var document = LedgerDocument(
                ledger: (known?.ledger ?? Ledger()).joined(with: new), localSection: known?.localSection ?? [])
            let newToken = token.flatMap { document.tokens.contains($0) ? nil : $0 }
            if let newToken { document.tokens.append(newToken) }
            if document == known { return }
            document.waitingSince = nil
            let bytes = document.encoded()
            let growth = bytes.count - (stored?.value.count ?? 0) + (newToken == nil ? 0 : waiting.count)
            try await makeRoom(growth, key)
            do throws(BackendError) {
                if let newToken {
                    // The key decides the value, so an entry that exists is the same.
                    let key = try Self.waitingKey(newToken, line)
                    _ = try await records.backend.write(waiting, to: key, if: .absent)
                }
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

    /// Removes the facts about `line` if they still have `version`. Afterwards the line waits for no token.
    ///
    /// - Parameter keepsRevocations: True to keep the revocations among them.
    /// - Returns: `false` if there are other facts now.
    func remove(
        _ line: TransactionReference, if version: EntryVersion, keepsRevocations: Bool = false
    ) async throws(BackendError) -> Bool {
        let key = try Self.key(of: line)
        guard let entry = try await entry(key) else { return true }
        guard entry.version == version else { return false }
        // The tokens and revocations of a damaged document are unknown.
        var document = LedgerDocument()
        do throws(BackendError) { document = try Self.document(in: entry, key) } catch {
            guard error.kind == .damaged else { throw error }
        }
        let kept = keepsRevocations ? document.ledger.records.filter { Fact($0).isRevocation } : []
        let (outcome, byteCount): (WriteOutcome, Int)
        if kept.isEmpty {
            (outcome, byteCount) = (try await records.backend.delete(key, if: .matches(version)).outcome, 0)
        } else {
            let bytes = LedgerDocument(ledger: Ledger(kept)).encoded()
            outcome = try await records.backend.write(bytes, to: key, if: .matches(version)).outcome
            byteCount = bytes.count
        }
        if case .conflict = outcome { return false }
        release(entry.value.count - byteCount)
        for token in document.tokens { try await endWaiting(line, for: token) }
        return true
    }

    /// Removes everything about `line`, whose owner was erased, except revocations. They concern each later owner, who
    /// may present a statement from before the refund.
    func removeAllButRevocations(of line: TransactionReference) async throws(BackendError) {
        let key = try Self.key(of: line)
        for _ in 0..<32 {
            guard let entry = try await entry(key) else { return }
            if try await remove(line, if: entry.version, keepsRevocations: true) { return }
        }
        throw BackendError(.busy, operation: .write, key: key, message: "these facts keep changing; try again")
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
        let key = try Self.waitingKey(token, line)
        guard let entry = try await entry(key),
            case .deleted = try await records.backend.delete(key, if: .matches(entry.version)).outcome
        else { return }
        release(entry.value.count)
    }

    /// Removes what has waited for a purchase at Stripe since `oldest` or earlier, as facts about payments of other
    /// apps do. The wait begins with the first call that finds the facts, and again when facts or tokens are added.
    ///
    /// - Parameter onError: Receives the error of damaged facts, which stay.
    func dropExpired(
        since oldest: Int64, now: Int64, onError: (BackendError) -> Void
    ) async throws(BackendError) {
        let prefix = "\(Self.prefix)\(StoreID.stripe)/"
        try await records.backend.forEachPage(under: prefix, limit: 1_000) { (page) async throws(BackendError) in
            for item in page.items {
                guard let line = Self.line(of: item.key), let entry = try await entry(item.key) else { continue }
                var document: LedgerDocument
                do throws(BackendError) { document = try Self.document(in: entry, item.key) } catch {
                    onError(error)
                    continue
                }
                guard !document.ledger.records.contains(where: { Fact($0).purchase != nil }) else { continue }
                if let since = document.waitingSince {
                    if since <= oldest { _ = try await remove(line, if: entry.version) }
                    continue
                }
                document.waitingSince = now
                let bytes = document.encoded()
                let outcome = try await records.backend.write(bytes, to: item.key, if: .matches(entry.version)).outcome
                // Needs no room, so that a full one is freed.
                if case .written = outcome { release(entry.value.count - bytes.count) }
            }
        }
    }

    private func makeRoom(_ count: Int, _ key: EntryKey) async throws(BackendError) {
        if reserve(count) { return }
        // Another process may have removed facts.
        try await load()
        guard reserve(count) else {
            throw BackendError(
                .full, operation: .write, key: key, disposition: .transient,
                message: "the room for facts without an owner is full (\(limit) bytes); see syncd notifications",
                cause: ParkingFull())
        }
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
        try document(in: entry, key).ledger.records.map { Fact($0) }
    }

    private static func document(in entry: Entry, _ key: EntryKey) throws(BackendError) -> LedgerDocument {
        do throws(LedgerFormatError) { return try LedgerDocument(decoding: entry.value) } catch {
            throw BackendError(.damaged, operation: .read, key: key, message: "the parked facts are damaged: \(error)")
        }
    }

    private static func line(of key: EntryKey) -> TransactionReference? {
        let parts = key.text.dropFirst(prefix.count).split(separator: "/").map {
            String($0).replacing("%2F", with: "/").replacing("%25", with: "%")
        }
        guard parts.count == 3 else { return nil }
        return LineName(store: parts[0], environment: parts[1], id: parts[2]).reference
    }

    private static func key(of line: TransactionReference) throws(BackendError) -> EntryKey {
        try EntryKey(prefix + line.path)
    }

    private static func waitingKey(_ token: String, _ line: TransactionReference) throws(BackendError) -> EntryKey {
        try EntryKey(waitingPrefix + token + "/" + line.path)
    }
}

extension LedgerDocument {
    /// The lines of the local section: one for each token, and one for ``waitingSince``.
    private var lines: [String] {
        get { String(decoding: localSection, as: UTF8.self).split(separator: "\n").map(String.init) }
        set { localSection = Array(newValue.joined(separator: "\n").utf8) }
    }

    /// The tokens whose accounts may own the line of parked facts.
    fileprivate var tokens: [String] {
        get { lines.filter { !$0.hasPrefix("@") } }
        set { lines = newValue + lines.filter { $0.hasPrefix("@") } }
    }

    /// The time since which the facts are known to wait for a purchase, in milliseconds since 1970 UTC.
    fileprivate var waitingSince: Int64? {
        get { lines.first { $0.hasPrefix("@") }.flatMap { Int64($0.dropFirst()) } }
        set { lines = tokens + (newValue.map { ["@\($0)"] } ?? []) }
    }
}

extension Fact {
    /// True for a statement about a refund, the reversal of one, or an upgrade.
    ///
    /// The App Store states with each transaction that it is not revoked, which is the same statement as the reversal
    /// of a refund. It does not count here, because otherwise each purchase of an erased account would leave one.
    var isRevocation: Bool {
        guard case .revocation(let revocation) = self else { return false }
        return revocation.revokedAt != nil || revocation.upgradedAt != nil
            || revocation.transaction.store != .appStore
    }
}

/// The cause of the error of facts for which there is no room.
struct ParkingFull: Error {}
