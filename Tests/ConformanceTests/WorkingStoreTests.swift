import Foundation
import SyncCore
import SyncCoreTesting
import Synchronization
import TestSupport
import Testing

@Suite("The conformance checks")
struct WorkingStoreTests {
    @Test("pass for the memory store, and skip only what it does not claim")
    func memory() async throws {
        let seed = printedSeed("memory")
        let report = await Conformance.run(seed: seed) {
            .memory(MemoryBackend(maximumValueByteCount: 1 << 21), seed: seed)
        }
        print("conformance of memory:\n\(report)")
        #expect(report.hasPassed, "\(report)")
        #expect(report.label?.hasPrefix("memory:") == true)
        let cannotFail = "`failing` is a FaultyBackend, which fails in front of the store and not in it"
        let expected = [
            "after an error the store is as the error's disposition says": cannotFail,
            "a failed read is never reported as absence": cannotFail,
            "an operation of unknown outcome happens at most once, possibly later": cannotFail,
            "unsupported preconditions are rejected, and nothing is written":
                "the store declares compare-and-swap",
            "operations through several objects on one store are linearizable":
                "the store declares that only one process may use it",
            "a store without changes throws `unsupported`": "the store declares changes",
            "a change through another object on the same store is signalled":
                "the store declares that only one process may use it",
            "a reopened store contains every acknowledged write": "the store declares no durability beyond the process",
            "a crash loses no acknowledged write": "the store declares no durability beyond the process",
            "no process reuses a version or a cursor, not even after a wipe or a restore":
                "no `lives` was supplied",
            "processes that are killed while writing lose no acknowledged write":
                "the store declares no durability beyond the process",
        ]
        #expect(Dictionary(uniqueKeysWithValues: report.skipped.map { ($0.check, $0.reason) }) == expected)
        #expect(report.passedCount == Conformance.checks.count - expected.count)
    }

    @Test("pass for the memory store without further operations, and report the skipped checks")
    func memoryAlone() async {
        let report = await Conformance.run(seed: 1) { MemoryBackend() }
        #expect(report.hasPassed, "\(report)")
        let reasons = Set(report.skipped.map(\.reason))
        #expect(
            reasons.isSuperset(of: [
                "no `failing` was supplied", "no `wipe` was supplied",
                "no `backup` was supplied", "the store declares no maximum size",
            ]))
    }

    @Test("pass for the stores that processes share, including killed processes", arguments: SharedKind.conditional)
    func shared(kind: SharedKind) async throws {
        let folder = try TemporaryFolder()
        await expectConformance(of: "\(kind)") {
            let path = "\(try folder.freshFolder())/store"
            return try await .inFolder(
                path,
                kill: { seed in
                    try await CrashTrial.run(
                        rounds: 5, seed: seed,
                        command: {
                            CrashTrial.Command(BuiltProgram.path(of: "StoreProbe"), ["write", "\(kind):\(path)", $0])
                        },
                        reopen: { kind.open(path) })
                },
                process: { path in
                    // A database file needs an existing folder.
                    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
                    return try await CrashTrial.history {
                        CrashTrial.Command(BuiltProgram.path(of: "StoreProbe"), ["write", "\(kind):\(path)", $0])
                    }
                },
                open: { path in
                    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
                    return kind.open(path)
                })
        }
    }

    @Test("pass for a retrying store over one that fails occasionally and loses answers")
    func retryOverFaulty() async {
        let seed = printedSeed("retry over faulty")
        let everything: [FaultyBackend.Fault] = [
            .transient, .lostRequest, .lostAnswer, .cancelled, .permanent(.full), .permanent(.unavailable),
            .permanent(.damaged),
        ]
        await expectConformance(of: "retry over faulty", seed: seed) {
            let memory = MemoryBackend()
            let patient = RetryPolicy(maximumAttempts: 40)
            let host = ManualHost(seed: seed).host
            var store = StoreUnderTest.memory(memory, seed: seed)
            store.backend = FaultyBackend(memory, plan: .seeded(seed, rate: 0.2, faults: [.transient]))
                .retrying(patient, host: host)
            store.failing = {
                FaultyBackend(memory, plan: .seeded(seed, rate: 0.3, faults: everything))
                    .retrying(RetryPolicy(maximumAttempts: 2), host: host)
            }
            return store
        }
    }

    @Test("pass for a counting store")
    func counting() async {
        await expectConformance(of: "counting") { CountingBackend(MemoryBackend()) }
    }

    @Test("pass for a store that rejects preconditions, and check that it does")
    func unconditional() async {
        let refusal = "unsupported preconditions are rejected, and nothing is written"
        let report = await Conformance.run(seed: printedSeed("unconditional")) {
            UnconditionalBackend(MemoryBackend(maximumValueByteCount: 1 << 21))
        }
        #expect(report.hasPassed, "\(report)")
        #expect(report.results.contains { $0.check == refusal && $0.outcome == .passed })
        #expect(report.skipped.contains { $0.reason == "the store declares no compare-and-swap" })
    }

    @Test("skip what a store does not declare, with a reason")
    func skipping() async {
        let report = await Conformance.run(seed: 1) { PlainBackend() }
        #expect(report.hasPassed, "\(report)")
        for reason in [
            "the store declares no compare-and-swap", "the store declares no changes",
            "the store declares no pushed signals",
        ] {
            #expect(report.skipped.contains { $0.reason == reason }, "nothing is skipped because \(reason)")
        }
        let unsupported = "a store without changes throws `unsupported`"
        #expect(report.results.contains { $0.check == unsupported && $0.outcome == .passed })
    }

    @Test("report a store that cannot be created as failed")
    func unavailable() async {
        let report = await Conformance.run(seed: 1) { () async throws -> any KeyValueBackend in
            throw BackendError(.unavailable, message: "no server")
        }
        #expect(!report.hasPassed && report.label == nil)
        #expect(report.failures.count == Conformance.checks.count)
        #expect(report.failures.allSatisfy { $0.reason == "no server" })
    }

    @Test("skip the error checks if the failing store never fails")
    func nothingFailed() async {
        let report = await Conformance.run(seed: 1) {
            let memory = MemoryBackend()
            return StoreUnderTest(memory, failing: { memory })
        }
        #expect(report.hasPassed)
        #expect(report.skipped.contains { $0.reason == "none of 120 writes and deletes failed" })
        #expect(report.skipped.contains { $0.reason == "none of 120 reads and listings failed" })
    }

    @Test("do not count a FaultyBackend in front of the store as a failing store")
    func faultyInFront() async {
        let report = await Conformance.run(seed: 1) {
            let memory = MemoryBackend()
            return StoreUnderTest(memory, failing: { FaultyBackend(memory, plan: .seeded(7, rate: 0.2)) })
        }
        #expect(report.hasPassed, "\(report)")
        let reason = "`failing` is a FaultyBackend, which fails in front of the store and not in it"
        #expect(report.skipped.count { $0.reason == reason } == 3)
    }

    @Test("skip the cancellation check if a store ignores cancellation")
    func nothingRefused() async {
        let report = await Conformance.run(seed: 1) { UncancellableBackend() }
        #expect(report.hasPassed, "\(report)")
        let reason = "the store finished every operation of a cancelled task"
        #expect(
            report.skipped.contains {
                $0.check == "a write that throws `cancelled` has not happened" && $0.reason == reason
            })
    }

    @Test("have unique names that fit on a line")
    func names() {
        let names = Conformance.checks.map(\.name)
        #expect(Set(names).count == names.count)
        #expect(names.allSatisfy { (10...90).contains($0.count) }, "\(names.filter { $0.count > 90 })")
    }
}

