import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

/// Each case breaks a store in one way and names the check that must fail.
@Suite("The conformance checks fail for a store that")
struct BrokenStoreTests {
    /// A store with one fault, and the name of the check that must fail.
    struct Fault: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let check: String
        let makeBackend: @Sendable () -> any KeyValueBackend

        init(
            _ description: String, _ check: String,
            _ makeBackend: @escaping @Sendable @autoclosure () -> any KeyValueBackend
        ) {
            (testDescription, self.check, self.makeBackend) = (description, check, makeBackend)
        }
    }

    private static let faults = [
        Fault("loses updates", "a counter that concurrent tasks increment loses no update", LosesUpdates()),
        Fault(
            "loses updates, so that its history is not linearizable", "concurrent operations on a key are linearizable",
            LosesUpdates()),
        Fault("ignores preconditions", "`matches` allows a write at that version only", IgnoresPreconditions()),
        Fault(
            "ignores the preconditions of deletes", "a delete honours its precondition", IgnoresPreconditionsOfDeletes()
        ),
        Fault(
            "ignores preconditions that it declares unsupported",
            "unsupported preconditions are rejected, and nothing is written", DropsPreconditions()),
        Fault("reads old entries", "concurrent operations on a key are linearizable", ReadsAnOldCopy()),
        Fault(
            "answers `unchanged` for a changed entry",
            "a conditional read answers `unchanged` only for the current version", AlwaysUnchanged()),
        Fault("tears writes", "a reader sees one write or another, never a mix of both", TearsWrites()),
        Fault(
            "skips a key between pages", "a listing contains every key once, in byte order, for every page size",
            SkipsAKey()),
        Fault(
            "skips a change between pages", "paging reports every change once while other clients write between pages",
            SkipsAChange()),
        Fault(
            "ignores the prefix of changes", "changes of a prefix leave out other keys and pass them",
            IgnoresThePrefixOfChanges()),
        Fault(
            "answers the second to last cursor as the latest", "the latest cursor is after every acknowledged write",
            ForgetsTheLatestChange()),
        Fault(
            "answers an expired cursor with an empty page", "a cursor from another history has expired",
            BelievesExpiredCursors()),
        Fault(
            "repeats versions", "versions never repeat, not even for equal values or after a delete",
            RepeatsVersions()),
        Fault("folds the case of keys", "unusual keys are kept apart, byte by byte", FoldsCase()),
        Fault("compares keys as Unicode strings", "unusual keys are kept apart, byte by byte", ComparesTexts()),
        Fault(
            "answers a conflict without the entry", "`absent` allows the first write and no second",
            HidesTheConflictingEntry()),
        Fault(
            "writes after it has thrown `cancelled`", "a write that throws `cancelled` has not happened",
            WritesAfterCancelling()),
        Fault(
            "writes, and throws `cancelled` all the same", "a write that throws `cancelled` has not happened",
            WritesAndThenRefuses()),
        Fault(
            "returns the results of a batch in another order",
            "a batch of reads returns its results in the order of the requests", SortsBatches()),
        Fault(
            "drops the rest of a batch after a conflict", "a conflict in a batch does not affect other keys",
            StopsAtAConflict()),
        Fault("confuses similar values", "values that differ in one byte are kept apart", ConfusesValues()),
        Fault(
            "accepts larger values than it declares",
            "a value larger than the declared maximum is rejected, and the old value stays", IgnoresItsMaximum()),
        Fault("lists deleted keys", "a deleted key is not listed", ListsTheDeleted()),
        Fault(
            "sorts keys without regard to case",
            "a listing contains every key once, in byte order, for every page size", SortsLikePeople()),
        Fault("never signals", "a change signals every subscriber", NeverSignals()),
        Fault("signals once", "a subscriber that consumed a signal is signalled again", SignalsOnce()),
    ]

    @Test("has this fault", arguments: faults)
    func faulty(_ fault: Fault) async {
        await expectFailure(of: fault.check) { StoreUnderTest(fault.makeBackend()) }
    }

    @Test("forgets to synchronize")
    func forgottenSync() async {
        await expectFailure(of: "a crash loses no acknowledged write") {
            let store = ForgetsToSynchronize()
            return StoreUnderTest(store, crash: { store.crash() })
        }
    }

    @Test("accepts a cursor of another history")
    func reusedCursor() async {
        await expectFailure(of: "a cursor of a history that a restore undid has expired") {
            let store = KnowsCursorsByNumber()
            return StoreUnderTest(
                store,
                backup: {
                    let backup = store.memory.backup()
                    return {
                        store.memory.putBack(backup)
                        return store
                    }
                })
        }
    }

    @Test("accepts any cursor after a wipe")
    func cursorAfterWipe() async {
        await expectFailure(of: "every cursor has expired after a wipe, and no version is reused") {
            let store = BelievesExpiredCursors()
            return StoreUnderTest(
                store,
                wipe: {
                    store.memory.putBack(MemoryBackend.Backup())
                    return store
                })
        }
    }

    @Test("repeats versions only after a restore")
    func repeatedVersionAfterRestore() async {
        await expectFailure(of: "no version is reused after a backup was restored") {
            let store = NumbersVersions()
            return StoreUnderTest(store, backup: { store.backup() })
        }
    }

    @Test("reports a failed read as absence")
    func swallowedError() async {
        await expectFailure(of: "a failed read is never reported as absence") {
            let memory = MemoryBackend()
            return StoreUnderTest(
                memory,
                failing: { SwallowsErrors(base: FaultyBackend(memory, plan: .seeded(7, rate: 0.2))) })
        }
    }

    @Test("writes after an error that promised no effect")
    func lateWrite() async {
        await expectFailure(of: "after an error the store is as the error's disposition says") {
            let memory = MemoryBackend()
            return StoreUnderTest(memory, failing: { WritesAfterAnError(memory) })
        }
    }

    @Test("signals only to the writing object")
    func ownSignals() async {
        await expectFailure(of: "a change through another object on the same store is signalled") {
            let store = SignalsOwnChangesOnly()
            return StoreUnderTest(store, reopen: { SignalsOwnChangesOnly(store.memory) })
        }
    }

    @Test("has a cache that other processes cannot invalidate")
    func ownCache() async {
        await expectFailure(of: "operations through several objects on one store are linearizable") {
            let store = CachesForItself()
            return StoreUnderTest(store, reopen: { CachesForItself(store.memory) })
        }
    }

    @Test("loses acknowledged writes when it is reopened")
    func forgottenOnReopening() async {
        await expectFailure(of: "a reopened store contains every acknowledged write") {
            let store = ForgetsToSynchronize()
            return StoreUnderTest(store, reopen: { store.crash() })
        }
    }
}

/// Runs all checks. `check` must fail and some must pass, because a store that fails every check proves nothing.
///
/// The wait for a signal that never comes is short.
private func expectFailure(
    of check: String, sourceLocation: SourceLocation = #_sourceLocation,
    makeStore: @Sendable () async throws -> StoreUnderTest
) async {
    let host = HostServices(now: HostServices.system.now, timer: ImpatientClock(), randomBits: { 4 })
    let report = await Conformance.run(seed: 1, host: host, makeStore: makeStore)
    #expect(report.results.contains { $0.outcome == .passed }, "\(report)", sourceLocation: sourceLocation)
    #expect(!report.hasPassed, sourceLocation: sourceLocation)
    #expect(
        report.failures.contains { $0.check == check },
        "caught by \(report.failures.map(\.check)) only", sourceLocation: sourceLocation)
}

/// The machine's clock, with sleeps of at most a fifth of a second.
private struct ImpatientClock: Clock {
    typealias Instant = ContinuousClock.Instant

    var now: Instant { ContinuousClock.now }
    var minimumResolution: Duration { .zero }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let latest = ContinuousClock.now + .milliseconds(200)
        try await ContinuousClock().sleep(until: min(deadline, latest), tolerance: tolerance)
    }
}
