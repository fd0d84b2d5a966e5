import HTTPTypes
import ServiceTestSupport
import SyncCore
import SyncService
import Testing

/// Two servers over one store, each with its own clock and its own line to the store.
struct TwoServers {
    static let start: Int64 = 1_800_000_000_000

    let store = MemoryBackend()
    let clocks = (TestClock(start), TestClock(start))
    let lines: (StoreLine, StoreLine)
    let first: EntitlementService
    let second: EntitlementService

    init(issuer: String? = nil, configure: (inout ServiceConfiguration) -> Void = { _ in }) async throws {
        lines = (StoreLine(store), StoreLine(store))
        first = try await .open(lines.0, clock: clocks.0, issuer: issuer, configure: configure)
        second = try await .open(lines.1, clock: clocks.1, issuer: issuer, configure: configure)
    }

    /// Lets time pass at both servers.
    func pass(seconds: Int64) {
        clocks.0.pass(seconds: seconds)
        clocks.1.pass(seconds: seconds)
    }

    /// All keys of the store that begin with `prefix`.
    func keys(_ prefix: String) async throws -> [String] {
        try await store.list(prefix: prefix, after: nil, limit: 1_000).outcome.items.map(\.key.text)
    }
}

extension EntitlementService {
    /// The status of the answer to a write of `key`.
    func put(_ key: String, token: String?) async -> Int {
        await ask(.put, "/v1/kv/\(key)?if=any", token: token, body: [1]).status
    }
}
