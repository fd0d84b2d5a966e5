import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

/// Each test breaks a store in one way and names the check that must notice.
@Suite("The conformance checks fail for a store that")
struct BrokenStoreTests {
    @Test("loses updates")
    func lostUpdate() async {
        await expectFailure(of: "a counter that concurrent tasks increment loses no update") { LosesUpdates() }
    }

    @Test("loses updates, and no order explains it")
    func lostUpdateInHistories() async {
        await expectFailure(of: "concurrent operations on a key are linearizable") {
            LosesUpdates()
        }
    }

    @Test("ignores preconditions")
    func ignoredPrecondition() async {
        await expectFailure(of: "`matches` allows a write at that version only") { IgnoresPreconditions() }
    }

    @Test("ignores the preconditions of deletes")
    func ignoredPreconditionOfDelete() async {
        await expectFailure(of: "a delete honours its precondition") { IgnoresPreconditionsOfDeletes() }
    }

    @Test("drops preconditions that it has declared impossible")
    func droppedPrecondition() async {
        await expectFailure(of: "unsupported preconditions are rejected, and nothing is written") {
            DropsPreconditions()
        }
    }

    @Test("reads old entries")
    func staleRead() async {
        await expectFailure(of: "concurrent operations on a key are linearizable") {
            ReadsAnOldCopy()
        }
    }

    @Test("says unchanged of what has changed")
    func staleConditionalRead() async {
        await expectFailure(of: "a conditional read answers `unchanged` only for the current version") {
            AlwaysUnchanged()
        }
    }

    @Test("tears writes")
    func tornWrite() async {
        await expectFailure(of: "a reader sees one write or another, never a mix of both") { TearsWrites() }
    }

    @Test("forgets to synchronize")
    func forgottenSync() async {
        await expectFailure(of: "a crash loses no acknowledged write") {
            let store = ForgetsToSynchronize()
            return StoreUnderTest(store, crash: { store.crash() })
        }
    }

    @Test("skips a key between pages")
    func skippedKey() async {
        await expectFailure(of: "a listing contains every key once, in byte order, for every page size") {
            SkipsAKey()
        }
    }

    @Test("skips a change between pages")
    func skippedChange() async {
        await expectFailure(of: "paging reports every change once while other clients write between pages") {
            SkipsAChange()
        }
    }

    @Test("takes a cursor of another history for its own")
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

    @Test("takes any cursor for its own after a wipe")
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

    @Test("answers an expired cursor with no changes")
    func believedCursor() async {
        await expectFailure(of: "a cursor from another history has expired") {
            BelievesExpiredCursors()
        }
    }

    @Test("repeats versions")
    func repeatedVersion() async {
        await expectFailure(of: "versions never repeat, not even for equal values or after a delete") {
            RepeatsVersions()
        }
    }

    @Test("repeats versions only once a backup was put back")
    func repeatedVersionAfterRestore() async {
        await expectFailure(of: "no version is reused after a backup was restored") {
            let store = NumbersVersions()
            return StoreUnderTest(
                store,
                backup: {
                    let putBack = store.backup()
                    return { putBack() }
                })
        }
    }

    @Test("answers a failed read as absence")
    func swallowedError() async {
        await expectFailure(of: "a failed read is never reported as absence") {
            let memory = MemoryBackend()
            return StoreUnderTest(
                memory,
                failing: { SwallowsErrors(wrapped: FaultyBackend(memory, plan: .seeded(7, rate: 0.2))) })
        }
    }

    @Test("folds the case of keys")
    func foldedCase() async {
        await expectFailure(of: "unusual keys are kept apart, byte by byte") { FoldsCase() }
    }

    @Test("compares keys as texts")
    func normalisedKeys() async {
        await expectFailure(of: "unusual keys are kept apart, byte by byte") { ComparesTexts() }
    }

    @Test("answers a conflict without the entry")
    func hiddenConflict() async {
        await expectFailure(of: "`absent` allows the first write and no second") { HidesTheConflictingEntry() }
    }

    @Test("writes after an error that said it would not")
    func lateWrite() async {
        await expectFailure(of: "after an error the store is as the error's disposition says") {
            let memory = MemoryBackend()
            return StoreUnderTest(memory, failing: { WritesAfterAnError(memory) })
        }
    }

