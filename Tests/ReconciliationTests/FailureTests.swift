import Testing

@testable import SyncCore

@Suite("Reconciliation with damaged documents and failing backends")
struct FailureTests {
    enum Damage: CaseIterable {
        case garbage, newer, empty

        var bytes: [UInt8] {
            switch self {
            case .garbage: [0, 1, 2, 3]
            case .newer: [2, 0, 0, 0, 0, 0, 0, 0, 7]
            case .empty: []
            }
        }
    }

    private func entry(_ damage: Damage, _ scene: inout Scene) -> Entry {
        Entry(value: damage.bytes, version: scene.versions.next())
    }

    @Test(
        "An unreadable remote document is an error, and neither side is written",
        arguments: Damage.allCases)
    func damagedRemote(_ damage: Damage) {
        var scene = Scene(local: 0b1)
        scene.remote.entry = entry(damage, &scene)
        let before = (scene.local, scene.remote)
        let result = scene.sync()
        #expect(result.error?.isNewerDocument == (damage == .newer))
        #expect(result.error?.side == .remote)
        #expect((scene.local, scene.remote) == before)
    }

    @Test("An unreadable local document is an error, and no request is made to the remote", arguments: Damage.allCases)
    func damagedLocal(_ damage: Damage) {
        var scene = Scene(remote: 0b1)
        scene.local.entry = entry(damage, &scene)
        let before = (scene.local, scene.remote)
        let result = scene.sync()
        #expect(result.error?.isNewerDocument == (damage == .newer))
        #expect(result.error?.side == .local)
        #expect((scene.local, scene.remote) == before)
        #expect(scene.requests == 0)
    }

    @Test("A remote document that is damaged before the push is not overwritten", arguments: Damage.allCases)
    func remoteDamagedMeanwhile(_ damage: Damage) throws {
        var scene = try Scene.synced(0b01)
        scene.record(local: 0b10)
        let broken = entry(damage, &scene)
        let result = scene.sync { scene, step in
            if step.isPush { scene.remote.entry = broken }
            return .perform
        }
        #expect(result.error?.isNewerDocument == (damage == .newer))
        #expect(scene.remote.entry == broken)
    }

    @Test("A local document that is damaged before the save is not overwritten", arguments: Damage.allCases)
    func localDamagedMeanwhile(_ damage: Damage) {
        var scene = Scene(remote: 0b1)
        let broken = entry(damage, &scene)
        let result = scene.sync { scene, step in
            if step.isSave { scene.local.entry = broken }
            return .perform
        }
        #expect(result.error?.side == .local)
        #expect(result.error?.isNewerDocument == (damage == .newer))
        #expect(scene.local.entry == broken)
    }

    @Test("A failed read of the remote is not treated as absence, and neither side is written")
    func unreadableRemote() {
        var scene = Scene(local: 0b1, remote: 0b10)
        let before = (scene.local, scene.remote)
        let result = scene.sync { _, step in step == .readRemote ? .fail(.damaged, .permanent) : .perform }
        #expect(result.error?.backendKind == .damaged)
        #expect(result.error?.side == .remote)
        #expect((scene.local, scene.remote) == before)
    }

    @Test("A failed local read is not treated as absence, and no request is made to the remote")
    func unreadableLocal() {
        var scene = Scene(local: 0b1, remote: 0b10)
        let result = scene.sync { _, step in step == .readLocal ? .fail(.unavailable, .transient) : .perform }
        #expect(result.error?.backendKind == .unavailable)
        #expect(result.error?.side == .local)
        #expect(scene.requests == 0)
    }

    @Test("A first sync without write permission saves the remote's content and fails")
    func rejectedAfterRead() {
        var scene = Scene(local: 0b01, remote: 0b10)
        let result = scene.sync { _, step in step.isPush ? .fail(.permissionDenied, .permanent) : .perform }
        #expect(result.error?.backendKind == .permissionDenied)
        #expect(result.error?.side == .remote)
        #expect(scene.local.facts == 0b11)
        #expect(scene.remote.facts == 0b10)
    }

    @Test("A rejected push is followed by a read, and the remote's changes are saved")
    func rejectedBeforeRead() throws {
        var scene = try Scene.synced(0b001)
        scene.record(local: 0b010)
        scene.record(remote: 0b100)
        let result = scene.sync { _, step in step.isPush ? .fail(.permissionDenied, .permanent) : .perform }
        #expect(result.error?.backendKind == .permissionDenied)
        #expect(scene.local.facts == 0b111)
        #expect(scene.remote.facts == 0b101)
        #expect(scene.requests == 2)
    }

    @Test("Rejected facts are pushed once the remote accepts writes")
    func rejectedThenAccepted() throws {
        var scene = Scene(local: 0b01, remote: 0b10)
        scene.sync { _, step in step.isPush ? .fail(.full, .permanent) : .perform }
        let report = try scene.sync().get()
        #expect(report.remoteGains)
        #expect(scene.remote.facts == 0b11)
        #expect(scene.requests == 1)
    }

    @Test("A temporarily unavailable remote gets one request per sync")
    func unavailableRemote() throws {
        var scene = try Scene.synced(0b01)
        scene.record(local: 0b10)
        let result = scene.sync { _, step in step.isPush ? .fail(.unavailable, .transient) : .perform }
        #expect(result.error?.isTransient == true)
        #expect(scene.requests == 1)
    }

    @Test("After a push whose save fails, the next sync saves the merged content and pushes nothing")
    func saveFails() throws {
        var scene = Scene(local: 0b01, remote: 0b10)
        let result = scene.sync { _, step in step.isSave ? .fail(.full, .permanent) : .perform }
        #expect(result.error?.backendKind == .full)
        #expect(result.error?.side == .local)
        #expect(scene.remote.facts == 0b11)
        let report = try scene.sync().get()
        #expect(scene.local.facts == 0b11)
        #expect(!report.remoteGains)
    }
}
