import Testing

@testable import SyncCore

@Suite("A dry run")
struct DryRunTests {
    enum Case: CaseIterable {
        case bothEmpty, nothingChanged, remoteChanged, localChanged, bothChanged, newDevice, newRemote, firstContact
        case wipedRemote, wipedRemoteWhileDirty, restoredRemote, rolledBackLocal, lostCheckpoint

        func scene() throws -> Scene {
            switch self {
            case .bothEmpty: return Scene()
            case .newDevice: return Scene(remote: 0b10)
            case .newRemote: return Scene(local: 0b01)
            case .firstContact: return Scene(local: 0b01, remote: 0b10)
            default: return try afterSync()
            }
        }

        private func afterSync() throws -> Scene {
            var scene = try Scene.synced(0b0001)
            let first = scene
            scene.record(local: 0b0010)
            _ = try scene.sync().get()
            switch self {
            case .remoteChanged: scene.record(remote: 0b0100)
            case .localChanged: scene.record(local: 0b1000)
            case .bothChanged:
                scene.record(remote: 0b0100)
                scene.record(local: 0b1000)
            case .wipedRemote: scene.remote = Cell()
            case .wipedRemoteWhileDirty:
                scene.record(local: 0b1000)
                scene.remote = Cell()
            case .restoredRemote: scene.remote = first.remote
            case .rolledBackLocal: scene.local = first.local
            case .lostCheckpoint:
                let document = OpenDocument(content: scene.local.facts)
                scene.local.entry = Entry(value: FactSetMerge().close(document), version: scene.versions.next())
            default: break
            }
            return scene
        }
    }

    @Test("It writes to neither side and makes one request to the remote", arguments: Case.allCases)
    func writesNothing(_ situation: Case) throws {
        var scene = try situation.scene()
        let before = (scene.local, scene.remote)
        _ = try scene.sync(isDryRun: true).get()
        #expect((scene.local, scene.remote) == before)
        #expect(scene.requests == 1)
        #expect(!scene.steps.contains { $0.isPush || $0.isSave })
    }

    @Test("It predicts the result of the following sync", arguments: Case.allCases)
    func tellsTheTruth(_ situation: Case) throws {
        var scene = try situation.scene()
        let (localBefore, remoteBefore) = (scene.local.facts, scene.remote.facts)
        let promised = try scene.sync(isDryRun: true).get()
        let done = try scene.sync().get()
        #expect(promised.content == localBefore | remoteBefore)
        #expect(promised.content == done.content)
        #expect(promised.localGains == (scene.local.facts != localBefore))
        #expect(promised.remoteGains == (scene.remote.facts != remoteBefore))
        #expect(done.localGains == promised.localGains)
        #expect(done.remoteGains == promised.remoteGains)
    }

    @Test("It reports damage as a sync does and changes nothing")
    func damage() {
        var scene = Scene(local: 0b1)
        scene.remote.entry = Entry(value: [0], version: scene.versions.next())
        let before = scene.remote
        #expect(scene.sync(isDryRun: true).error?.isNewerDocument == false)
        #expect(scene.remote == before)
    }
}
