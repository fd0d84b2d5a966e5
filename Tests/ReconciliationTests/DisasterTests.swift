import Testing

@testable import SyncCore

@Suite("Reconciling wiped stores and restored backups")
struct DisasterTests {
    @Test("A wiped remote gets everything again; nothing is deleted locally")
    func remoteWiped() throws {
        var scene = try Scene.synced(0b11)
        scene.remote = Cell()
        let report = try scene.sync().get()
        #expect(report.remoteGains)
        #expect(!report.localGains)
        #expect(scene.remote.facts == 0b11)
        #expect(scene.local.facts == 0b11)
    }

    @Test("A remote that was wiped while local facts were unsent gets everything again")
    func remoteWipedWhileDirty() throws {
        var scene = try Scene.synced(0b01)
        scene.record(local: 0b10)
        scene.remote = Cell()
        _ = try scene.sync().get()
        #expect(scene.remote.facts == 0b11)
        #expect(scene.requests == 2)
    }

    @Test("A remote that was restored from an older copy gets the lost facts again")
    func remoteRestored() throws {
        var scene = try Scene.synced(0b01)
        let backup = scene.remote
        scene.record(local: 0b10)
        _ = try scene.sync().get()
        scene.remote = backup
        let report = try scene.sync().get()
        #expect(report.remoteGains)
        #expect(scene.remote.facts == 0b11)
    }

    @Test("A rolled-back local copy also rolls back its checkpoint, and gets its facts again")
    func localRolledBack() throws {
        var scene = try Scene.synced(0b01)
        let backup = scene.local
        scene.record(local: 0b10)
        _ = try scene.sync().get()
        scene.local = backup
        let report = try scene.sync().get()
        #expect(report.localGains)
        #expect(scene.local.facts == 0b11)
        #expect(scene.requests == 1)
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

    @Test("Two sides that were rolled back to different times end with the union of both")
    func bothRolledBack() throws {
        var scene = try Scene.synced(0b001)
        let oldRemote = scene.remote
        scene.record(local: 0b010)
        _ = try scene.sync().get()
        let oldLocal = scene.local
        scene.record(local: 0b100)
        _ = try scene.sync().get()
        (scene.local, scene.remote) = (oldLocal, oldRemote)
        _ = try scene.sync().get()
        #expect(scene.local.facts == 0b011)
        #expect(scene.remote.facts == 0b011)
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
