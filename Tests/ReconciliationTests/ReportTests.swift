import SyncCoreTesting
import TestSupport
import Testing

@testable import SyncCore

@Suite("Reports of the reconciler")
struct ReportTests {
    @Test("The arrived content is the content read from the remote, without concurrent local records")
    func arrived() throws {
        var scene = Scene(local: 0b001, remote: 0b010)
        let report = try scene.sync(before: \.isSave) { $0.record(local: 0b100) }.get()
        #expect(report.arrivedContent == 0b010)
        #expect(report.localContent == 0b101)
        #expect(report.remoteContent == 0b111)
        #expect(report.content == 0b111)
    }

    @Test("The remote content is `nil` if the remote is unchanged, and known after a read or a write")
    func remoteContent() throws {
        var scene = try Scene.synced(0b001)
        #expect(try scene.sync().get().remoteContent == nil)
        #expect(try scene.sync(isDryRun: true).get().remoteContent == nil)
        scene.record(local: 0b010)
        let pushed = try scene.sync().get()
        #expect(pushed.remoteContent == 0b011 && pushed.arrivedContent == nil)
        scene.record(remote: 0b100)
        #expect(try scene.sync(isDryRun: true).get().remoteContent == 0b111)
        #expect(try scene.sync().get().remoteContent == 0b111)
        scene.remote = Cell()
        #expect(try scene.sync(isDryRun: true).get().remoteContent == 0)
    }

    @Test(
        "A sync whose push fails after a successful read reports that it received everything",
        arguments: [true, false])
    func pushFails(isSynced: Bool) throws {
        var scene = isSynced ? try Scene.synced(0b001) : Scene(local: 0b001, remote: 0b010)
        scene.record(local: 0b100)
        let result = scene.sync { _, step in step.isPush ? .fail(.full, .permanent) : .perform }
        #expect(result.error?.backendKind == .full)
        #expect(result.error?.hasReceived == true)
        #expect(scene.remote.facts & ~scene.local.facts == 0)
    }

    @Test("A sync that cannot read or save the remote's content reports that it received nothing")
    func notReceived() {
        var scene = Scene(local: 0b001, remote: 0b010)
        #expect(scene.sync { _, step in step.isSave ? .fail(.full, .permanent) : .perform }.error?.hasReceived == false)
        let unread = scene.sync { _, step in step == .readRemote ? .fail(.unavailable, .transient) : .perform }
        #expect(unread.error?.hasReceived == false)
    }

    @Test("A save whose response is lost before a concurrent record is one conflict, and its gains are reported")
    func lostSaveAndRecord() throws {
        var scene = Scene(local: 0b001, remote: 0b010)
        var saves = 0
        let report = try scene.sync { scene, step in
            guard step.isSave else { return .perform }
            saves += 1
            if saves == 2 { scene.record(local: 0b100) }
            return saves == 1 ? .loseAnswer : .perform
        }.get()
        #expect(report.conflicts == 1)
        #expect(report.content == 0b111)
        #expect(report.localContent & 0b010 == 0 && report.arrivedContent.map { $0 & 0b010 } == 0b010)
    }
}

@Suite("A remote document that is rewritten with the same content")
struct RewrittenRemoteTests {
    private let local = CountingBackend(MemoryBackend())
    private let memory = MemoryBackend()
    private let key: EntryKey
    private let document = FactSetMerge().close(OpenDocument(content: 0b11))

    init() throws {
        key = try EntryKey("k")
    }

    @Test(
        "A long-lived engine fetches the rewritten document once and saves at most one checkpoint",
        arguments: [true, false])
    func repeatedSyncs(comparesAndSwaps: Bool) async throws {
        let remote = CountingBackend(comparesAndSwaps ? memory : UnconditionalBackend(memory))
        let rewritten = comparesAndSwaps ? key : try EntryKey("k/other")
        let engine = SyncEngine(
            local: local, remote: remote, merge: FactSetMerge(), remoteID: "r", replica: "me")
        _ = try await memory.write(document, to: rewritten, if: .any)
        _ = try await engine.sync(key)
        _ = try await memory.write(document, to: rewritten, if: .any)
        _ = (local.takeCounts(), remote.takeCounts())
        let before = remote.fetchedByteCount
        for _ in 0..<10 {
            let report = try await engine.sync(key)
            #expect(!report.localGains && !report.remoteGains)
        }
        #expect(remote.fetchedByteCount - before == document.count)
        // Without compare-and-swap, each replica has its own entry. Such entries hold no checkpoints, so saving one
        // here causes no further write. A shared entry may be another replica's local copy: the two replicas would
        // record each other's checkpoints forever.
        #expect(local.takeCounts().writes == (comparesAndSwaps ? 0 : 1))
        #expect(remote.takeCounts().writes == 0)
    }

    @Test("The engine remembers the new version: the next push takes one request, and a restored copy is merged")
    func nextPush() async throws {
        let remote = CountingBackend(memory)
        let engine = SyncEngine(local: local, remote: remote, merge: FactSetMerge(), remoteID: "r")
        _ = try await memory.write(document, to: key, if: .any)
        _ = try await engine.sync(key)
        guard case .found(let backup) = try await local.read(key).outcome else {
            Issue.record("the local store has no entry \(key)")
            return
        }
        _ = try await memory.write(document, to: key, if: .any)
        _ = try await engine.sync(key)
        _ = remote.takeCounts()
        try await record(0b100)
        _ = try await engine.sync(key)
        #expect(remote.takeCounts().total == 1)
        // The remote now holds 0b111. The local copy holds 0b11 with a matching checkpoint.
        _ = try await local.write(backup.value, to: key, if: .any)
        try await record(0b1000)
        #expect(try await engine.sync(key).content == 0b1111)
        guard case .found(let there) = try await memory.read(key).outcome else {
            Issue.record("the remote has no entry \(key)")
            return
        }
        #expect(try FactSetMerge().open(there.value).content == 0b1111)
    }

    private func record(_ facts: UInt64) async throws {
        guard case .found(let entry) = try await local.read(key).outcome else {
            Issue.record("the local store has no entry \(key)")
            return
        }
        var document = try FactSetMerge().open(entry.value)
        document.content |= facts
        _ = try await local.write(FactSetMerge().close(document), to: key, if: .matches(entry.version))
    }
}
