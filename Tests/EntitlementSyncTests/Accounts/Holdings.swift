import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import Testing

/// What lies in a store for whom, read from its keys and bytes and not by the code under test.
struct Holdings {
    /// The ids of purchases, refunds and spends in all ledgers of an account's life, `anonymous` for nobody's.
    private(set) var ids: [String: Set<String>] = [:]
    /// The ids in ledgers that are synced.
    private(set) var syncedIDs: [String: Set<String>] = [:]
    /// The lives whose ledger is the marker of an erased account.
    private(set) var erased: Set<String> = []
    /// Who claims the ledger of nobody.
    private(set) var claim: String?

    init(of backend: any KeyValueBackend) async throws {
        for item in try await backend.list(prefix: "", after: nil, limit: 1_000).outcome.items {
            let key = item.key
            var parts = key.text.split(separator: "/").map(String.init)
            let isDevice = parts.first == "device"
            if isDevice { parts.removeFirst() }
            guard parts.contains("ledger") || parts.last == "remote" else { continue }
            let owner = parts[0] == "anonymous" ? "anonymous" : "\(parts[1])/\(parts[2])"
            guard case .found(let entry) = try await backend.read(key).outcome else { continue }
            let ledger = try LedgerDocument(decoding: entry.value).ledger
            let idsHere = Self.ids(in: ledger)
            ids[owner, default: []].formUnion(idsHere)
            if !isDevice {
                syncedIDs[owner, default: []].formUnion(idsHere)
                if ledger.isErased { erased.insert(owner) }
            }
            if owner == "anonymous", !isDevice {
                for record in ledger.records {
                    if case .claim(let found) = Fact(record) { claim = "\(found.account)/\(found.incarnation)" }
                }
            }
        }
    }

    subscript(owner: String) -> Set<String> { ids[owner] ?? [] }
    subscript(account: Account) -> Set<String> { self[Self.name(account)] }

    /// Who holds `id`.
    func owners(of id: String) -> [String] { ids.filter { $0.value.contains(id) }.keys.sorted() }

    static func name(_ account: Account) -> String {
        account.name.map { "\($0)/\(account.incarnation)" } ?? "anonymous"
    }

    private static func ids(in ledger: Ledger) -> [String] {
        ledger.records.compactMap { record in
            switch Fact(record) {
            case .purchase(let purchase): purchase.transaction.id.rawValue
            case .revocation(let revocation): revocation.transaction.id.rawValue
            case .spend(let spend): spend.id.rawValue
            default: nil
            }
        }
    }
}

/// The id under which a device writes.
func replica(of local: any KeyValueBackend) async throws -> [UInt8]? {
    guard case .found(let entry) = try await local.read(EntryKey("device/replica")).outcome else { return nil }
    return entry.value
}

/// Whether `text` stands anywhere in what a store holds.
func holds(_ text: String, in backend: any KeyValueBackend) async throws -> Bool {
    let needle = Array(text.utf8)
    for entry in try await contents(of: backend).values where entry.value.count >= needle.count {
        let starts = entry.value.indices.dropLast(needle.count - 1)
        if starts.contains(where: { entry.value[$0...].starts(with: needle) }) { return true }
    }
    return false
}

/// A store in which a process dies at its call number `death`: that call is done or not, and nobody hears; all later
/// ones fail.
func mortal(_ backend: any KeyValueBackend, diesAt death: Int, isDone: Bool) -> FaultyBackend {
    FaultyBackend(backend) { call in
        if call.number < death { return nil }
        return call.number == death && isDone ? .lostAnswer : .permanent(.unavailable)
    }
}
