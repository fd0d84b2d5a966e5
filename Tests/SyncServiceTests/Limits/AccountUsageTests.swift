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

    private func count() async throws { try await usage.count("a/", in: store, now: 0) { _ in true } }

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
