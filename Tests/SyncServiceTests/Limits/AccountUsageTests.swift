import ServiceTestSupport
import SyncCore
import SyncCoreTesting
import Synchronization
import Testing

@testable import SyncService

@Suite("Account usage under concurrent changes")
struct AccountUsageTests {
    private let store = HookedBackend()
    private let usage: AccountUsage
    private let (first, second): (EntryKey, EntryKey)

    init() throws {
        var limits = CallerLimits()
        (limits.accountKeys, limits.accountBytes) = (nil, 1_000)
        usage = AccountUsage(limits) { _ in }
        (first, second) = (try EntryKey("a/1"), try EntryKey("a/2"))
    }

    private func count(now: Int64 = 0) async throws {
        try await usage.count("a/", in: store, now: now) { _ in true }
    }

    /// Returns `true` if the account has room for a value of `count` bytes under `second`. Leaves nothing reserved.
    private func hasRoom(_ count: Int) -> Bool {
        guard (try? usage.reserve(count, under: second, of: "a/", now: 0)) == true else { return false }
        usage.settle(nil, under: second, of: "a/")
        return true
    }

    @Test("Of several concurrent writes of a key, the longest counts, whichever ends first", arguments: [false, true])
    func several(isLongestFirst: Bool) async throws {
        try await count()
        for size in [1, 600] { #expect(try usage.reserve(size, under: first, of: "a/", now: 0)) }
        for size in isLongestFirst ? [600, 1] : [1, 600] { usage.settle(size, under: first, of: "a/") }
        #expect(!hasRoom(401))
        #expect(hasRoom(400))
        // The next write that runs alone counts with its exact size.
        #expect(try usage.reserve(1, under: first, of: "a/", now: 0))
        usage.settle(1, under: first, of: "a/")
        #expect(hasRoom(999))
    }

    @Test("A key that is deleted and written concurrently counts as written", arguments: [false, true])
    func deleted(isDeletedFirst: Bool) async throws {
        try await count()
        usage.beginDeleting(first)
        #expect(try usage.reserve(600, under: first, of: "a/", now: 0))
        for size in isDeletedFirst ? [nil, 600] : [600, nil] { usage.settle(size, under: first, of: "a/") }
        #expect(!hasRoom(401))
        usage.beginDeleting(first)
        usage.settle(nil, under: first, of: "a/")
        #expect(hasRoom(1_000))
    }

    @Test("A write during a count is included, even if the count has read the old value")
    func counted() async throws {
        _ = try await store.write([1], to: first, if: .any)
        try await count()
        usage.forget("a/", after: [])
        store.afterReading { [usage, first] () async throws(BackendError) in
            #expect(try usage.reserve(900, under: first, of: "a/", now: 0))
            usage.settle(900, under: first, of: "a/")
        }
        try await count()
        #expect(!hasRoom(101))
        #expect(hasRoom(100))
    }

    @Test("A recount includes a write that ends during it, and excludes a key whose deletion ends during it")
    func recounted() async throws {
        try await count()
        #expect(try usage.reserve(600, under: first, of: "a/", now: 0))
        let isFirst = Once()
        store.afterReading { [store, usage, first] () async throws(BackendError) in
            guard isFirst.happens() else { return }
            _ = try await store.write([UInt8](repeating: 1, count: 600), to: first, if: .any)
            usage.settle(600, under: first, of: "a/")
        }
        _ = try await store.write([1], to: second, if: .any)
        try await count(now: AccountUsage.period)
        #expect(!hasRoom(401))
        #expect(hasRoom(400))
        usage.beginDeleting(first)
        let isSecond = Once()
        store.afterReading { [store, usage, first] () async throws(BackendError) in
            guard isSecond.happens() else { return }
            _ = try await store.delete(first, if: .any)
            usage.settle(nil, under: first, of: "a/")
        }
        try await count(now: 2 * AccountUsage.period)
        #expect(hasRoom(1_000))
        #expect(isFirst.hasHappened && isSecond.hasHappened)
    }

    @Test("A deleted key takes up a place for an hour, even after a recount; writing it again reuses the place")
    func deletedKeys() async throws {
        var limits = CallerLimits()
        limits.accountKeys = 3
        let usage = AccountUsage(limits) { _ in }
        let store = store
        let keys = try (0..<8).map { try EntryKey("a/\($0)") }
        func write(_ key: EntryKey, now: Int64) async throws -> Bool {
            try await usage.count("a/", in: store, now: now) { _ in true }
            guard (try? usage.reserve(1, under: key, of: "a/", now: now)) == true else { return false }
            _ = try await store.write([1], to: key, if: .any)
            usage.settle(1, under: key, of: "a/")
            return true
        }
        func delete(_ key: EntryKey, now: Int64) async throws {
            usage.beginDeleting(key)
            _ = try await store.delete(key, if: .any)
            usage.settle(nil, under: key, of: "a/", deletedAt: now)
        }
        for key in keys.prefix(3) {
            #expect(try await write(key, now: 0))
            try await delete(key, now: 0)
        }
        #expect(try await !write(keys[3], now: 0))
        #expect(try await write(keys[0], now: 1))
        try await delete(keys[0], now: 500_000)
        // A conditional write that fails on a deleted key does not release its place.
        #expect(try usage.reserve(1, under: keys[0], of: "a/", now: 500_000))
        usage.settle(nil, under: keys[0], of: "a/")
        // Deleting a key without a value takes no place.
        try await delete(keys[7], now: 500_000)
        for now in [AccountUsage.period, 2 * AccountUsage.period, AccountUsage.deletionPeriod - 1] {
            #expect(try await !write(keys[3], now: now))
        }
        #expect(try await write(keys[3], now: AccountUsage.deletionPeriod))
        #expect(try await write(keys[4], now: AccountUsage.deletionPeriod))
        #expect(try await !write(keys[5], now: AccountUsage.deletionPeriod))
        #expect(try await write(keys[5], now: AccountUsage.deletionPeriod + 500_000))
    }

    @Test("An account is counted from a listing, and values are read only if the listing has no sizes")
    func listing() async throws {
        _ = try await store.write([UInt8](repeating: 1, count: 600), to: first, if: .any)
        let counting = CountingBackend(store)
        try await usage.count("a/", in: counting, now: 0) { _ in true }
        let counts = counting.takeCounts()
        #expect(counts.lists == 1 && counts.total == 1 && !hasRoom(401))
        #expect(hasRoom(400))
        let sizeless = SizelessBackend(base: store)
        usage.forget("a/", after: [])
        try await usage.count("a/", in: sizeless, now: 0) { _ in true }
        #expect(!hasRoom(401))
        #expect(hasRoom(400))
    }

    @Test("The memory for accounts is limited, and an account without keys takes one place")
    func capacity() async throws {
        let usage = AccountUsage(CallerLimits(), capacity: 10) { _ in }
        for number in 0..<30 {
            try await usage.count("\(number)/", in: store, now: 0) { _ in true }
            #expect(usage.rememberedCount == min(number + 1, 10))
        }
        // The account and its four keys take five places, which leaves room for five empty accounts.
        for number in 0..<4 { _ = try await store.write([1], to: try EntryKey("many/\(number)"), if: .any) }
        try await usage.count("many/", in: store, now: 0) { _ in true }
        #expect(usage.rememberedCount == 6)
    }

    @Test("An evicted account reserves nothing until it is counted again")
    func evicted() async throws {
        var limits = CallerLimits()
        (limits.accountKeys, limits.accountBytes) = (nil, 1_000)
        let usage = AccountUsage(limits, capacity: 1) { _ in }
        _ = try await store.write([UInt8](repeating: 1, count: 900), to: first, if: .any)
        try await usage.count("a/", in: store, now: 0) { _ in true }
        try await usage.count("b/", in: store, now: 0) { _ in true }
        #expect(try !usage.reserve(101, under: second, of: "a/", now: 0))
        try await usage.count("a/", in: store, now: 0) { _ in true }
        #expect(throws: BackendError.self) { try usage.reserve(101, under: second, of: "a/", now: 0) }
        #expect(try usage.reserve(100, under: second, of: "a/", now: 0))
    }

    @Test("A change in progress during a count is included")
    func changeInProgress() async throws {
        try await count()
        #expect(try usage.reserve(600, under: first, of: "a/", now: 0))
        usage.forget("a/", after: [])
        try await count()
        #expect(!hasRoom(401))
        usage.settle(600, under: first, of: "a/")
        #expect(!hasRoom(401))
    }

    @Test("A failed count fails for every caller that waits for it")
    func failing() async throws {
        _ = try await store.write([1], to: first, if: .any)
        let (isFirst, gate) = (Once(), Event())
        store.afterReading { () async throws(BackendError) in
            let isFirst = isFirst.happens()
            await gate.wait()
            guard isFirst else { return }
            throw BackendError(.unavailable, message: "away")
        }
        let failures = await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<8 {
                group.addTask { await (try? count()) == nil }
            }
            group.addTask {
                while usage.waitingCount < 7 { await Task.yield() }
                gate.happen()
                return false
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(failures == 8)
        try await count()
        #expect(!hasRoom(1_000))
    }

    @Test("Concurrent callers share one count; after a failed count, the next caller counts again")
    func sharedCount() async throws {
        _ = try await store.write([1], to: first, if: .any)
        let (isFirst, gate) = (Once(), Event())
        store.afterReading { () async throws(BackendError) in
            #expect(isFirst.happens(), "counted again")
            await gate.wait()
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<8 { group.addTask { try await count() } }
            group.addTask { gate.happen() }
            try await group.waitForAll()
        }
        #expect(isFirst.hasHappened)
        usage.forget("a/", after: [])
        store.afterReading { () async throws(BackendError) in throw BackendError(.unavailable, message: "away") }
        await #expect(throws: BackendError.self) { try await count() }
        store.afterReading(nil)
        try await count()
        #expect(!hasRoom(1_000))
        #expect(hasRoom(999))
    }

    /// A backend whose listings have no sizes.
    private struct SizelessBackend: ForwardingBackend {
        let base: any KeyValueBackend

        func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
            var answer = try await base.list(prefix: prefix, after: cursor, limit: limit)
            for index in answer.outcome.items.indices { answer.outcome.items[index].byteCount = nil }
            return answer
        }
    }
}
