import SyncCore
import Synchronization
import Testing

@testable import SyncService

@Suite("What an account has while it is changed")
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

    /// Whether there is room for so many bytes more, which is not taken.
    private func hasRoom(_ count: Int) -> Bool {
        guard usage.reserve(count, under: second, of: "a/") == nil else { return false }
        usage.settle(nil, under: second, of: "a/")
        return true
    }

    @Test("of several changes of a key at once the longest counts, whichever is told last", arguments: [false, true])
    func several(isLongestFirst: Bool) async throws {
        try await count()
        for size in [1, 600] { #expect(usage.reserve(size, under: first, of: "a/") == nil) }
        for size in isLongestFirst ? [600, 1] : [1, 600] { usage.settle(size, under: first, of: "a/") }
        #expect(!hasRoom(401))
        #expect(hasRoom(400))
        // The next one alone says how it is.
        #expect(usage.reserve(1, under: first, of: "a/") == nil)
        usage.settle(1, under: first, of: "a/")
        #expect(hasRoom(999))
    }

    @Test("a key that is deleted and written at once counts as written", arguments: [false, true])
    func deleted(isDeletedFirst: Bool) async throws {
        try await count()
        usage.beginDeleting(first)
        #expect(usage.reserve(600, under: first, of: "a/") == nil)
        for size in isDeletedFirst ? [nil, 600] : [600, nil] { usage.settle(size, under: first, of: "a/") }
        #expect(!hasRoom(401))
        usage.beginDeleting(first)
        usage.settle(nil, under: first, of: "a/")
        #expect(hasRoom(1_000))
    }

    @Test("what is written while an account is counted counts, although it was read before")
    func counted() async throws {
        _ = try await store.write([1], to: first, if: .any)
        store.afterReading { [usage, first] () async throws(BackendError) in
            // Once: the second count has nothing to do.
            guard usage.reserve(900, under: first, of: "a/") == nil else { return }
            usage.settle(900, under: first, of: "a/")
        }
        try await count()
        #expect(!hasRoom(101))
        #expect(hasRoom(100))
    }

    @Test("what was begun before an account is counted anew, and done meanwhile, counts; what was deleted does not")
    func countedAnew() async throws {
        try await count()
        #expect(usage.reserve(600, under: first, of: "a/") == nil)
        let isFirst = Flag()
        store.afterReading { [store, usage, first] () async throws(BackendError) in
            guard isFirst.raise() else { return }
            _ = try await store.write([UInt8](repeating: 1, count: 600), to: first, if: .any)
            usage.settle(600, under: first, of: "a/")
        }
        _ = try await store.write([1], to: second, if: .any)
        try await count(now: AccountUsage.period)
        #expect(!hasRoom(401))
        #expect(hasRoom(400))
        usage.beginDeleting(first)
        let isSecond = Flag()
        store.afterReading { [store, usage, first] () async throws(BackendError) in
            guard isSecond.raise() else { return }
            _ = try await store.delete(first, if: .any)
            usage.settle(nil, under: first, of: "a/")
        }
        try await count(now: 2 * AccountUsage.period)
        #expect(hasRoom(1_000))
        #expect(isFirst.isRaised && isSecond.isRaised)
    }

    @Test("as many accounts are remembered as there is room for, those that have nothing too")
    func capacity() async throws {
        let usage = AccountUsage(CallerLimits(), capacity: 10) { _ in }
        for number in 0..<30 {
            try await usage.count("\(number)/", in: store, now: 0) { _ in true }
            #expect(usage.rememberedCount == min(number + 1, 10))
        }
        for number in 0..<4 { _ = try await store.write([1], to: try EntryKey("many/\(number)"), if: .any) }
        try await usage.count("many/", in: store, now: 0) { _ in true }
        #expect(usage.rememberedCount == 6)
    }

    @Test("what is under way when an account was counted counts")
    func underWay() async throws {
        #expect(usage.reserve(600, under: first, of: "a/") == nil)
        try await count()
        #expect(!hasRoom(401))
        usage.settle(600, under: first, of: "a/")
        #expect(!hasRoom(401))
    }

    @Test("a count that fails fails for all who wait for it")
    func failing() async throws {
        _ = try await store.write([1], to: first, if: .any)
        let (isFirst, gate) = (Flag(), Event())
        store.afterReading { () async throws(BackendError) in
            let isFirst = isFirst.raise()
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

    @Test("an account is counted once for all who come at once; one that cannot be is counted by the next")
    func once() async throws {
        _ = try await store.write([1], to: first, if: .any)
        let (isFirst, gate) = (Flag(), Event())
        store.afterReading { () async throws(BackendError) in
            #expect(isFirst.raise(), "counted again")
            await gate.wait()
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<8 { group.addTask { try await count() } }
            group.addTask { gate.happen() }
            try await group.waitForAll()
        }
        #expect(isFirst.isRaised)
        usage.forget("a/", after: [])
        store.afterReading { () async throws(BackendError) in throw BackendError(.unavailable, message: "away") }
        await #expect(throws: BackendError.self) { try await count() }
        store.afterReading(nil)
        try await count()
        #expect(!hasRoom(1_000))
        #expect(hasRoom(999))
    }

    private final class Flag: Sendable {
        private let raised = Mutex(false)
        var isRaised: Bool { raised.withLock { $0 } }

        /// Whether it was not raised before.
        func raise() -> Bool {
            raised.withLock { raised in
                defer { raised = true }
                return !raised
            }
        }
    }
}
