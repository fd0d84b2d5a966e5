import EntitlementSync
import Entitlements
import SyncCore
import TestSupport
import Testing

/// A test fixture: the devices of one account and their remote, all on one machine with one clock.
struct Household {
    let machine: TestHost
    let remote = MemoryBackend()
    let alice: Account
    var catalog: Catalog

    init(at start: String = "2026-01-10T12:00:00Z", catalog: Catalog? = nil, pauses: TestHost.Pauses = .endAtOnce)
        throws
    {
        machine = try TestHost(at: start, pauses: pauses)
        alice = try Account("alice")
        self.catalog = try catalog ?? Owls.catalog()
    }

    /// A store of `account`; of the account that is logged in if `account` is `nil`.
    func store(
        _ local: any KeyValueBackend = MemoryBackend(), remote: (any KeyValueBackend)? = nil,
        server: (any EntitlementServer)? = nil, account: Account? = nil, environment: EnvironmentID = .production,
        clock: ClockSource = .trusted, trust: TrustSource = .ledger
    ) async throws -> EntitlementStore {
        try await EntitlementStore(
            catalog: catalog, local: local, remote: remote, server: server, account: account, environment: environment,
            clock: clock, trust: trust, host: machine.host)
    }

    /// A store of Alice's account that syncs with the remote.
    func device(_ local: any KeyValueBackend = MemoryBackend(), remote: (any KeyValueBackend)? = nil)
        async throws -> EntitlementStore
    {
        try await store(local, remote: remote ?? self.remote, account: alice)
    }

    /// A store of Alice's account without a remote.
    func offlineDevice(_ local: any KeyValueBackend = MemoryBackend()) async throws -> EntitlementStore {
        try await store(local, account: alice)
    }

    /// A store of the anonymous account.
    func anonymousDevice(_ local: any KeyValueBackend = MemoryBackend(), remote: (any KeyValueBackend)? = nil)
        async throws -> EntitlementStore
    {
        try await store(local, remote: remote, account: .anonymous)
    }
}

/// The kind of the `EntitlementError` that `body` throws; `nil` if it throws none.
func kind(_ body: () async throws -> some Any) async -> EntitlementError.Kind? {
    do { _ = try await body() } catch { return (error as? EntitlementError)?.kind }
    return nil
}

func date(_ text: String) throws -> Timestamp {
    try Timestamp(text.contains("T") ? text : text + "T00:00:00Z")
}

/// All entries of a backend, up to 1,000, with their versions.
func contents(of backend: any KeyValueBackend) async throws -> [EntryKey: Entry] {
    var contents: [EntryKey: Entry] = [:]
    for item in try await backend.list(prefix: "", after: nil, limit: 1_000).outcome.items {
        if case .found(let entry) = try await backend.read(item.key).outcome { contents[item.key] = entry }
    }
    return contents
}

extension EntitlementStore {
    /// The current expiry of `group`.
    func end(of group: GroupID = Owls.random) async throws -> Timestamp? {
        try await snapshot()[group: group]?.expires
    }
}

/// Runs `body` while `store` runs, then cancels the run.
func whileRunning<Value: Sendable>(
    _ store: EntitlementStore, pollingEvery interval: Duration = .seconds(60),
    noticeBeforeExpiry notice: Duration = .seconds(3 * 86_400), _ body: () async throws -> Value
) async throws -> Value {
    try await whileRunning({ await store.run(pollingEvery: interval, noticeBeforeExpiry: notice) }, body)
}

/// Runs `body` while `run` runs, then cancels `run`.
func whileRunning<Value: Sendable>(
    _ run: @escaping @Sendable () async -> Void, _ body: () async throws -> Value
) async throws -> Value {
    try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { await run() }
        let value = try await body()
        group.cancelAll()
        return value
    }
}

extension AsyncStream where Element: Sendable {
    /// The next `count` elements, or fewer if the stream ends.
    func take(_ count: Int) async -> [Element] {
        var elements: [Element] = []
        for await element in self {
            elements.append(element)
            if elements.count == count { break }
        }
        return elements
    }
}

extension AsyncStream<EntitlementEvent> {
    /// The descriptions of the events up to the one described as `last`, except for changes of access.
    func lines(upTo last: String) async -> [String] {
        var lines: [String] = []
        for await event in self {
            if case .accessChanged = event { continue }
            lines.append(line(event))
            if lines.last == last { break }
        }
        return lines
    }
}

extension AsyncStream<Snapshot> {
    /// Waits for a snapshot that owns exactly `products`; `false` if the stream ends first.
    func owns(_ products: [ProductID]) async -> Bool {
        for await snapshot in self where snapshot.owned == products { return true }
        return false
    }
}

/// A one-line description of `event`.
func line(_ event: EntitlementEvent) -> String {
    func ids(_ transactions: [TransactionReference]) -> String {
        transactions.map(\.id.rawValue).joined(separator: " ")
    }
    func name(_ access: Access) -> String {
        switch access {
        case .granted(let grant): "granted by \(grant.source)"
        case .denied(let denial): denial.name
        }
    }
    switch event {
    case .purchased(let transactions): return "purchased \(ids(transactions))"
    case .restored(let transactions): return "restored \(ids(transactions))"
    case .revoked(let transactions): return "revoked \(ids(transactions))"
    case .accessChanged(let changes):
        return changes.map { "\($0.entitlement): \(name($0.before)) > \(name($0.after))" }.joined(separator: ", ")
    case .reinstated(let transactions): return "reinstated \(ids(transactions))"
    case .conflicts(let conflicts): return "\(conflicts.count) conflicts"
    case .accountChanged(let old, let new): return "account \(old) > \(new)"
    case .accountErased(let account): return "erased \(account)"
    case .expiring(let group, let end): return "expiring \(group) \(end)"
    case .failed(let error): return "failed \(error.kind)"
    }
}