    @Test("writes after it has answered a cancellation")
    func writeAfterCancelling() async {
        await expectFailure(of: "a write that throws `cancelled` has not happened") { WritesAfterCancelling() }
    }

    @Test("writes, and answers a cancellation that nothing was done")
    func writeThenRefusal() async {
        await expectFailure(of: "a write that throws `cancelled` has not happened") { WritesAndThenRefuses() }
    }

    @Test("answers a batch in another order")
    func sortedBatch() async {
        await expectFailure(of: "a batch of reads returns its results in the order of the requests") { SortsBatches() }
    }

    @Test("drops the rest of a batch after a conflict")
    func stoppedBatch() async {
        await expectFailure(of: "a conflict in a batch does not affect other keys") { StopsAtAConflict() }
    }

    @Test("confuses values")
    func confusedValues() async {
        await expectFailure(of: "values that differ in one byte are kept apart") { ConfusesValues() }
    }

    @Test("takes more than it has declared")
    func ignoredMaximum() async {
        await expectFailure(of: "a value larger than the declared maximum is rejected, and the old value stays") {
            IgnoresItsMaximum()
        }
    }

    @Test("lists what was deleted")
    func ghosts() async {
        await expectFailure(of: "a deleted key is not listed") { ListsTheDeleted() }
    }

    @Test("sorts keys as people do")
    func sortedLikePeople() async {
        await expectFailure(of: "a listing contains every key once, in byte order, for every page size") {
            SortsLikePeople()
        }
    }

    @Test("never signals")
    func silence() async {
        await expectFailure(of: "a change signals every subscriber") { NeverSignals() }
    }

    @Test("signals once")
    func signalledOnce() async {
        await expectFailure(of: "a subscriber that consumed a signal is signalled again") {
            SignalsOnce()
        }
    }

    @Test("signals to nobody but the writer")
    func ownSignals() async {
        await expectFailure(of: "a change through another object on the same store is signalled") {
            let store = SignalsOwnChangesOnly()
            return StoreUnderTest(store, reopen: { SignalsOwnChangesOnly(store.memory) })
        }
    }

    @Test("has a cache that another process does not empty")
    func ownCache() async {
        await expectFailure(of: "operations through several objects on one store are linearizable") {
            let store = CachesForItself()
            return StoreUnderTest(store, reopen: { CachesForItself(store.memory) })
        }
    }

    @Test("cannot be opened again with what it has acknowledged")
    func forgottenOnReopening() async {
        await expectFailure(of: "a reopened store contains every acknowledged write") {
            let store = ForgetsToSynchronize()
            return StoreUnderTest(store, reopen: { store.crash() })
        }
    }
}

/// Runs all checks, of which `check` must fail and some must pass, since a store that breaks everything proves nothing.
///
/// The wait for a signal that never comes is a short one.
private func expectFailure(
    of check: String, sourceLocation: SourceLocation = #_sourceLocation,
    makeStore: @Sendable () async throws -> StoreUnderTest
) async {
    let host = HostServices(now: HostServices.system.now, timer: HastyClock(), randomBits: { 4 })
    let report = await Conformance.run(seed: 1, host: host, makeStore: makeStore)
    #expect(report.results.contains { $0.outcome == .passed }, "\(report)", sourceLocation: sourceLocation)
    #expect(!report.hasPassed, sourceLocation: sourceLocation)
    #expect(
        report.failures.contains { $0.check == check },
        "caught by \(report.failures.map(\.check)) only", sourceLocation: sourceLocation)
}

private func expectFailure(
    of check: String, sourceLocation: SourceLocation = #_sourceLocation,
    makeBackend: @Sendable () async throws -> any KeyValueBackend
) async {
    await expectFailure(of: check, sourceLocation: sourceLocation) { StoreUnderTest(try await makeBackend()) }
}

/// The machine's clock, on which no pause is longer than a fifth of a second.
private struct HastyClock: Clock {
    typealias Instant = ContinuousClock.Instant

    var now: Instant { ContinuousClock.now }
    var minimumResolution: Duration { .zero }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let latest = ContinuousClock.now + .milliseconds(200)
        try await ContinuousClock().sleep(until: min(deadline, latest), tolerance: tolerance)
    }
}
