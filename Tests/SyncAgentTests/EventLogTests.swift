import EntitlementSync
import Entitlements
import SyncAgent
import SyncCore
import SyncCoreTesting
import Synchronization
import TestSupport
import Testing

@Suite("The event log")
struct EventLogTests {
    private let machine = TestHost(at: 1_767_960_000_000)
    private let local = MemoryBackend()
    private let catalog: Catalog

    init() throws {
        catalog = try Catalog(
            products: [
                Product(id: "owl", kind: .nonConsumable),
                Product(id: "quarter", kind: .nonRenewing(group: "random", duration: CalendarDuration(months: 3))),
            ], entitlements: [Entitlement(id: "random", grantedBy: [.group("random")])])
    }

    private func store(_ account: Account? = nil) async throws -> EntitlementStore {
        try await EntitlementStore(catalog: catalog, local: local, account: account, clock: .host, host: machine.host)
    }

    private func kinds(_ log: EventLog, after number: UInt64 = 0) -> [String] { log.events(after: number).map(\.kind) }

    @Test("The first state adds no event; then each purchase, refund, approach of an end and end adds one")
    func life() async throws {
        let store = try await store()
        var log = EventLog()
        func observe() async throws {
            log.observe(try await store.currentState(), noticeBeforeExpiry: .seconds(86_400))
        }
        try await store.record(.reported("owl", transaction: "before"))
        try await observe()
        #expect(log.events.isEmpty)
        try await store.record(.reported("quarter", transaction: "t1"))
        try await observe()
        try await observe()
        #expect(kinds(log) == ["purchased"])
        #expect(log.events[0].json.contains("\"transactionID\": \"t1\""))
        #expect(log.events[0].json.contains("\"granted\": {\"random\": true}"))
        let expiry = try await store.snapshot()[group: "random"]?.expires
        let end = try #require(expiry)
        machine.set(end.milliseconds - 86_400_000)
        try await observe()
        try await observe()
        machine.set(end.milliseconds)
        try await observe()
        #expect(kinds(log) == ["purchased", "expiring", "expired"])
        try await store.record(.refunded(TransactionReference(store: .reported, id: "before")))
        try await observe()
        #expect(kinds(log, after: 3) == ["revoked"])
        #expect(log.events.map(\.number) == [1, 2, 3, 4])
        #expect(log.events.allSatisfy { !$0.json.contains("\n") })
    }

    @Test("Another account is an event of its own, and its purchases are not new")
    func accounts() async throws {
        var log = EventLog()
        try await store(Account("bob")).record(.reported("owl", transaction: "b"))
        log.observe(try await store(Account("alice")).currentState(), noticeBeforeExpiry: .zero)
        log.observe(try await store(Account("bob")).currentState(), noticeBeforeExpiry: .zero)
        #expect(kinds(log) == ["account-changed"])
        #expect(log.events[0].json.contains("\"from\": \"alice\",\"to\": \"bob\""))
    }

    @Test("A failure is reported once until a sync succeeds")
    func failures() throws {
        var log = EventLog()
        let failure = EntitlementError(BackendError(.unavailable, message: "away"))
        for failed in [true, true, false, true] {
            log.add(failed ? failure : nil, at: Timestamp(milliseconds: 0), account: try Account("alice"))
        }
        #expect(kinds(log) == ["sync-failed", "sync-failed"])
    }

    @Test("The oldest events are discarded, and counted if the program has not taken them")
    func bounds() throws {
        var log = EventLog()
        let failure = EntitlementError(BackendError(.unavailable, message: "away"))
        let alice = try Account("alice")
        for round in 0..<300 {
            log.add(failure, at: Timestamp(milliseconds: 0), account: alice)
            log.add(nil, at: Timestamp(milliseconds: 0), account: alice)
            if round == 9 { log.deliver(10) }
        }
        #expect(log.events.count == EventLog.maximumEventCount)
        #expect(log.last == 300)
        #expect(log.lostCount == 34)
        #expect(log.nextUndelivered?.number == 45)
        #expect(log.events(after: 299).map(\.number) == [300])
        log.deliverAll()
        #expect(log.nextUndelivered == nil)
        log.forgetAll()
        #expect(log.events.isEmpty && log.last == 300)
    }

