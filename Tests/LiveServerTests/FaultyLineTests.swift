import CurlTransport
import EntitlementSync
import Entitlements
import Foundation
import HTTPStorage
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("Devices on a faulty connection")
struct FaultyLineTests {
    /// Years before the current date, so that the result does not depend on when the test runs.
    private static let firstDate = Timestamp(milliseconds: 1_700_000_000_000)
    private static let distance: Int64 = 10 * 86_400_000

    private struct Device {
        let client: AccountClient
        let tokens: SessionTokens
        let store: EntitlementStore

        init(_ line: FaultyLine, _ transport: CurlClient, _ catalog: Catalog) async throws {
            let client = try AccountClient(server: line.url, transport: transport, timeout: .seconds(1))
            let tokens = SessionTokens(client, store: MemorySessionStore())
            let remote = try HTTPBackend(server: line.url, transport: transport, timeout: .seconds(1)) {
                (refused) throws(BackendError) in try await tokens.token(refused: refused)
            }
            (self.client, self.tokens) = (client, tokens)
            store = try await EntitlementStore(catalog: catalog, local: MemoryBackend(), remote: remote)
        }
    }

    /// The number of successful and failed attempts.
    private struct Tally {
        var successes = 0
        var failures = 0

        /// Tries `body` once. Every error that a faulty connection causes must be retryable.
        mutating func attempt<Value>(_ name: String, _ body: () async throws -> Value) async -> Value? {
            do {
                let value = try await body()
                successes += 1
                return value
            } catch {
                failures += 1
                #expect(Self.isRetryable(error), "\(name): \(error)")
                return nil
            }
        }

        /// Tries `body` until it succeeds.
        mutating func retry<Value>(_ name: String, _ body: () async throws -> Value) async throws -> Value {
            for _ in 0..<100 {
                if let value = await attempt(name, body) { return value }
            }
            throw CancellationError()
        }

        private static func isRetryable(_ error: any Error) -> Bool {
            switch error {
            case let error as AccountError: error.isTransient
            case let error as BackendError: error.disposition != .permanent
            case let error as EntitlementError:
                error.syncError?.isTransient ?? (error.backendError.map { $0.disposition != .permanent } ?? false)
            default: false
            }
        }
    }

    private func catalog() throws -> Catalog {
        try Catalog(
            json: Array(
                """
                {"products":[{"id":"month","type":"nonRenewing","group":"owls","duration":"P1M"},
                  {"id":"owl","type":"nonConsumable"}],
                 "entitlements":[{"id":"owls","grantedBy":["group:owls"]},{"id":"owl","grantedBy":["product:owl"]}]}
                """.utf8))
    }

    private func purchase(_ number: Int) -> Evidence {
        .reported(
            "month", transaction: TransactionID("t\(number)"),
            date: Timestamp(milliseconds: Self.firstDate.milliseconds + Int64(number) * Self.distance))
    }

    @Test(
        "Devices lose and duplicate nothing, stay logged in, and converge once the connection recovers",
        .timeLimit(.minutes(15)))
    func faults() async throws {
        let folder = try TemporaryFolder()
        let server = try ServerProcess(store: "sqlite:\(folder.path(of: "store.sqlite"))")
        let line = try FaultyLine(to: server.port, seed: printedSeed("FaultyLineTests"))
        let transport = try CurlClient()
        let catalog = try catalog()
        let devices = [
            try await Device(line, transport, catalog), try await Device(line, transport, catalog),
            try await Device(line, transport, catalog),
        ]
        var tally = Tally()
        line.isFaulty = true
        for device in devices {
            // Signing up is idempotent: a later device, or a retry after a lost answer, gets the same account.
            let session = try await tally.retry("sign-up") {
                try await device.client.signUp("alice", password: "correct horse").session
            }
            try await device.tokens.begin(session)
            _ = try await tally.retry("log-in") { try await device.store.logIn("alice", adoptAnonymous: true) }
        }
        let count = 60
        for number in 0..<count {
            let device = devices[number % devices.count]
            try await device.store.record(purchase(number))
            _ = await tally.attempt("sync") { try await device.store.sync() }
            if number % 10 == 0 {
                _ = await tally.attempt("refresh") {
                    let token = try await device.tokens.token()
                    return try await device.tokens.token(refused: token)
                }
            }
        }
        line.isFaulty = false
        // Each connection may have one stale answer in flight. It is detected once, and the connection discarded.
        let (failures, connections) = (tally.failures, line.openConnectionCount)
        for device in devices + devices {
            _ = try await tally.retry("the last answers") { try await device.store.sync() }
        }
        // A busy machine may need more than the timeout for an answer.
        expectFigure(tally.failures - failures <= connections)
        let expected = Set((0..<count).map { TransactionID("t\($0)") })
        for device in devices {
            let purchases = try await device.store.replay().facts.purchases
            #expect(Set(purchases.map(\.transaction.id)) == expected && purchases.count == count)
            #expect(try await device.store.conflicts().isEmpty)
            let subscription = try #require(try await device.store.snapshot().subscriptions.first)
            #expect(subscription.expires == (try await devices[0].store.snapshot().subscriptions.first?.expires))
        }
        let faults = line.counts
        let summary = FaultyLine.Fault.allCases.map { "\($0.rawValue) \(faults[$0] ?? 0)" }.joined(separator: ", ")
        print("\(tally.successes) attempts succeeded, \(tally.failures) failed; faults: \(summary)")
        #expect(tally.failures > 0 && FaultyLine.Fault.allCases.allSatisfy { faults[$0, default: 0] > 0 })
        #expect(server.stop() == 0)
    }

    @Test("A device recovers after the clock of the server was ahead for a time")
    func wrongClock() async throws {
        let folder = try TemporaryFolder()
        let store = "sqlite:\(folder.path(of: "store.sqlite"))"
        var server = try ServerProcess(store: store)
        let options = ["--listen", "127.0.0.1:\(server.port)"]
        let line = try FaultyLine(to: server.port, seed: 0)
        let device = try await Device(line, try CurlClient(), try catalog())
        try await device.tokens.begin(device.client.signUp("alice", password: "correct horse").session)
        try await device.store.logIn("alice")
        let end = try await device.store.preview(buying: "month")
        try await device.store.record(.reported("month", transaction: "t1"))
        try await device.store.sync()
        #expect(try await device.store.access(to: "owls").isGranted)

        server.stop()
        server = try ServerProcess(store: store, options: options + ["--at", "2035-01-01"])
        _ = try? await device.store.sync()
        server.stop()
        server = try ServerProcess(store: store, options: options)
        // Tokens issued under the wrong clock may be rejected; then a new log-in restores the state.
        if (try? await device.store.sync()) == nil {
            var tally = Tally()
            let session = try await tally.retry("log-in") {
                try await device.client.logIn("alice", password: "correct horse")
            }
            try await device.tokens.begin(session)
            try await device.store.sync()
        }
        #expect(try await device.store.access(to: "owls").isGranted)
        let expires = try await device.store.snapshot().subscriptions.first?.expires
        #expect(abs((expires?.milliseconds ?? 0) - end.milliseconds) < 60_000)
        #expect(try await device.store.conflicts().isEmpty)

        // A clock that was set back would shorten new subscriptions, so the server refuses to start.
        server.stop()
        let error = #expect(throws: ServerProcess.Failure.self) {
            try ServerProcess(store: store, options: ["--at", "2024-01-01"])
        }
        #expect(error?.description.contains("clock is") == true, "\(String(describing: error))")
        _ = try ServerProcess(store: store, options: ["--at", "2024-01-01", "--accept-clock"])
    }
}
