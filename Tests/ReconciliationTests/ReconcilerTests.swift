import Testing

@testable import SyncCore

@Suite("Reconciling with concurrent writers")
struct ReconcilerTests {
    @Test("A push that conflicts is repeated with the returned entry, without another read")
    func pushConflict() throws {
        var scene = Scene(local: 0b001, remote: 0b010)
        let report = try scene.sync(before: \.isPush) { $0.record(remote: 0b100) }.get()
        #expect(report.content == 0b111)
        #expect(report.conflicts == 1)
        #expect(scene.remote.facts == 0b111)
        #expect(scene.local.facts == 0b111)
        #expect(scene.steps.count { $0 == .readRemote } == 1)
        #expect(scene.requests == 3)
    }

    @Test("A fact recorded during a request to the remote is pushed by the same sync")
    func localConflict() throws {
        var scene = Scene(local: 0b001, remote: 0b010)
        let report = try scene.sync(before: \.isSave) { $0.record(local: 0b100) }.get()
        #expect(report.content == 0b111)
        #expect(scene.remote.facts == 0b111)
        #expect(scene.local.facts == 0b111)
        #expect(scene.steps.filter(\.isPush).count == 2)
    }

    @Test("A push of unknown outcome is repeated with the same bytes under the same precondition")
    func unknownPushThatFailed() throws {
        var scene = try Scene.synced(0b001)
        scene.record(local: 0b010)
        var pushes = 0
        let report = try scene.sync { _, step in
            guard step.isPush else { return .perform }
            pushes += 1
            return pushes < 3 ? .fail(.unavailable, .outcomeUnknown) : .perform
        }.get()
        let sent = scene.steps.filter(\.isPush)
        #expect(sent.count == 3)
        #expect(Set(sent.map { "\($0)" }).count == 1)
        #expect(report.remoteGains)
        #expect(scene.remote.facts == 0b011)
    }

    @Test("A push with a lost acknowledgement is recognized, and reported as sent without a conflict")
    func unknownPushThatHappened() throws {
        var scene = try Scene.synced(0b001)
        scene.record(local: 0b010)
        let report = try scene.sync(answeringFirst: \.isPush, with: .loseAnswer).get()
        #expect(report.remoteGains)
        #expect(report.conflicts == 0)
        #expect(scene.remote.facts == 0b011)
        scene.sync()
        #expect(scene.steps == [.readLocal, .readRemoteUnlessUnchanged], "the checkpoint is of our own write")
    }

    @Test("A local save of unknown outcome is repeated until its outcome is known", arguments: [true, false])
    func unknownSave(didHappen: Bool) throws {
        var scene = Scene(remote: 0b010)
        let answer: Scene.Answer = didHappen ? .loseAnswer : .fail(.unavailable, .outcomeUnknown)
        let report = try scene.sync(answeringFirst: \.isSave, with: answer).get()
        #expect(report.localGains && report.conflicts == 0)
        #expect(scene.local.facts == 0b010)
        #expect(scene.steps.filter(\.isSave).count == 2)
    }

    @Test(
        "Endless concurrent writes to the remote end in contention after the maximum of attempts",
        arguments: [1, 3, 10])
    func remoteContention(attempts: Int) {
        var scene = Scene(local: 0b1, remote: 0b10)
        var next: UInt64 = 0b100
        let result = scene.sync(maximumAttempts: attempts) { scene, step in
            if step.isPush {
                scene.record(remote: next)
                next <<= 1
            }
            return .perform
        }
        #expect(result.error?.attempts == attempts)
        #expect(result.error?.side == .remote)
        #expect(result.error?.isTransient == true)
        #expect(scene.steps.filter(\.isPush).count == attempts)
        #expect(scene.steps.filter { $0 == .pause }.count == attempts - 1)
    }

    @Test("Endless concurrent writes to the local store end in contention on the local side")
    func localContention() {
        var scene = Scene(remote: 0b1)
        var next: UInt64 = 0b10
        let result = scene.sync(maximumAttempts: 4) { scene, step in
            if step.isSave {
                scene.record(local: next)
                next <<= 1
            }
            return .perform
        }
        #expect(result.error?.attempts == 4)
        #expect(result.error?.side == .local)
    }

    @Test("A push without an answer ends with the backend's error, and the remote's content is saved")
    func neverAnswered() {
        var scene = Scene(local: 0b01, remote: 0b10)
        let result = scene.sync(maximumAttempts: 5) { _, step in
            step.isPush ? .fail(.unavailable, .outcomeUnknown) : .perform
        }
        #expect(result.error?.backendKind == .unavailable)
        #expect(result.error?.side == .remote)
        #expect(scene.steps.filter(\.isPush).count == 5)
        #expect(scene.local.facts == 0b11)
    }
}