    @Test("The stored form is read back, and damage and later formats are told apart")
    func document() async throws {
        let store = try await store()
        var log = EventLog()
        log.observe(try await store.currentState(), noticeBeforeExpiry: .zero)
        try await store.record(.reported("owl"))
        log.observe(try await store.currentState(), noticeBeforeExpiry: .zero)
        log.deliver(1)
        #expect(try EventLog(log.bytes) == log)
        let text = String(decoding: log.bytes, as: UTF8.self)
        func defect(_ text: String) -> EventLog.Defect? {
            do throws(EventLog.Defect) {
                _ = try EventLog(Array(text.utf8))
                return nil
            } catch {
                return error
            }
        }
        #expect(defect(text.replacing("\"format\": 1", with: "\"format\": 2")) == .newer)
        let damages = [
            "", "[]", "{}", text + "\n{}", String(text.prefix(40)), text.replacing("\"last\": 1", with: "\"last\": 0"),
            text.replacing("\"delivered\": 1", with: "\"delivered\": 2"),
            text.replacing("\"purchases\": [", with: "\"purchases\": [1,"),
        ]
        for damage in damages { #expect(defect(damage) == .damaged, "\(damage)") }
    }

    @Test("The feed stores each event before a reader sees it, and begins anew after damage")
    func feed() async throws {
        let store = try await store()
        func open(_ backend: any KeyValueBackend) async throws -> EventFeed {
            try await EventFeed(backend, noticeBeforeExpiry: .zero, hasProgram: true) { _ in }
        }
        let feed = try await open(local)
        await feed.observe(try await store.currentState())
        try await store.record(.reported("owl"))
        await feed.observe(try await store.currentState())
        #expect(await feed.events(after: 0).map(\.kind) == ["purchased"])
        let reopened = try await open(local)
        #expect(await reopened.nextUndelivered?.number == 1)
        await reopened.deliver(1)
        #expect(await reopened.nextUndelivered == nil)
        #expect(try await open(local).position.delivered == 1)
        _ = try await local.write([1, 2, 3], to: try EntryKey("agent/events"), if: .any)
        #expect(try await open(local).position.last == 0)
    }

    @Test("If another process has erased the account, its events and its name are discarded, also after a restart")
    func erased() async throws {
        let remote = MemoryBackend()
        func device(_ local: MemoryBackend) async throws -> EntitlementStore {
            try await EntitlementStore(
                catalog: catalog, local: local, remote: remote, account: nil, clock: .host, host: machine.host)
        }
        let store = try await device(local)
        try await store.createAccount("alice")
        _ = try await store.logIn("alice")
        let feed = try await EventFeed(local, noticeBeforeExpiry: .zero, hasProgram: true) { _ in }
        await feed.observe(try await store.currentState())
        try await store.record(.reported("owl"))
        await feed.observe(try await store.currentState())
        #expect(await feed.events(after: 0).map(\.kind) == ["purchased"])
        try await device(local).eraseAccount("alice")
        let later = try await device(local)
        #expect(later.account == .anonymous)
        let reopened = try await EventFeed(local, noticeBeforeExpiry: .zero, hasProgram: true) { _ in }
        await reopened.observe(try await later.currentState())
        let events = await reopened.events(after: 0)
        #expect(events.map(\.kind) == ["account-changed"])
        #expect(events.allSatisfy { !$0.json.contains("alice") })
    }

    @Test("An event that cannot be stored is shown to no reader until a later write succeeds")
    func failingStore() async throws {
        let store = try await store()
        let isBroken = Mutex(false)
        let faulty = FaultyBackend(local) { call in
            isBroken.withLock { $0 } && call.operation == .write ? .transient : nil
        }
        let feed = try await EventFeed(faulty, noticeBeforeExpiry: .zero, hasProgram: true) { _ in }
        await feed.observe(try await store.currentState())
        isBroken.withLock { $0 = true }
        try await store.record(.reported("owl"))
        await feed.observe(try await store.currentState())
        #expect(await feed.events(after: 0).isEmpty)
        #expect(await feed.nextUndelivered == nil)
        isBroken.withLock { $0 = false }
        await feed.observe(try await store.currentState())
        #expect(await feed.events(after: 0).map(\.kind) == ["purchased"])
    }
}
