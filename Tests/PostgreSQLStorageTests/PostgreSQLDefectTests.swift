#if PostgreSQL
import PostgreSQLStorage
import PostgreSQLTestSupport
import SyncCore
import SyncCoreTesting
import Synchronization
import TestSupport
import Testing

/// Each check passes for the backend, and fails for one with a deliberate mistake.
@Suite("A deliberately broken PostgreSQL store is detected", .serialized)
struct PostgreSQLDefectTests {
    private let store: TestStore

    init() throws { store = try TestStore() }

    private func open(_ defects: Defects) throws -> PostgreSQLBackend { try store.open { $0.defects = defects } }

    /// Makes commits that change `table` wait while the table `hold` has a row, or fail, for the key `slow` or `bad`.
    private func addTrigger(to table: String) async throws {
        _ = try await open([]).latestCursor()
        try store.sql(
            """
            CREATE TABLE @.hold AS SELECT 1;
            CREATE FUNCTION @.at_commit() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                WHILE NEW.key = 'slow' AND EXISTS (SELECT FROM @.hold) LOOP PERFORM pg_sleep(0.01); END LOOP;
                IF NEW.key = 'bad' THEN RAISE 'no commit' USING ERRCODE = '40001'; END IF;
                RETURN NEW;
            END $$;
            CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON @.\(table) DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION @.at_commit()
            """)
    }

    @Test("if it numbers changes when they are written", arguments: [Defects(), .numbersAtWrite])
    func numbering(defects: Defects) async throws {
        try await addTrigger(to: defects.isEmpty ? "pending" : "change")
        let (slow, fast) = (try open(defects), try open(defects))
        _ = try await fast.write([0], to: EntryKey("first"), if: .any)
        async let written = slow.write([1], to: EntryKey("slow"), if: .any)
        try await waitUntil("the slow commit") {
            try store.sql(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE '%@.entry%'") != "0"
        }
        _ = try await fast.write([2], to: EntryKey("fast"), if: .any)
        var page = try await fast.changes(since: nil, limit: 100).outcome
        var keys = page.changes.map(\.key.text)
        #expect(keys == ["first", "fast"])
        try store.sql("DELETE FROM @.hold")
        _ = try await written
        page = try await fast.changes(since: page.cursor, limit: 100).outcome
        keys += page.changes.map(\.key.text)
        #expect(keys.contains("slow") == defects.isEmpty)
    }

    @Test("if it reads a conflict in one statement", arguments: [Defects(), .readsConflictInOneStatement])
    func conflicts(defects: Defects) async throws {
        let backends = [try open(defects), try open(defects)]
        let key = try EntryKey("contended")
        let counts = Mutex((raised: 0, wrong: 0))
        _ = try await backends[0].write([0], to: key, if: .absent)
        let limit = ContinuousClock.now + Patience.limit
        try await withThrowingTaskGroup(of: Void.self) { group in
            for task in 0..<8 {
                group.addTask { @Sendable in
                    let backend = backends[task % 2]
                    guard case .found(var entry) = try await backend.read(key).outcome else { return }
                    while counts.withLock({ $0.raised < 400 && $0.wrong == 0 }), ContinuousClock.now < limit {
                        let expected = entry.version
                        switch try await backend.write([UInt8(task)], to: key, if: .matches(expected)).outcome {
                        case .written(let version):
                            entry = Entry(value: [UInt8(task)], version: version)
                            counts.withLock { $0.raised += 1 }
                        case .conflict(let current?):
                            entry = current
                            if current.version == expected { counts.withLock { $0.wrong += 1 } }
                        default: return
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(counts.withLock { $0.wrong > 0 } == !defects.isEmpty)
    }

    @Test("if it writes a batch in the order of the caller", arguments: [Defects(), .writesUnsorted])
    func batches(defects: Defects) async throws {
        let server = try PostgreSQLServer()
        let store = try TestStore(on: server)
        let keys = try (0..<40).map { try EntryKey("hot/\($0)") }
        let backends = try (0..<2).map { _ in try store.open { $0.defects = defects } }
        for backend in backends { _ = try await backend.latestCursor() }
        let limit = ContinuousClock.now + Patience.limit
        func hasDeadlock() -> Bool { server.log.contains("deadlock detected") }
        // A deadlock needs transactions that overlap, which a busy machine may delay.
        for round in 0..<(defects.isEmpty ? 30 : 3_000) where !hasDeadlock() && ContinuousClock.now < limit {
            async let forward = backends[0].write(
                keys.map { WriteRequest($0, value: [UInt8(truncatingIfNeeded: round)], if: .any) })
            async let backward = backends[1].write(
                keys.reversed().map { WriteRequest($0, value: [UInt8(truncatingIfNeeded: round)], if: .any) })
            for result in try await forward.outcome + backward.outcome { _ = try? result.get() }
        }
        #expect(hasDeadlock() == !defects.isEmpty)
    }

    @Test("if it acknowledges before the commit", arguments: [Defects(), .acknowledgesBeforeCommit])
    func acknowledgement(defects: Defects) async throws {
        try await addTrigger(to: "pending")
        let backend = try open(defects)
        let key = try EntryKey("bad")
        do throws(BackendError) {
            _ = try await backend.write([1], to: key, if: .any)
            #expect(!defects.isEmpty)
        } catch {
            #expect(defects.isEmpty && error.kind == .busy && error.disposition == .transient)
        }
        #expect(try await backend.read(key).outcome == .absent)
    }

    @Test("and a write that cannot be committed does not keep the others of its transaction from it")
    func neighbours() async throws {
        try await addTrigger(to: "pending")
        let requests = try ["a", "bad", "z"].map { WriteRequest(try EntryKey($0), value: [1], if: .absent) }
        let results = try await open([]).write(requests).outcome
        #expect(results.map { (try? $0.get()) != nil } == [true, false, true])
        let listed = try await open([]).list(prefix: "", after: nil, limit: 10).outcome.items
        #expect(listed.map(\.key.text) == ["a", "z"])
    }
}
#endif
