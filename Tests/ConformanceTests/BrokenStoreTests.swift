import SyncCore
import SyncCoreTesting
import TestSupport
import Testing

/// Each test breaks a store in one way and names the check that must fail.
@Suite("The conformance checks fail for a store that")
struct BrokenStoreTests {
    @Test("loses updates")
    func lostUpdate() async {
        await expectFailure(of: "a counter that concurrent tasks increment loses no update") { LosesUpdates() }
    }

    @Test("loses updates, so that its history is not linearizable")
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

    @Test("ignores preconditions that it declares unsupported")
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

    @Test("answers `unchanged` for a changed entry")
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

    @Test("ignores the prefix of changes")
    func ignoredPrefix() async {
        await expectFailure(of: "changes of a prefix leave out other keys and pass them") {
            IgnoresThePrefixOfChanges()
        }
    }

    @Test("answers the second to last cursor as the latest")
    func lateLatestCursor() async {
        await expectFailure(of: "the latest cursor is after every acknowledged write") {
            ForgetsTheLatestChange()
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

    @Test("answers an expired cursor with an empty page")
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

    @Test("repeats versions only after a restore")
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

    @Test("reports a failed read as absence")
    func swallowedError() async {
        await expectFailure(of: "a failed read is never reported as absence") {
            let memory = MemoryBackend()
            return StoreUnderTest(
                memory,
                failing: { SwallowsErrors(base: FaultyBackend(memory, plan: .seeded(7, rate: 0.2))) })
        }
    }

    @Test("folds the case of keys")
    func foldedCase() async {
        await expectFailure(of: "unusual keys are kept apart, byte by byte") { FoldsCase() }
    }

    @Test("compares keys as Unicode strings")
    func normalisedKeys() async {
        await expectFailure(of: "unusual keys are kept apart, byte by byte") { ComparesTexts() }
    }

    @Test("answers a conflict without the entry")
    func hiddenConflict() async {
        await expectFailure(of: "`absent` allows the first write and no second") { HidesTheConflictingEntry() }
    }

    @Test("writes after an error that promised no effect")
    func lateWrite() async {
        await expectFailure(of: "after an error the store is as the error's disposition says") {
            let memory = MemoryBackend()
            return StoreUnderTest(memory, failing: { WritesAfterAnError(memory) })
        }
    }

    @Test("writes after it has thrown `cancelled`")
    func writeAfterCancelling() async {
        await expectFailure(of: "a write that throws `cancelled` has not happened") { WritesAfterCancelling() }
    }

    @Test("writes, and throws `cancelled` all the same")
    func writeThenRefusal() async {
        await expectFailure(of: "a write that throws `cancelled` has not happened") { WritesAndThenRefuses() }
    }

    @Test("returns the results of a batch in another order")
    func sortedBatch() async {
        await expectFailure(of: "a batch of reads returns its results in the order of the requests") { SortsBatches() }
    }

    @Test("drops the rest of a batch after a conflict")
    func stoppedBatch() async {
        await expectFailure(of: "a conflict in a batch does not affect other keys") { StopsAtAConflict() }
    }

    @Test("confuses similar values")
    func confusedValues() async {
        await expectFailure(of: "values that differ in one byte are kept apart") { ConfusesValues() }
    }

    @Test("accepts larger values than it declares")
    func ignoredMaximum() async {
        await expectFailure(of: "a value larger than the declared maximum is rejected, and the old value stays") {
            IgnoresItsMaximum()
        }
    }

    @Test("lists deleted keys")
    func ghosts() async {
        await expectFailure(of: "a deleted key is not listed") { ListsTheDeleted() }
    }

    @Test("sorts keys without regard to case")
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

private func expectFailure(
    of check: String, sourceLocation: SourceLocation = #_sourceLocation,
    makeBackend: @Sendable () async throws -> any KeyValueBackend
) async {
    await expectFailure(of: check, sourceLocation: sourceLocation) { StoreUnderTest(try await makeBackend()) }
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