/// A memory store with the fewest possible guarantees.
private struct PlainBackend: KeyValueBackend {
    private let wrapped = UnconditionalBackend(MemoryBackend())

    let capabilities = Capabilities(
        compareAndSwap: false, durability: .process, changes: false, signals: .polled, sharedBetweenProcesses: false)
    let label = "plain:"

    func read(_ key: EntryKey, unless known: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        try await wrapped.read(key, unless: known)
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try await wrapped.write(value, to: key, if: precondition)
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        try await wrapped.delete(key, if: precondition)
    }

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        try await wrapped.list(prefix: prefix, after: cursor, limit: limit)
    }
}

/// A store that finishes every operation, even of a cancelled task.
private final class UncancellableBackend: KeyValueBackend {
    private let entries = Mutex<[EntryKey: Entry]>([:])

    let capabilities = Capabilities(
        compareAndSwap: false, durability: .process, changes: false, signals: .polled, sharedBetweenProcesses: false)
    let label = "heedless:"

    func read(_ key: EntryKey, unless known: EntryVersion?) async throws(BackendError) -> Answer<ReadOutcome> {
        guard let entry = entries.withLock({ $0[key] }) else { return Answer(.absent) }
        return Answer(entry.version == known ? .unchanged : .found(entry))
    }

    func write(_ value: [UInt8], to key: EntryKey, if precondition: Precondition) async throws(BackendError)
        -> Answer<WriteOutcome>
    {
        try refuse(precondition, .write, key)
        var generator = HostServices.system.generator
        let entry = Entry(value: value, version: .random(using: &generator))
        entries.withLock { $0[key] = entry }
        return Answer(.written(entry.version))
    }

    func delete(_ key: EntryKey, if precondition: Precondition) async throws(BackendError) -> Answer<WriteOutcome> {
        try refuse(precondition, .delete, key)
        entries.withLock { $0[key] = nil }
        return Answer(.deleted)
    }

    func list(prefix: String, after cursor: EntryKey?, limit: Int) async throws(BackendError) -> Answer<KeyPage> {
        let items = entries.withLock { entries in
            entries.map { KeyPage.Item(key: $0.key, version: $0.value.version) }
        }
        let rest = items.sorted { $0.key < $1.key }.filter { item in
            Array(item.key.text.utf8).starts(with: Array(prefix.utf8)) && cursor.map { $0 < item.key } ?? true
        }
        let page = Array(rest.prefix(limit))
        return Answer(KeyPage(items: page, next: rest.count > limit ? page.last?.key : nil))
    }

    private func refuse(
        _ precondition: Precondition, _ operation: BackendError.Operation, _ key: EntryKey
    ) throws(BackendError) {
        guard precondition != .any else { return }
        throw BackendError(
            .unsupported, operation: operation, key: key, message: "this store cannot write conditionally")
    }
}
