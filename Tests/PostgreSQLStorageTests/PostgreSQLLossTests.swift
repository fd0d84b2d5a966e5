#if PostgreSQL
import PostgreSQLStorage
import PostgreSQLTestSupport
import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

@Suite("A PostgreSQL store that loses its connection or its standby", .serialized)
struct PostgreSQLLossTests {
    @Test("reports a write as unknown when the server ends its connection")
    func terminated() async throws {
        let store = try TestStore()
        let backend = try store.open()
        let key = try EntryKey("held")
        _ = try await backend.write([1], to: key, if: .absent)
        let holder = try await store.holdRows()
        defer { holder.wait() }
        async let failure = expectKind(.unavailable) { try await backend.write([2], to: key, if: .any) }
        // The first attempt waits only briefly for the row, the second one longer.
        try await waitUntil("the waiting write") {
            try store.sql(
                """
                SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                WHERE wait_event_type = 'Lock' AND query LIKE '%@.entry%'
                """) != "0"
        }
        #expect(await failure?.disposition == .outcomeUnknown)
        try store.releaseRows()
        #expect(try await backend.write([3], to: key, if: .any).outcome != .conflict(nil))
    }

    @Test("reports a write that waits too long for a row as not done, and others are not held up")
    func busy() async throws {
        let store = try TestStore()
        let backend = try store.open { $0.busyTimeout = .milliseconds(600) }
        let (held, free) = (try EntryKey("held"), try EntryKey("free"))
        _ = try await backend.write([1], to: held, if: .absent)
        let holder = try await store.holdRows()
        defer { holder.wait() }
        let requests = [held, free].map { WriteRequest($0, value: [2], if: .any) }
        let results = try await backend.write(requests).outcome
        let error = await expectKind(.busy) { try results[0].get() }
        #expect(error?.disposition == .transient)
        #expect(throws: Never.self) { try results[1].get() }
        try store.releaseRows()
        guard case .found(let entry) = try await backend.read(held).outcome else {
            Issue.record("the entry is absent")
            return
        }
        #expect(entry.value == [1])
    }

    @Test("answers other writes while one waits for its row")
    func neighbours() async throws {
        let store = try TestStore()
        let backend = try store.open { $0.busyTimeout = Patience.limit }
        let held = try EntryKey("held")
        _ = try await backend.write([1], to: held, if: .absent)
        let holder = try await store.holdRows()
        defer { holder.wait() }
        async let late = backend.write([2], to: held, if: .any)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<50 {
                group.addTask { _ = try await backend.write([3], to: EntryKey("free\(number)"), if: .absent) }
            }
            try await group.waitForAll()
        }
        try await waitUntil("the write that waits") {
            try store.sql(
                """
                SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%@.entry%'
                """) != "0"
        }
        try store.releaseRows()
        #expect(try await late.outcome != .conflict(nil))
    }

    @Test("refuses a server that may lose writes")
    func unsafe() async throws {
        for setting in ["fsync", "full_page_writes"] {
            let store = try TestStore(on: PostgreSQLServer(settings: [setting: "off"]))
            let error = await expectKind(.unsupported) { try await store.open().read(EntryKey("k")) }
            #expect(error?.message.contains("\(setting) is off") == true)
            let accepting = try store.open { $0.acceptsUnsafeServer = true }
            #expect(try await accepting.read(EntryKey("k")).outcome == .absent)
        }
    }

    @Test("requires a synchronous standby, survives the loss of the primary, and never acknowledges without one")
    func standby() async throws {
        let primary = try PostgreSQLServer()
        let store = try TestStore(on: primary)
        func requiring(_ url: String, answer: Duration = .seconds(30)) throws -> PostgreSQLBackend {
            var configuration = try PostgreSQLBackend.Configuration(url)
            configuration.requiresReplica = true
            configuration.answerTimeout = answer
            return PostgreSQLBackend(configuration)
        }
        let refused = await expectKind(.unavailable) { try await requiring(store.url).read(EntryKey("k")) }
        #expect(refused?.message.contains("no synchronous standby") == true)
        let standby = try PostgreSQLServer(standbyOf: primary, name: "second")
        try primary.sql("ALTER SYSTEM SET synchronous_standby_names = 'second'")
        try primary.sql("SELECT pg_reload_conf()")
        try await waitUntil("the standby") {
            try primary.sql("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1"
        }
        let backend = try requiring(store.url)
        #expect(backend.capabilities.durability == .machineLoss)
        _ = try await backend.write([1], to: EntryKey("k"), if: .absent)
        let onStandby = await expectKind(.unavailable) {
            try await PostgreSQLBackend(standby.url(schema: store.schema)).read(EntryKey("k"))
        }
        #expect(onStandby?.message.contains("accepts no writes") == true)

        standby.stop()
        // Too long without the standby: the connection is closed, and the outcome unknown.
        let impatient = try requiring(store.url, answer: .seconds(1))
        let late = await expectKind(.unavailable) { try await impatient.write([2], to: EntryKey("late"), if: .absent) }
        #expect(late?.disposition == .outcomeUnknown)
        // Each such connection stays at the server, so that no more are opened.
        let stalled = try (0..<10).map { try primary.startSQL("CREATE TABLE stalled\($0) ()") }
        try await waitUntil("a refused connection") {
            let key = try EntryKey("k")
            let other = try requiring(store.url)
            do throws(BackendError) {
                _ = try await other.read(key)
                return false
            } catch {
                return error.message.contains("commits wait for a standby")
            }
        }
        try primary.sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
        for process in stalled { process.wait() }
        // A write ends with this query. Other commits of the store may wait as well.
        let writes = "FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%synchronous_standby_names%'"
        try await waitUntil("the end of the former writes") { try primary.sql("SELECT count(*) \(writes)") == "0" }
        // An operator who cancels the wait turns it into a success with a warning.
        async let cancelled = expectKind(.unavailable) { try await backend.write([3], to: EntryKey("c"), if: .absent) }
        try await waitUntil("the cancellation") {
            try primary.sql("SELECT count(pg_cancel_backend(pid)) \(writes)") != "0"
        }
        #expect(await cancelled?.disposition == .outcomeUnknown)
        try await waitUntil("the end of the former write") { try primary.sql("SELECT count(*) \(writes)") == "0" }
        // An operator who resets the setting releases the commits that wait, as if there were a standby.
        async let released = expectKind(.unavailable) { try await backend.write([5], to: EntryKey("r"), if: .absent) }
        try await waitUntil("the commit that waits") {
            try primary.sql("SELECT count(*) \(writes)") != "0"
        }
        try primary.sql("ALTER SYSTEM RESET synchronous_standby_names")
        try primary.sql("SELECT pg_reload_conf()")
        #expect(await released?.disposition == .outcomeUnknown)
        try primary.sql("ALTER SYSTEM SET synchronous_standby_names = 'second'")
        try primary.sql("SELECT pg_reload_conf()")

        try standby.start()
        _ = try await backend.write([4], to: EntryKey("last"), if: .absent)
        primary.kill()
        try standby.sql("SELECT pg_promote()")
        let promoted = try PostgreSQLBackend(standby.url(schema: store.schema))
        for key in ["k", "last"] {
            guard case .found = try await promoted.read(EntryKey(key)).outcome else {
                Issue.record("\(key) is lost")
                continue
            }
        }
    }
}
#endif
