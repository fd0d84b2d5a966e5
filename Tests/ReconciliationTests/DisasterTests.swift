import Testing

@testable import SyncCore

@Suite("Reconciling wiped stores and restored backups")
struct DisasterTests {
    /// The stores at three times: with the first fact, with a second one that was synced, and with a third one that was
    /// recorded locally. The sides are put back to a time; `nil` stands for a wiped store.
    @Test(
        "After any loss one sync gives both sides the union of what is left, with two requests if something is pushed",
        arguments: [
            (local: 1, remote: nil, facts: 0b011, requests: 2), (local: 2, remote: nil, facts: 0b111, requests: 2),
            (local: 1, remote: 0, facts: 0b011, requests: 2), (local: 2, remote: 0, facts: 0b111, requests: 2),
            (local: 0, remote: 1, facts: 0b011, requests: 1), (local: nil, remote: 1, facts: 0b011, requests: 1),
            (local: 0, remote: 0, facts: 0b001, requests: 1), (local: nil, remote: nil, facts: 0, requests: 1),
        ] as [(local: Int?, remote: Int?, facts: UInt64, requests: Int)])
    func losses(local: Int?, remote: Int?, facts: UInt64, requests: Int) throws {
        var scene = try Scene.synced(0b001)
        var times = [scene]
        scene.record(local: 0b010)
        _ = try scene.sync().get()
        times.append(scene)
        scene.record(local: 0b100)
        times.append(scene)
        scene.local = local.map { times[$0].local } ?? Cell()
        scene.remote = remote.map { times[$0].remote } ?? Cell()
        let before = (scene.local.facts, scene.remote.facts)
        let report = try scene.sync().get()
        #expect(scene.local.facts == facts && scene.remote.facts == facts)
        #expect(report.localGains == (before.0 != facts) && report.remoteGains == (before.1 != facts))
        #expect(scene.requests == requests)
    }

    @Test("Facts recorded on a rolled-back copy reach the remote, and its lost facts return")
    func recordedAfterRollback() throws {
        var scene = try Scene.synced(0b001)
        let backup = scene.local
        scene.record(local: 0b010)
        _ = try scene.sync().get()
        scene.local = backup
        scene.record(local: 0b100)
        _ = try scene.sync().get()
        #expect(scene.local.facts == 0b111)
        #expect(scene.remote.facts == 0b111)
    }

    @Test("Wiping the local store while it syncs with one remote removes nothing from another")
    func wipedBetweenRemotes() throws {
        var scene = try Scene.synced(0b011)
        let other = scene.remote
        scene.remote = Cell()
        scene.record(remote: 0b100)
        var hasInterfered = false
        scene.sync(with: "a remote that rejects writes") { scene, step in
            if step.isSave, !hasInterfered {
                hasInterfered = true
                scene.local = Cell()
            }
            return step.isPush ? .fail(.permissionDenied, .permanent) : .perform
        }
        #expect(scene.local.facts == 0b100)
        scene.remote = other
        _ = try scene.sync().get()
        #expect(scene.remote.facts & 0b011 == 0b011)
        #expect(scene.remote.facts == scene.local.facts)
    }

    @Test(
        "A checkpoint that another writer dropped or damaged costs one request, no conflict and no push",
        arguments: [[], [0], [1], [1, 255], [1, 1, 0, 200, 7], [2, 1, 0, 0], [UInt8](repeating: 255, count: 40)])
    func lostCheckpoint(section: [UInt8]) throws {
        var scene = try Scene.synced(0b11)
        let document = OpenDocument(content: scene.local.facts, localSection: section)
        scene.local.entry = Entry(value: FactSetMerge().close(document), version: scene.versions.next())
        let remote = scene.remote
        let report = try scene.sync().get()
        #expect(scene.steps == [.readLocal, .readRemote, .save(0b11)])
        #expect(report.conflicts == 0)
        #expect(scene.remote == remote)
        scene.sync()
        #expect(scene.steps == [.readLocal, .readRemoteUnlessUnchanged])
    }

    @Test("Unchanged content under a new version causes no write")
    func sameContentAnew() throws {
        var scene = try Scene.synced(0b11)
        let section: [UInt8] = [1, 0]
        let document = OpenDocument(content: scene.remote.facts, localSection: section)
        scene.remote.entry = Entry(value: FactSetMerge().close(document), version: scene.versions.next())
        let before = (scene.local, scene.remote)
        _ = try scene.sync().get()
        #expect((scene.local, scene.remote) == before)
        #expect(scene.requests == 1)
    }
}
