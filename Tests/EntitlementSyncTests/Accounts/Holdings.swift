import EntitlementSync
import Entitlements
import SyncCore
import SyncCoreTesting
import Testing

/// The facts that a backend holds for each owner, read from its keys and bytes instead of by the code under test.
struct Holdings {
    /// The ids of purchases, refunds and spends in all ledgers, by owner: `name/incarnation`, or `anonymous`.
    private(set) var ids: [String: Set<String>] = [:]
    /// The owners whose ledger is the marker of an erased account.
    private(set) var erased: Set<String> = []
    /// The owner that claims the anonymous ledger.
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
            ids[owner, default: []].formUnion(Self.ids(in: ledger))
            if !isDevice, ledger.isErased { erased.insert(owner) }
            if owner == "anonymous", !isDevice {
                for record in ledger.records {
                    if case .claim(let found) = Fact(record) { claim = "\(found.account)/\(found.incarnation)" }
                }
            }
        }
    }

    subscript(owner: String) -> Set<String> { ids[owner] ?? [] }
    subscript(account: Account) -> Set<String> { self[Self.name(account)] }

    /// The owners that hold `id`, sorted.
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

/// The replica id of a device.
func replica(of local: any KeyValueBackend) async throws -> [UInt8]? {
    guard case .found(let entry) = try await local.read(EntryKey("device/replica")).outcome else { return nil }
    return entry.value
}

/// `true` if any value of `backend` contains `text`.
func holds(_ text: String, in backend: any KeyValueBackend) async throws -> Bool {
    let needle = Array(text.utf8)
    for entry in try await contents(of: backend).values where entry.value.count >= needle.count {
        let starts = entry.value.indices.dropLast(needle.count - 1)
        if starts.contains(where: { entry.value[$0...].starts(with: needle) }) { return true }
    }
    return false
}

/// A backend on which the process crashes at call number `crash`. That call takes effect only if `isDone` is true, its
/// answer is lost, and all later calls fail.
func crashing(_ backend: any KeyValueBackend, atCall crash: Int, isDone: Bool) -> FaultyBackend {
    FaultyBackend(backend) { call in
        if call.number < crash { return nil }
        return call.number == crash && isDone ? .lostAnswer : .permanent(.unavailable)
    }
}
